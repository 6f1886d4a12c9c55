"""Engines that report their load and not the size of their KV cache: the status says that the prediction stands in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.v1alpha1.status import (
    HostCacheStatus,
    HostStatus,
    InferenceDeploymentStatus,
    PlacementStatus,
    PoolStatus,
)
from plimsoll.cli.plans import story
from plimsoll.console.views.deployment import page
from plimsoll.decision.observing import HOST_CACHE, about_cache, reported_now, reported_tokens, silent_pools
from plimsoll.decision.surroundings import Surroundings, pool_views
from plimsoll.domain.units import GIB
from plimsoll.facts.models.pooling import as_pooling
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals, SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.status.record.reading import Record, read
from plimsoll.status.record.report import Report
from plimsoll.status.words.placed import host_error_words
from plimsoll.status.writing import HIDDEN_CACHE, document_of, new_status
from tests.app.test_rebalancing import NOW, pods_of
from tests.render.workloads import decision
from tests.status.test_record_reading import ENTRY
from tests.support.planning import request
from tests.support.pooling import bge_m3, qwen3_embedding

NOTED = read({"pools": [{**ENTRY, "name": "h100-sxm-80gb-tp1", "kvTokensNote": HIDDEN_CACHE}]})
NAME = ENTRY["name"]


def pods(count: int = 2) -> Surroundings:
    return Surroundings({NAME: pods_of(count).pods["a"]}, {})


def samples(pod: str, *capacities: int | None, usage: float | None = 0.3) -> PodSignals:
    found = (
        EngineSample(at=NOW - 15 * age, kv_usage=usage, kv_capacity_tokens=each) for age, each in enumerate(capacities)
    )
    return PodSignals(pod, tuple(found))


def reading(*pods: PodSignals) -> Reading:
    return Reading({each.pod: each for each in pods})


def silent(*read_pods: PodSignals, record: Record | None = None, known: tuple[str, ...] = ()) -> bool:
    return NAME in silent_pools(pods(), reading(*read_pods), record or Record(), known)


def test_engines_that_never_name_a_size_are_silent() -> None:
    assert silent(samples("a-0", None, None), samples("a-1", None, None, None))
    assert silent(samples("a-0", None, None)), "the other pod has no sample yet"


@pytest.mark.parametrize(
    "read_pods",
    [
        (samples("a-0", 70_000, None), samples("a-1", None, 70_000)),
        (samples("a-0", None),),
        (samples("a-0", None, None, usage=None),),
        (),
    ],
    ids=["both name it", "one sample", "no load either", "nothing read"],
)
def test_others_are_not(read_pods: tuple[PodSignals, ...]) -> None:
    assert not silent(*read_pods)


def test_an_earlier_report_counts_while_an_engine_says_nothing() -> None:
    assert not silent(samples("a-0", None, None), known=(NAME,))


def test_pods_that_do_not_serve_yet_are_no_matter() -> None:
    starting = Surroundings({NAME: tuple(replace(pod, ready=False) for pod in pods().pods[NAME])}, {})
    assert silent_pools(starting, reading(samples("a-0", None, None)), Record(), ()) == frozenset()


def test_what_an_encoder_s_engine_reports_of_a_cache_counts_for_nothing() -> None:
    seen = reading(samples("a-0", 70_000, 70_000), samples("a-1", 70_000, 70_000))
    without, keeping = (replace(request(), model=model) for model in (bge_m3(), as_pooling(qwen3_embedding())))
    assert reported_now(pods(), about_cache(seen, keeping)) == {NAME: 70_000}
    assert reported_now(pods(), about_cache(seen, None)) == {NAME: 70_000}
    assert reported_now(pods(), about_cache(seen, without)) == {}
    mute = about_cache(reading(samples("a-0", None, None)), without)
    assert silent_pools(pods(), mute, Record(), ()) == frozenset()


def test_what_was_seen_stays_while_nobody_answers() -> None:
    for nobody in (Reading(state=SignalState.UNAVAILABLE), None):
        assert silent_pools(pods(), nobody, NOTED, ()) == {NAME}
        assert silent_pools(pods(), nobody, Record(), ()) == frozenset()
    heard = (samples("a-0", 70_000, 70_000), samples("a-1", 70_000, 70_000))
    assert not silent(*heard, record=NOTED)


@pytest.mark.parametrize("is_silent", [True, False])
def test_the_pool_says_so_in_the_status_and_explain_repeats_it(is_silent: bool) -> None:  # noqa: FBT001 - a column
    views = pool_views(pods(), Record(), {}, {NAME} if is_silent else (), now=0.0)
    [pool] = document_of(new_status(Report("llama", 1, 1, decision(), pools=views), Record(), "2026-01-01T00:00:00Z"))[
        "pools"
    ]
    assert pool.get("kvTokensNote") == (HIDDEN_CACHE if is_silent else None)
    words = story._learned(PoolStatus.model_validate(pool), None)  # noqa: SLF001 - one line of a long text
    assert words == (", engine reports no size of its KV cache" if is_silent else "")


def test_the_size_of_a_cache_in_host_memory_that_engines_report_is_shown_and_kept() -> None:
    """The smallest of the ready pods counts, and the last report while Prometheus is away. A neighbour has none."""

    def pod(name: str, tokens: int | None) -> PodSignals:
        return PodSignals(name, (EngineSample(NOW, kv_usage=0.3, kv_capacity_tokens=70_000, host_cache_tokens=tokens),))

    now = reported_now(pods(), reading(pod("a-0", 1_048_576), pod("a-1", 1_048_000)), HOST_CACHE)
    assert now == {NAME: 1_048_000}
    assert reported_now(pods(), reading(pod("a-0", None), pod("a-1", None)), HOST_CACHE) == {}

    def status(record: Record, found: dict[str, int]) -> dict[str, Any]:
        kept = reported_tokens(record, 1, found, HOST_CACHE)
        views = pool_views(pods(), record, {NAME: 70_000}, in_host=kept, now=0.0)
        report = Report("llama", 1, 1, decision(), pools=views)
        return document_of(new_status(report, record, "2026-01-01T00:00:00Z"))

    first = status(Record(), now)
    [shown] = first["pools"]
    assert shown["hostTokensReported"] == 1_048_000
    words = story._learned(PoolStatus.model_validate(shown), None)  # noqa: SLF001 - one line of a long text
    assert words.endswith(", and 1048000 in host memory")
    [kept] = status(read(first), {})["pools"]
    assert kept["hostTokensReported"] == 1_048_000
    [neighbour] = status(Record(), {})["pools"]
    assert "hostTokensReported" not in neighbour


@pytest.mark.parametrize(
    ("estimated", "is_least", "reported", "difference"),
    [
        (1_048_000, False, 1_048_000, " (estimate 0.0 %)"),
        (1_048_000, False, 524_000, " (estimate +100.0 %)"),
        (524_000, False, 1_048_000, " (estimate -50.0 %)"),
        (524_000, True, 1_048_000, ""),  # it was the least that is kept
        (1_048_000, True, 524_000, " (estimate +100.0 %)"),
        (1_048_000, False, 0, ""),
    ],
)
def test_the_estimate_of_a_cache_in_host_memory_is_compared_with_the_engines_report(
    estimated: int,
    is_least: bool,  # noqa: FBT001 - a column
    reported: int,
    difference: str,
) -> None:
    """Of a pool that goes nothing is compared: the estimate is that of the placement."""
    found = HostCacheStatus(size_bytes=GIB, tokens=estimated, is_least=is_least or None)
    assert host_error_words(found, reported) == difference
    pools = [
        PoolStatus.model_validate({**ENTRY, "name": state, "state": state, "hostTokensReported": tokens})
        for state, tokens in (("Active", reported), ("Retiring", 9))
    ]
    host = HostStatus.model_construct(cache=found, layers=None)
    status = InferenceDeploymentStatus.model_construct(
        placement=PlacementStatus.model_construct(host=host), pools=pools
    )
    [shown] = page._host_memory(status)  # noqa: SLF001 - one line of a page
    assert shown.words.endswith(f"An engine reports {reported:,} tokens{difference}.")
    active, retiring = (story._pool(pool, found) for pool in pools)  # noqa: SLF001 - one line of a long text
    assert active.endswith(f"Active, and {reported} in host memory{difference}.")
    assert retiring.endswith("Retiring, and 9 in host memory.")
