"""A deployment's own requests under each law: the same for all, each counted once, and the smallest static fleet."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from plimsoll.cli.commands.simulate import Simulated, simulation_run_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.policy import ScheduledMinimum
from plimsoll.simulation import replay as replaying
from plimsoll.simulation.past import PastStep, drawn_from
from plimsoll.simulation.replay import ENOUGH_PERCENT, OURS, PEERS, Replay, Replayed, cut, replayed
from plimsoll.simulation.values import Arrival, Routing
from tests.support.tables import every_case

MINUTES = 20.0


@cache
def usual() -> Any:
    asked = Simulated(
        "meta-llama/Llama-3.1-8B-Instruct", "l40s-48gb", concurrency=64, context_length=4096, max_replicas=4
    )
    return simulation_run_of(asked)


def requests_of(rate: float, seconds: float, begin: float = 0.0) -> tuple[Arrival, ...]:
    return tuple(drawn_from([PastStep(begin, seconds, rate, 900.0, 150.0)], seed=3))


def replay_of(*arrivals: Arrival, **changed: Any) -> Replay:
    run = usual()
    given: dict[str, Any] = {"replicas": 1, "startup_seconds": 60.0, "scrape_seconds": 15.0}
    return Replay(run.kind, arrivals, 60 * MINUTES, run.policy, **given | changed)


BUSY = (*requests_of(0.5, 300), *requests_of(14.0, 600, 300), *requests_of(0.5, 300, 900))
"""Five minutes that one replica carries, ten that need more, and five as before."""


@cache
def busy() -> tuple[Replayed, ...]:
    return tuple(replayed(replay_of(*BUSY)))


def test_every_law_serves_the_same_requests_and_each_of_them_is_counted_once() -> None:
    laws = busy()
    assert [each.law for each in laws][:2] == [OURS, "static 1"]
    assert [each.law for each in laws][-len(PEERS) :] == list(PEERS)
    assert {each.requests for each in laws} == {len(BUSY)}
    assert all(0 <= each.goodput <= 100 and each.goodput + each.errors <= 100 + 1e-9 for each in laws)


def test_the_same_replay_gives_the_same_answer() -> None:
    assert tuple(replayed(replay_of(*BUSY))) == busy()


def test_a_fixed_number_stays_and_costs_its_hours_and_the_live_loop_follows_the_load() -> None:
    ours, own, *_ = busy()
    assert (own.changes, own.fewest, own.most) == (0, 1, 1)
    assert own.gpu_hours == pytest.approx(usual().kind.place.split.gpus * MINUTES / 60)
    assert own.usd is not None
    assert ours.most > 1
    assert ours.goodput > own.goodput
    assert ours.gpu_hours > own.gpu_hours


def test_the_smallest_fleet_that_suffices_is_shown_and_one_replica_less_would_not() -> None:
    shown = [each for each in busy() if each.law.startswith("static ")]
    assert len(shown) == 2
    smallest = shown[1]
    assert smallest.goodput >= ENOUGH_PERCENT
    less = next(
        each
        for each in replayed(replay_of(*BUSY, replicas=smallest.most - 1))
        if each.law == f"static {smallest.most - 1}"
    )
    assert less.goodput < ENOUGH_PERCENT


def test_of_a_fleet_that_is_too_large_a_smaller_one_is_shown_and_of_one_that_is_right_none() -> None:
    calm = requests_of(0.5, 60 * MINUTES)
    large, right = (
        [each.law for each in replayed(replay_of(*calm, replicas=replicas)) if each.law.startswith("static")]
        for replicas in (4, 1)
    )
    assert (large, right) == (["static 4", "static 1"], ["static 1"])


def test_where_no_fleet_suffices_none_is_named() -> None:
    flood = requests_of(60.0, 120)
    laws = [each.law for each in replayed(replay_of(*flood))]
    assert [each for each in laws if each.startswith("static")] == ["static 1"]


def test_the_replicas_of_a_schedule_serve_when_its_time_comes() -> None:
    begins, started = 600.0, list[float]()

    def schedule(now: float) -> tuple[ScheduledMinimum, ...]:
        opening = Opening() if begins <= now < begins + 300 else Opening(is_open=False, opens_at=begins)
        return (ScheduledMinimum(3, opening),)

    calm = requests_of(0.3, 60 * MINUTES)
    run = replaying._Run(  # noqa: SLF001 - when replicas serve is no part of the answer
        replay_of(*calm, schedule=schedule),
        replaying._Law(OURS),  # noqa: SLF001 - as above
        lambda _law, _part: None,
    )
    found = run.result()
    started = [each.ready_since or 0.0 for each in run._fleet.replicas]  # noqa: SLF001 - as above
    assert found.most == 3
    assert begins - 90 <= max(started) <= begins
    plain = next(iter(replayed(replay_of(*calm))))
    assert plain.most == 1, "the neighbour without a schedule"


def test_progress_is_said_of_each_law_until_it_is_done() -> None:
    seen = dict[str, list[float]]()
    laws = list(replayed(replay_of(*BUSY[:60]), lambda law, part: seen.setdefault(law, []).append(part)))
    assert seen.keys() >= {each.law for each in laws}
    assert all(parts == sorted(parts) and parts[-1] == 1.0 for parts in seen.values())


@every_case(
    ("changed", "field"),
    [
        ({"arrivals": ()}, "requests"),
        ({"arrivals": (BUSY[0],) * (replaying.MOST_REQUESTS + 1)}, "requests"),
        ({"seconds": 0.0}, "seconds"),
        ({"seconds": replaying.MOST_SECONDS + 1}, "seconds"),
    ],
    ids=["nothing", "too many", "no time", "too long"],
)
def test_what_cannot_be_replayed_is_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(replay_of(*BUSY[:2]), **changed)
    assert str(refused.value).startswith(f"{field}: ")


def test_a_request_that_no_replica_holds_is_cut_and_the_others_are_not() -> None:
    assert cut(Arrival(0.0, 90, 10), 100) == Arrival(0.0, 90, 10)
    assert cut(Arrival(0.0, 90, 50, 20), 100) == Arrival(0.0, 90, 10, 20)
    assert cut(Arrival(0.0, 500, 50, 400), 100) == Arrival(0.0, 99, 1, 98)


# -- what was counted --------------------------------------------------------------------------------------------------


def test_requests_are_drawn_at_the_rate_and_the_lengths_of_each_step_and_none_in_a_hole() -> None:
    steps = [PastStep(0.0, 300.0, 10.0, 1000.0, 200.0, 400.0), PastStep(600.0, 300.0, 2.0, 300.0, 50.0)]
    found = list(drawn_from(steps, seed=1))
    first, hole, last = ([each for each in found if begin <= each.at < begin + 300] for begin in (0.0, 300.0, 600.0))
    assert hole == []
    assert len(first) == pytest.approx(3000, rel=0.06)
    assert len(last) == pytest.approx(600, rel=0.12)
    assert sum(each.prompt_tokens for each in first) / len(first) == pytest.approx(1000, rel=0.06)
    assert sum(each.output_tokens for each in first) / len(first) == pytest.approx(200, rel=0.06)
    assert sum(each.cached_tokens for each in first) / len(first) == pytest.approx(400, rel=0.07)
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert found == list(drawn_from(steps, seed=1)) != list(drawn_from(steps, seed=2))


def test_a_step_without_requests_and_lengths_below_a_token_are_no_error() -> None:
    assert list(drawn_from([PastStep(0.0, 300.0, 0.0, 1.0, 1.0)], seed=1)) == []
    tiny = list(drawn_from([PastStep(0.0, 300.0, 1.0, 0.0, 0.0)], seed=1))
    assert all(each.prompt_tokens >= 1 and each.output_tokens >= 1 and each.cached_tokens == 0 for each in tiny)


def _crowd(rate: float) -> list[Arrival]:
    """Requests of which four of five begin with the same 512 tokens."""
    random = Random(5)  # noqa: S311 - a draw of a test
    return [
        replace(each, blocks=(0,) if random.random() < 0.8 else (number,))
        for number, each in enumerate(requests_of(rate, 60 * MINUTES), start=1)
    ]


def test_a_router_that_keeps_a_prefix_at_one_replica_brings_no_more_of_them_than_an_even_one() -> None:
    ours = {
        (routing, rate): next(iter(replayed(replay_of(*_crowd(rate), replicas=2, routing=routing))))
        for routing, rate in ((Routing.LEAST_LOADED, 14.0), (Routing.PREFIX, 14.0), (Routing.PREFIX, 32.0))
    }
    even, sticky, rise = ours.values()
    assert even.law == OURS
    assert even.most == sticky.most == 2
    assert sticky.goodput >= 97
    assert rise.most > 2, "requests that two replicas cannot serve ask for more with that router, too"
