"""Prompts that begin alike: what counters show of them, and the bounds that follow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.law.reuse import Reuse, reuse_of
from plimsoll.rebalance.law.wishes import DeploymentLoad, Need, wish_of
from plimsoll.rebalance.signals.load import LoadSummary
from tests.support.engine_loads import KV_TOKENS, Serves, moments, pod, replica_model, summary
from tests.support.tables import examples

MODEL = replica_model()


def seen(pods: int, load: Serves, behind: float | None = None) -> tuple[LoadSummary, Reuse | None]:
    """So many pods with this load, of whose prompt tokens a share was found behind the GPUs."""
    found = [pod(f"pod-{index}", load, moments()) for index in range(pods)]
    if behind is not None:
        found = [
            replace(
                each,
                samples=tuple(
                    replace(one, behind_hit_tokens_total=behind * (one.prefix_queried_tokens_total or 0.0))
                    for one in each.samples
                ),
            )
            for each in found
        ]
    known = summary(*found)
    assert known.traffic is not None
    load_of_all = DeploymentLoad(
        known.traffic, pods, KV_TOKENS, rise=0.0, is_settled=False, most_work=None, startup_seconds=0.0,
        stay_seconds=1800.0, starting=(), apart=0, lost=0.0, share=1.0, served=known.traffic.served,
    )  # fmt: skip
    wish = wish_of(load_of_all, MODEL)
    return known, reuse_of(known, wish, MODEL)


def test_the_shares_and_the_times_are_those_of_the_counters() -> None:
    """Two pods of 400,000 tokens, 3 % in use, at 12 requests a second each of 3,000 and 100 tokens."""
    _, found = seen(2, Serves(rate=12.0, prompt=3000.0, output=100.0, cached=0.4), behind=0.1)
    assert found is not None
    assert found.found == pytest.approx(0.4)
    assert found.behind == pytest.approx(0.1)
    assert found.flow == pytest.approx(2 * 12 * 3100, rel=0.02)
    assert found.kept_seconds == pytest.approx(0.97 * 800_000 / (24 * 3100), rel=0.02)
    assert found.rate == pytest.approx(12.0, rel=0.02)
    _, unknown = seen(2, Serves(rate=12.0, prompt=3000.0, output=100.0, cached=0.4))
    assert unknown is not None
    assert unknown.behind is None


def test_what_runs_may_take_more_than_the_caches_that_are_known_hold() -> None:
    known, _ = seen(2, Serves(rate=12.0, prompt=3000.0, output=100.0, cached=0.4))
    assert known.traffic is not None
    wish = seen(2, Serves(rate=12.0, prompt=3000.0, output=100.0, cached=0.4))[1]
    assert wish is not None
    for held in (int(known.traffic.used_tokens) - 1, 0):
        found = reuse_of(replace(known, held_tokens=held), wish.wish, MODEL)
        assert found is not None
        assert found.kept_seconds == 0.0


def test_where_the_cache_sets_the_number_nothing_is_said_of_prompts() -> None:
    known, found = seen(2, Serves(rate=0.5, kv_usage=0.99, running=200))
    assert found is None
    assert known.traffic is not None
    assert reuse_of(LoadSummary(known.state), None, MODEL) is None
    assert reuse_of(known, None, MODEL) is None


@settings(max_examples=examples(60), deadline=None)
@given(
    rate=st.floats(1.0, 30.0),
    prompt=st.floats(200.0, 6000.0),
    cached=st.integers(0, 90),
    percents=st.lists(st.integers(0, 100), min_size=2, max_size=4),
)
def test_more_that_is_found_never_needs_more_replicas(
    *, rate: float, prompt: float, cached: int, percents: list[int]
) -> None:
    _, found = seen(3, Serves(rate=rate, prompt=prompt, cached=cached / 100))
    if found is None:
        return
    assert found.wish.need is Need.ARRIVALS
    needed = [found.replicas_at(percent / 100) for percent in sorted(percents)]
    assert all(fewer <= more for more, fewer in pairwise(needed))
    assert abs(found.replicas_at(found.found) - found.wish.replicas) <= 1
    assert found.replicas_at(-1e-17) == found.replicas_at(0.0)


def test_fewer_replicas_do_where_more_of_the_prompts_is_found_and_the_wish_stands_where_nothing_is_known() -> None:
    known, found = seen(6, Serves(rate=12.0, prompt=3000.0, output=10.0, cached=0.0))
    assert found is not None
    none, half, all_of_it = (found.replicas_at(share) for share in (0.0, 0.5, 0.99))
    assert none > half > all_of_it >= 1
    assert (none, half) == (found.wish.replicas, 4)
    blind = replace(found, wish=replace(found.wish, capacity=None, replicas=5))
    assert blind.replicas_at(0.5) == 5
    assert known.traffic is not None
