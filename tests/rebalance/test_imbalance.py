"""Ranks of one pod: one has no room for its requests while the others have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.engine_troubles import uneven_ranks
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.traffic import PodLoad
from plimsoll.rebalance.state.decisions import DecisionReason, Keep
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import NOW, Serves, moments, pod, summary, traffic
from tests.support.live_situations import BUSY, situation
from tests.support.tables import every_case

FULL_RANK = 0.9
ROOM_ELSEWHERE = 0.6

QUIET = Serves(rate=4, running=150)
UNEVEN = (0.95, 0.3, 0.2, 0.25)


def ranks(*uses: float, name: str = "p") -> PodLoad:
    [idle] = traffic(Serves(rate=0.0)).loads
    return replace(idle, pod=name, running=8.0, kv_use=sum(uses) / max(1, len(uses)), rank_uses=uses)


def test_a_full_rank_next_to_empty_ones_is_found_with_its_figures() -> None:
    assert uneven_ranks([ranks(0.2, 0.4, 0.95, 0.3)]) == (
        ("pod", "p"),
        ("rank", 2),
        ("rank_percent", 95),
        ("mean_percent", 30),
    )


@every_case(
    "uses",
    [
        (),
        (0.99,),
        (0.95, 0.95, 0.95, 0.95),
        (FULL_RANK - 0.01, 0.1),
        (0.99, ROOM_ELSEWHERE + 0.01),
        (0.5, 0.1, 0.2, 0.3),
    ],
    ids=["nothing known", "one rank", "all full", "not full", "others are busy, too", "an easy load"],
)
def test_an_even_load_and_a_light_one_are_no_imbalance(uses: tuple[float, ...]) -> None:
    assert uneven_ranks([ranks(*uses)]) == ()


def test_at_the_bounds_it_is_one() -> None:
    assert uneven_ranks([ranks(FULL_RANK, ROOM_ELSEWHERE)])


def test_of_several_pods_the_fullest_rank_is_named() -> None:
    pods = [ranks(0.92, 0.1, name="a"), ranks(0.5, 0.5, name="b"), ranks(0.1, 0.97, name="c")]
    assert dict(uneven_ranks(pods)) == {"pod": "c", "rank": 1, "rank_percent": 97, "mean_percent": 10}


@pytest.mark.parametrize(
    ("queues", "is_found"),
    [
        ((0.0, 7.0, 0.5), True),
        ((0.0, 5.0, 0.0), True),
        ((0.0, 4.9, 0.0), False),
        ((3.0, 7.0, 0.0), False),
        ((1.0, 7.0, 1.0), False),
        ((), False),
    ],
    ids=["one waits", "just long enough", "a short queue", "others wait, too", "a request waits at each", "not known"],
)
def test_a_queue_at_one_rank_is_an_imbalance_whatever_its_cache(queues: tuple[float, ...], is_found: bool) -> None:  # noqa: FBT001 - a column
    numbers = dict(uneven_ranks([replace(ranks(0.3, 0.4, 0.5), rank_queues=queues)]))
    assert bool(numbers) is is_found
    if is_found:
        assert (numbers["rank"], numbers["rank_waiting"], numbers["mean_waiting"]) == (1, round(queues[1]), 0)


def test_the_queues_are_in_the_words_where_they_are_known() -> None:
    numbers = uneven_ranks([replace(ranks(0.1, 0.95), rank_queues=(0.0, 3.0))])
    words = sentence(Keep(DecisionReason.RANKS_IMBALANCED, numbers))
    assert "have 10 % on average; 3 requests wait there, and 0 at each of the others. If a gateway" in words


# -- as a diagnosis ----------------------------------------------------------------------------------------------------


def with_ranks(load: Serves, *by_scrape: tuple[float, ...]) -> LoadSummary:
    """One pod whose last scrapes had these uses; all before them had the first."""
    samples = pod("p0", load, moments()).samples
    uses = [by_scrape[0]] * (len(samples) - len(by_scrape)) + list(by_scrape)
    return summary(PodSignals("p0", tuple(map(_with, samples, uses))), now=NOW)


def _with(sample: EngineSample, uses: tuple[float, ...]) -> EngineSample:
    return replace(sample, rank_usages=uses, kv_usage=sum(uses) / len(uses))


def found(load: Serves, *by_scrape: tuple[float, ...], **more: Any) -> Diagnosis:
    where = situation(load, load=with_ranks(load, *by_scrape), **more)
    return diagnose(where, judged(where))


def test_uneven_ranks_are_diagnosed_with_advice() -> None:
    diagnosis = found(QUIET, UNEVEN)
    assert (diagnosis.kind, diagnosis.reason) == (DiagnosisKind.IMBALANCED, DecisionReason.RANKS_IMBALANCED)
    assert diagnosis.replicas == 0, "more replicas would not help"
    words = sentence(Keep(diagnosis.reason, diagnosis.numbers))
    assert "rank 0 of pod p0 has 95 % of its KV cache in use, and the others have 25 % on average" in words
    assert "spec.contextLength" in words
    assert found(QUIET, (0.5, 0.4, 0.4, 0.4)).kind is DiagnosisKind.NOTHING_TO_CHANGE


def test_uneven_ranks_hide_no_pressure() -> None:
    diagnosis = found(BUSY, UNEVEN)
    assert diagnosis.reason is DecisionReason.ARRIVALS_EXCEED_CAPACITY
    assert diagnosis.replicas > 1


def test_one_long_request_that_fills_a_rank_for_a_scrape_is_none() -> None:
    even = (0.3, 0.3, 0.3, 0.3)
    assert found(QUIET, even, UNEVEN).kind is DiagnosisKind.NOTHING_TO_CHANGE
    assert found(QUIET, even, *6 * (UNEVEN,)).reason is DecisionReason.RANKS_IMBALANCED


def test_ranks_that_came_lately_are_judged_alone() -> None:
    """An engine with another number of ranks replaced one of the same name."""
    assert found(QUIET, (0.1, 0.1), UNEVEN).reason is DecisionReason.RANKS_IMBALANCED


@pytest.mark.parametrize(("scrapes", "is_found"), [(3, False), (4, True)])
def test_the_queue_of_a_rank_is_its_mean_over_the_last_minute(scrapes: int, is_found: bool) -> None:  # noqa: FBT001 - a column
    """The minute has five scrapes, and eight requests wait in some of them: 4.8 or 6.4 on average."""
    samples = pod("p0", QUIET, moments()).samples
    waiting = [(8.0, 0.0)] * scrapes
    queues = [(0.0, 0.0)] * (len(samples) - scrapes) + waiting
    queued = (replace(_with(each, (0.3, 0.3)), rank_queues=queue) for each, queue in zip(samples, queues, strict=True))
    where = situation(QUIET, load=summary(PodSignals("p0", tuple(queued)), now=NOW))
    assert (diagnose(where, judged(where)).reason is DecisionReason.RANKS_IMBALANCED) is is_found
