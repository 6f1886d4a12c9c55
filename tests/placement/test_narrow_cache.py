"""An fp8 KV cache by permission: where it is chosen, how much it must save, and that running engines keep it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.highs import fleetwide
from plimsoll.decision.observing import failed_starts, observed_now
from plimsoll.decision.surroundings import Surroundings
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.observations import Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import Option, Placed, Split
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import Reason, SuggestionKind
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.failures import read_failure
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.demands.pools import Decision, Pool, Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.candidates import candidate_on
from plimsoll.placement.options.feasibility import judge_load
from plimsoll.placement.places.place import first_that_fits, place
from plimsoll.placement.plan import plan
from tests.support.planning import (
    A100,
    H100,
    L4,
    L40S,
    T4,
    chosen,
    fleet,
    gpu,
    node,
    placed,
    pool,
    refusal,
    request,
    unplaceable,
)
from tests.support.tables import examples

CARDS = fleet(node("a", L4, 1), node("b", L40S, 4), node("c", H100, 8))
WIDE = request(context=8192, concurrency=6, objective=Objective.BATCH)
"""6 GiB of KV cache in 16 bits: too much for an L4, where half of it fits."""
PERMITTED = replace(WIDE, may_narrow_cache=True)
WIDE_ANYWAY = replace(request(context=2048, concurrency=4), may_narrow_cache=True)


def decided(wanted: Request, *pools: Pool, where: Fleet = CARDS, generation: int = 1) -> Decision:
    (decision,) = plan([Tenant(wanted, generation, pools)], where, solver=fleetwide())
    return decision


def test_16_bits_are_kept_without_permission_and_fp8_is_chosen_with_it_where_it_saves() -> None:
    assert chosen(placed(WIDE, CARDS).choice) == (L40S, 1)
    outcome = placed(PERMITTED, CARDS)
    assert chosen(outcome.choice) == (L4, 1)
    assert outcome.choice.has_narrow_cache
    assert outcome.choice.settings.kv_cache_dtype == "fp8"
    assert any("spec.kvCache.allowFp8 permits" in warning for warning in outcome.warnings)


def test_where_16_bits_fit_the_permission_changes_nothing() -> None:
    with_it, without = placed(WIDE_ANYWAY, CARDS), placed(replace(WIDE_ANYWAY, may_narrow_cache=False), CARDS)
    assert with_it == without
    assert with_it.choice.settings.kv_cache_dtype == "auto"


@pytest.mark.parametrize(("price", "narrow"), [("0.89", True), ("0.91", False)])
def test_fp8_must_save_more_than_a_tenth(price: str, narrow: bool) -> None:  # noqa: FBT001
    where = fleet(node("a", gpu(L4, price=price), 1), node("b", gpu(L40S, price="1.00"), 4))
    for choice in (placed(PERMITTED, where).choice, decided(PERMITTED, where=where).choice):
        assert choice is not None
        assert choice.has_narrow_cache is narrow
        assert choice.gpu.name == (L4 if narrow else L40S)


def test_an_option_that_saves_too_little_is_named_with_both_prices() -> None:
    where = fleet(node("a", gpu(L4, price="0.95"), 1), node("b", gpu(L40S, price="1.00"), 4))
    rejected = refusal(placed(PERMITTED, where), L4, 1)
    assert rejected.reason is Reason.NARROW_CACHE_SAVES_LITTLE
    assert dict(rejected.numbers) == {"price": "0.95", "best_price": "1"}
    assert refusal(placed(WIDE, where), L4, 1).reason is Reason.KV_CACHE_TOO_SMALL
    dearer = fleet(node("a", gpu(L4, price="1.05"), 1), node("b", gpu(L40S, price="1.00"), 4))
    assert refusal(placed(PERMITTED, dearer), L4, 1).reason is Reason.COSTS_MORE


def test_fp8_is_taken_where_it_is_the_only_way() -> None:
    small = fleet(node("a", gpu(L4, price="9.99"), 1), node("b", gpu(L40S, price="1.00"), 4, held=4))
    assert chosen(placed(PERMITTED, small).choice) == (L4, 1)
    unplaceable(WIDE, small)


def test_a_gpu_without_fp8_caches_gets_none() -> None:
    old, new = fleet(node("a", T4, 1)), fleet(node("a", "a30-24gb", 1))
    small: dict[str, Any] = {"precision": Precision.FP16, "context": 32768, "concurrency": 16, "may_narrow_cache": True}
    wanted = request("Qwen/Qwen2.5-1.5B-Instruct", **small)
    assert refusal(unplaceable(wanted, old), T4, 1).reason is Reason.KV_CACHE_TOO_SMALL
    narrow = refusal(unplaceable(wanted.with_narrow_cache(), old), T4, 1)
    assert dict(narrow.numbers)["what"] == "kvCache.precision fp8"
    many = replace(wanted, shape=replace(wanted.shape, concurrency=24))
    assert placed(many, new).choice.has_narrow_cache


def test_what_runs_with_fp8_keeps_it_when_16_bits_would_fit_now() -> None:
    narrow = pool(L4, has_narrow_cache=True)
    for generation in (1, 2):
        kept = decided(WIDE_ANYWAY, narrow, generation=generation)
        assert kept.choice is not None
        assert kept.choice.has_narrow_cache
        assert kept.pools[0].has_narrow_cache
    fresh = decided(WIDE_ANYWAY)
    assert fresh.choice is not None
    assert not fresh.choice.has_narrow_cache


def test_what_runs_with_16_bits_is_not_narrowed_under_the_same_spec() -> None:
    kept = decided(PERMITTED, pool(L4))
    assert kept.outgrown is not None
    assert kept.outgrown.reason is Reason.KV_CACHE_TOO_SMALL
    assert not kept.pools[0].has_narrow_cache


def test_a_larger_load_may_narrow_what_runs_where_it_is() -> None:
    grown = decided(PERMITTED, pool(L4), generation=2)
    assert [(each.gpu_type, each.has_narrow_cache) for each in grown.pools] == [(L4, True)]


def test_without_the_permission_a_narrow_cache_is_given_up() -> None:
    withdrawn = decided(replace(WIDE_ANYWAY, may_narrow_cache=False), pool(L4, has_narrow_cache=True), generation=2)
    assert withdrawn.choice is not None
    assert withdrawn.choice.settings.kv_cache_dtype == "auto"
    assert not withdrawn.pools[0].has_narrow_cache


def test_an_fp8_cache_is_not_suggested_to_somebody_who_permits_it() -> None:
    dear = fleet(node("a", L4, 1), node("b", L40S, 4))
    assert SuggestionKind.NARROW_KV_CACHE in {each.kind for each in decided(WIDE, where=dear).suggestions}
    assert SuggestionKind.NARROW_KV_CACHE not in {each.kind for each in decided(PERMITTED, where=dear).suggestions}


def test_engines_teach_about_the_cache_that_they_have() -> None:
    there = {"l4-24gb-tp1": (PodFacts("one", bound=True, ready=True, ended=False, terminating=False),)}
    around, reported = Surroundings(there, {}), {"l4-24gb-tp1": 30_000}
    kinds = []
    for narrow in (True, False):
        runs = (pool(L4, has_narrow_cache=narrow),)
        [seen] = observed_now(PERMITTED, runs, around, reported, CARDS, generation=1, spec="s")
        kinds.append(seen.observation.kind.kv_precision)
    assert kinds == [KvPrecision.FP8, KvPrecision.BF16]


def test_a_place_where_an_fp8_engine_ran_out_of_memory_is_not_tried_again() -> None:
    kind = PERMITTED.with_narrow_cache().engine_kind(L4, Split(1))
    failed = Seen(Observation(kind, Witness.OUT_OF_MEMORY, 0, None), "s")
    assert failed_starts(PERMITTED, (failed,)) == ((L4, Split(1)),)
    assert failed_starts(WIDE, (failed,)) == ()
    again = placed(replace(PERMITTED, failed_starts=((L4, Split(1)),)), CARDS)
    assert chosen(again.choice) == (L40S, 1)


@settings(max_examples=examples(40), deadline=None)
@given(
    context=st.sampled_from([2048, 8192, 16384, 65536]),
    concurrency=st.integers(1, 48),
    prices=st.tuples(*(st.sampled_from(["0.80", "0.90", "1.00", "1.10", "1.20"]) for _ in range(3))),
)
def test_the_choice_is_the_better_of_both_caches_by_the_rule(
    context: int, concurrency: int, prices: tuple[str, str, str]
) -> None:
    names = zip((L4, L40S, A100), prices, strict=True)
    where = fleet(*(node(name, gpu(name, price=price), 4) for name, price in names))
    wanted = request(context=context, concurrency=concurrency)
    both = place(replace(wanted, may_narrow_cache=True), where)
    wide, narrow = place(wanted, where), place(replace(wanted, kv_precision=KvPrecision.FP8), where)
    if not isinstance(wide, Placed):
        assert isinstance(both, Placed) == isinstance(narrow, Placed)
        return
    assert isinstance(both, Placed)
    assert both.choice.doubts <= wide.choice.doubts
    assert first_that_fits(replace(wanted, may_narrow_cache=True), where, Ledger.of(where)) in (both.choice, None)
    if both.choice.has_narrow_cache and both.choice.doubts == wide.choice.doubts:
        assert _price(both.choice) <= 0.9 * _price(wide.choice)
    elif both.choice.doubts == wide.choice.doubts:
        assert both.choice == wide.choice


def _price(choice: Option) -> float:
    assert choice.hourly_price is not None
    return float(choice.hourly_price)


def test_the_failure_of_a_narrow_engine_counts_for_its_own_kind() -> None:
    crashed = PodFacts(
        "one",
        bound=True,
        ready=False,
        ended=False,
        terminating=False,
        failure=read_failure("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        restarts=2,
    )
    runs = (pool(L4, ready=0, has_narrow_cache=True, too_large=True),)
    around = Surroundings({"l4-24gb-tp1": (crashed,)}, {})
    [seen] = observed_now(PERMITTED, runs, around, {}, CARDS, generation=1, spec="s")
    assert seen.observation.kind.kv_precision is KvPrecision.FP8
    assert failed_starts(PERMITTED, (seen,)) == ((L4, Split(1)),)


def test_between_two_caches_with_the_same_doubt_the_one_of_16_bits_is_taken() -> None:
    """Spot nodes that nobody asked for are a doubt with either of them."""
    spot = replace(node("s", spot_type(gpu(L40S)), 1), capacity_type=CapacityType.SPOT)
    where = fleet(spot)
    found = judge_load(
        replace(PERMITTED, objective=Objective.BALANCED),
        candidate_on(spot.gpu, Split(1), where, restricted=False),
        where,
    )
    assert isinstance(found, Option)
    assert (found.doubts > 0, found.has_narrow_cache) == (True, False)
