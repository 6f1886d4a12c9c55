"""How unevenly a router spreads requests: it is measured, learned slowly, kept, and gives the KV cache more room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.law.capacity import ConcurrencyLimit, capacity_of
from plimsoll.rebalance.law.dispersion import dispersion_of, learned
from plimsoll.rebalance.law.spread import Spread
from plimsoll.rebalance.signals.traffic import Traffic
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.memory import LoopMemory, Suspect
from plimsoll.rebalance.state.situation import Serving
from tests.support.engine_loads import KV_TOKENS, LENGTHS, NOW, Serves, replica_model, traffic
from tests.support.live_situations import loads_of, situation

USUAL, MOST = 0.5, 10.0
FILLED_SECONDS = 180.0

shares = st.lists(st.floats(0.02, 1.0), min_size=2, max_size=8)


def holding(*shares: float) -> list[Serves]:
    """Engines that hold these parts of their KV caches."""
    return [Serves(kv_usage=each, running=max(1.0, each * KV_TOKENS / LENGTHS.in_cache)) for each in shares]


def after(memory: LoopMemory, seen: Traffic, turns: int = 40, pods: Sequence[str] | None = None) -> float:
    names = [each.pod for each in seen.loads] if pods is None else pods
    for turn in range(turns):
        memory = memory.with_dispersion(replace(seen, end=NOW + 30.0 * turn), names)
    return memory.dispersion


# -- the index ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "index"),
    [((100.0, 100.0, 100.0), 0.0), ((90.0, 110.0), 0.2), ((50.0, 100.0, 150.0), 2.5), ((50.0, 50.0), 0.0)],
)
def test_the_index_is_the_variance_over_the_mean_in_requests(held: tuple[float, ...], index: float) -> None:
    assert dispersion_of(held, 10.0) == pytest.approx(index)


@pytest.mark.parametrize("held", [(), (900.0,), (40.0, 50.0), (0.0, 0.0)])
def test_of_one_replica_and_of_few_requests_nothing_is_said(held: tuple[float, ...]) -> None:
    assert dispersion_of(held, 10.0) is None


@pytest.mark.parametrize("seed", range(5))
def test_requests_that_go_to_any_replica_have_an_index_of_one_and_to_the_emptiest_hardly_any(seed: int) -> None:
    rng, emptiest = Random(seed), [0] * 8  # noqa: S311 - a simulation
    seen = []
    for _ in range(200):
        anywhere = [0] * 8
        for _ in range(400):
            anywhere[rng.randrange(8)] += 1
            emptiest[emptiest.index(min(emptiest))] += 1
        seen.append(dispersion_of([1000.0 * each for each in anywhere], 1000.0))
    assert fmean(each or 0.0 for each in seen) == pytest.approx(1.0, rel=0.15)
    assert dispersion_of([1000.0 * each for each in emptiest], 1000.0) == 0


# -- what is learned ---------------------------------------------------------------------------------------------------


@given(known=st.floats(0, MOST), seen=st.floats(0, 1000), replicas=st.integers(2, 100), seconds=st.floats(1, 600))
def test_what_is_learned_lies_between_what_was_known_and_seen(
    known: float, seen: float, replicas: int, seconds: float
) -> None:
    found = learned(known, seen, replicas, seconds)
    assert min(known, seen, MOST) <= found * (1 + 1e-9)
    assert found <= min(max(known, seen) * (1 + 1e-9), MOST)
    more = learned(known, seen, replicas + 1, seconds)
    assert abs(more - seen) <= abs(found - seen) + 1e-9, "more replicas are believed more"


def test_it_is_learned_step_by_step_and_once_of_the_same_samples() -> None:
    seen = traffic(*holding(0.2, 0.3, 0.4, 0.5))
    index = dispersion_of([each.used_tokens for each in seen.loads], seen.lengths.in_cache if seen.lengths else 0.0)
    assert index is not None
    assert after(LoopMemory(), seen, turns=1) < USUAL + 0.15 * (index - USUAL)
    assert after(LoopMemory(), seen, turns=100) == pytest.approx(min(MOST, index), rel=0.05)
    once = LoopMemory().with_dispersion(seen, ["p0", "p1", "p2", "p3"])
    assert once.with_dispersion(replace(seen, end=seen.end + seen.recent.seconds - 1), ["p0", "p1", "p2", "p3"]) == once


@pytest.mark.parametrize("pods", [[], ["p0"], ["elsewhere", "p3"]])
def test_pods_that_do_not_count_teach_nothing(pods: list[str]) -> None:
    assert after(LoopMemory(), traffic(*holding(0.1, 0.9, 0.1, 0.9)), pods=pods) == USUAL


def test_before_lengths_are_known_nothing_is_learned() -> None:
    assert after(LoopMemory(), replace(traffic(*holding(0.1, 0.9)), lengths=None)) == USUAL


@pytest.mark.parametrize("age", [FILLED_SECONDS - 1, FILLED_SECONDS])
def test_a_replica_that_has_just_begun_to_serve_says_nothing_of_the_router(age: float) -> None:
    loads = holding(0.5, 0.5, 0.02)
    serving = tuple(Serving(f"p{index}", "", NOW - since) for index, since in enumerate((9000.0, 9000.0, age)))
    known = judged(situation(load=loads_of(*loads), replicas=3, ready=3, serving=serving)).memory
    assert (known.dispersion > USUAL) is (age >= FILLED_SECONDS)


def test_a_slow_replica_says_nothing_of_the_router_and_the_others_do() -> None:
    """It holds more because each request stays longer. The two others hold the same."""
    even, slow = holding(0.5, 0.5), replace(holding(0.99)[0], token_seconds=0.5)
    serving = tuple(Serving(f"p{index}", "", NOW - 9000) for index in range(3))
    there = situation(load=loads_of(*even, slow), replicas=3, ready=3, serving=serving)
    known = Suspect("p2", DecisionReason.REPLICA_SLOW, NOW - 900, 25.0, 0.5, 0.02)
    found = judged(replace(there, memory=LoopMemory(suspects=(known,)))).memory
    assert [each.pod for each in found.suspects] == ["p2"]
    assert found.dispersion < USUAL
    unlike = situation(load=loads_of(*even, *holding(0.99)), replicas=3, ready=3, serving=serving)
    assert judged(unlike).memory.dispersion > USUAL, "the same of a replica that is not slow"


@pytest.mark.parametrize("waiting", [0.0, 20.0])
def test_a_replica_to_which_more_is_sent_is_a_finding_of_its_own(waiting: float) -> None:
    """While it alone has a queue, it is ``LoadImbalanced``. Without one, it is chance or the router."""
    even, favoured = holding(0.5, 0.5), replace(holding(0.99)[0], rate=12.0, waiting=waiting)
    serving = tuple(Serving(f"p{index}", "", NOW - 9000) for index in range(3))
    there = situation(load=loads_of(*even, favoured), replicas=3, ready=3, serving=serving)
    assert (judged(there).memory.dispersion < USUAL) is (waiting > 0)


def test_the_model_of_a_replica_has_all_that_was_learned() -> None:
    known, model = LoopMemory("here", slowness=1.2, dispersion=2.6, spread=Spread(95, 3.0)), replica_model()
    assert known.known_of(model) == replace(model, slowness=1.2, dispersion=2.6, spread=Spread(95, 3.0))


def test_it_is_the_routers_and_stays_at_another_pool_and_after_a_restart() -> None:
    known = LoopMemory("here", dispersion=2.6)
    assert known.about("there").dispersion == 2.6
    assert LoopMemory.of(known.learned).dispersion == 2.6
    assert not known.learned.is_like(LoopMemory("here").learned)


@pytest.mark.parametrize(
    ("written", "found", "is_like"),
    [(2.0, 2.9, True), (2.0, 3.1, False), (2.0, 1.1, True), (2.0, 0.9, False), (0.5, 0.1, True), (0.5, 0.74, True)],
)
def test_what_chance_makes_of_a_variance_and_a_router_more_even_than_usual_are_not_written(
    written: float, found: float, *, is_like: bool
) -> None:
    assert LoopMemory(dispersion=found).learned.is_like(LoopMemory(dispersion=written).learned) is is_like


# -- what it changes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("index", "deviations"), [(0.1, 1.3), (0.5, 1.3), (2.0, 2.6), (4.5, 3.9)])
def test_the_room_grows_with_the_root_of_the_index(index: float, deviations: float) -> None:
    assert replace(replica_model(), dispersion=index).kv_deviations == pytest.approx(deviations)


def test_the_less_even_the_less_a_full_cache_carries_and_nothing_else_changes() -> None:
    tight = replica_model(kv_tokens=60_000)
    found = [capacity_of(replace(tight, dispersion=each), LENGTHS) for each in (0.0, 0.2, USUAL, 1.0, 2.7, MOST)]
    assert {each.limit for each in found} == {ConcurrencyLimit.KV_CACHE}
    assert [each.running for each in found[:3]] == 3 * [found[2].running], "more even than usual gives no more"
    rest = [each.running for each in found[2:]]
    assert rest == sorted(set(rest), reverse=True)
    assert rest[-1] >= 1
    batch = replica_model(max_sequences=8)
    assert capacity_of(replace(batch, dispersion=MOST), LENGTHS) == capacity_of(batch, LENGTHS)


@pytest.mark.parametrize("limit", [20.0, 50.0, 200.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cache_at_its_capacity_is_seldom_full_whatever_the_router_does(limit: float, seed: int) -> None:
    """The requests of a replica vary as the index says: with means for it, a tenth of the moments at most are full."""
    rng = Random(seed)  # noqa: S311 - a simulation
    kv_tokens = int(limit * LENGTHS.in_cache / 0.95)
    for index in (0.5, 1.0, 3.0):
        model = replace(replica_model(kv_tokens=kv_tokens), dispersion=index)
        mean = capacity_of(model, LENGTHS, promised=False).running
        drawn = [rng.gammavariate(mean / index, index) for _ in range(2000)]
        assert fmean(each > limit for each in drawn) < 0.1, index
