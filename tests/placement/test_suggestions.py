"""Suggestions: which changes are named for a deployment that is placed, with which saving, and when there are none."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.catalog import other_checkpoints
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import Placed, Suggestion
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import Reason, SuggestionKind
from plimsoll.domain.requests.serving import Overrides, Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.placement.advice import suggestions
from plimsoll.placement.advice.suggestions import LEAST_SAVING, Suggester
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.speed import load_of
from plimsoll.placement.places.place import place
from plimsoll.placement.plan import plan
from tests.support.planning import A100, H100, L4, L40S, LLAMA_8B, fleet, gpu, model, node, pool, request

MOST_SUGGESTIONS = 3

NARROW, EXPECTED, OTHER = (
    SuggestionKind.NARROW_KV_CACHE,
    SuggestionKind.EXPECTED_LENGTHS,
    SuggestionKind.OTHER_CHECKPOINT,
)
CARDS = fleet(node("a", L4, 1), node("b", L40S, 4), node("c", H100, 8))
ON_L40S = request(context=8192, concurrency=6)
"""6 GiB of KV cache: it needs an L40S in 16 bits, and an L4 in 8 bits."""


def decided(wanted: Request, where: Fleet = CARDS) -> Decision:
    (decision,) = plan([Tenant(wanted, 1)], where, relatives=other_checkpoints)
    return decision


def kinds(decision: Decision) -> set[SuggestionKind]:
    return {each.kind for each in decision.suggestions}


def numbers(decision: Decision, kind: SuggestionKind) -> dict[str, int | str]:
    return dict(of(decision, kind).numbers)


def of(decision: Decision, kind: SuggestionKind) -> Suggestion:
    return next(each for each in decision.suggestions if each.kind is kind)


def test_each_change_is_named_with_what_a_placement_with_it_costs() -> None:
    decision = decided(ON_L40S)
    assert decision.choice is not None
    assert decision.choice.gpu.name == L40S
    assert kinds(decision) == {NARROW, EXPECTED, OTHER}
    changed = replace(ON_L40S, kv_precision=KvPrecision.FP8)
    outcome = place(changed, CARDS)
    assert isinstance(outcome, Placed)
    assert outcome.choice.hourly_price is not None
    assert decision.choice.hourly_price is not None
    assert outcome.choice.performance is not None
    narrow = of(decision, NARROW)
    assert narrow.hourly_saving == decision.choice.hourly_price - outcome.choice.hourly_price
    assert narrow.tpot_seconds == outcome.choice.performance.tpot_seconds
    assert numbers(decision, NARROW)["place"] == "l4-24gb x 1"


def test_a_smaller_checkpoint_is_named_where_a_large_cache_just_fits_beside_it() -> None:
    """65,536 tokens take 8 GiB, and the checkpoint 8.5 GiB of an L4's 24 GB."""
    decision = decided(request(context=8192, concurrency=8))
    assert decision.choice is not None
    assert decision.choice.gpu.name == L40S
    assert numbers(decision, OTHER)["place"] == "l4-24gb x 1"


@pytest.mark.parametrize(("promised", "is_named"), [(0.04, True), (0.02, False)])
def test_a_card_that_is_too_slow_is_suggested_with_a_change_that_makes_it_fast_enough(
    promised: float, *, is_named: bool
) -> None:
    wanted = request(context=8192, concurrency=4, slo=Slo(20.0, promised))
    decision = decided(wanted)
    slow = [each.gpu_type for each in decision.rejections if each.reason is Reason.TOO_SLOW]
    assert L4 in slow
    found = [each for each in decision.suggestions if dict(each.numbers)["place"] == "l4-24gb x 1"]
    assert bool(found) is is_named
    assert all(each.tpot_seconds is not None and each.tpot_seconds <= promised for each in found)


def test_the_saving_is_that_of_all_replicas() -> None:
    where = fleet(*(node(name, L4, 1) for name in "xyz"), node("b", L40S, 4))
    one, three = decided(ON_L40S, where), decided(replace(ON_L40S, replicas=3), where)
    saving = of(one, NARROW).hourly_saving
    assert saving is not None
    assert of(three, NARROW).hourly_saving == 3 * saving


def test_nothing_is_suggested_for_gpus_that_are_not_free() -> None:
    taken = fleet(node("a", L4, 1, held=1), node("b", L40S, 4))
    assert decided(ON_L40S, taken).suggestions == ()
    assert decided(replace(ON_L40S, replicas=2)).suggestions == ()  # the L4 takes one of them
    assert kinds(decided(ON_L40S)) == {NARROW, EXPECTED, OTHER}


def test_the_gpus_of_the_choice_count_as_free_for_fewer_of_them_and_no_others() -> None:
    """A change that another card opens is not judged on cards that others hold, however few of them it needs."""
    full, opens = node("a", gpu(L4, price="0.10"), 1, held=1), node("x", gpu("a10-24gb", price="0.20"), 1)
    decision = decided(ON_L40S, fleet(full, opens, node("b", gpu(L40S, price="1.00"), 4)))
    assert {numbers(decision, kind)["place"] for kind in kinds(decision)} == {"a10-24gb x 1"}


def test_gpus_that_a_younger_deployment_takes_are_not_free() -> None:
    younger = request(context=2048, concurrency=4, name="younger", created="2026-01-02")
    first, second = plan([Tenant(ON_L40S, 1), Tenant(younger, 1)], CARDS, relatives=other_checkpoints)
    assert second.choice is not None
    assert second.choice.gpu.name == L4
    assert first.suggestions == ()


@pytest.mark.parametrize(("price", "named"), [("0.90", True), ("0.91", False)])
def test_a_suggestion_saves_a_tenth_of_the_bill(price: str, named: bool) -> None:  # noqa: FBT001
    where = fleet(node("a", gpu(L4, price=price), 1), node("b", gpu(L40S, price="1.00"), 4))
    assert bool(decided(ON_L40S, where).suggestions) is named


def test_the_cheapest_card_leaves_nothing_to_suggest() -> None:
    assert decided(request(context=2048, concurrency=4)).suggestions == ()


def test_without_prices_fewer_gpus_of_the_same_type_are_suggested() -> None:
    unpriced = fleet(node("a", gpu(L40S, price=None), 8))
    decision = decided(request(context=32768, concurrency=10), unpriced)
    assert decision.choice is not None
    assert decision.choice.split.gpus == 2
    narrow = of(decision, NARROW)
    assert narrow.hourly_saving is None
    assert dict(narrow.numbers)["gpus"] == 1
    two = decided(request(context=32768, concurrency=10, replicas=2), unpriced)
    assert numbers(two, NARROW)["gpus"] == 2
    others = node("a", gpu(L40S, price=None), 2), node("b", gpu("l40-48gb", price=None), 1)
    assert decided(request(context=32768, concurrency=10), fleet(*others)).suggestions == ()


def test_declared_lengths_a_guarantee_and_a_small_cache_leave_nothing_to_change() -> None:
    shape = ON_L40S.shape
    declared = replace(shape, expected_prompt_tokens=6000, expected_output_tokens=2000)
    assert EXPECTED not in kinds(decided(replace(ON_L40S, shape=declared)))
    assert EXPECTED not in kinds(decided(replace(ON_L40S, shape=replace(shape, guaranteed=True))))
    assert NARROW not in kinds(decided(replace(ON_L40S, kv_precision=KvPrecision.NVFP4)))
    assert EXPECTED in kinds(decided(ON_L40S))


def test_the_expected_lengths_are_those_that_the_speed_is_computed_for() -> None:
    found, load = numbers(decided(ON_L40S), EXPECTED), load_of(ON_L40S)
    assert (found["prompt"], found["output"]) == (load.prompt_tokens, load.output_tokens)


def test_no_checkpoint_is_suggested_for_a_model_of_the_users_own() -> None:
    own = replace(model(), source=FactsSource.INLINE)
    assert OTHER not in kinds(decided(replace(ON_L40S, model=own)))
    assert OTHER in kinds(decided(ON_L40S))


def test_no_checkpoint_is_suggested_that_the_release_cannot_load() -> None:
    def stored(method: str) -> list[ModelFacts]:
        return [
            replace(each, checkpoint=replace(each.checkpoint, method=method)) for each in other_checkpoints(LLAMA_8B)
        ]

    (unread,) = plan([Tenant(ON_L40S, 1)], CARDS, relatives=lambda _: stored("bitsandbytes"))
    assert OTHER not in kinds(unread)
    (read,) = plan([Tenant(ON_L40S, 1)], CARDS, relatives=lambda _: stored("compressed-tensors"))
    assert OTHER in kinds(read)


def test_an_admins_figure_for_the_memory_leaves_nothing_to_suggest() -> None:
    forced = Overrides(memory_per_gpu_bytes=30 * GIB)
    decision = decided(replace(ON_L40S, overrides=forced))
    assert decision.choice is not None
    assert decision.suggestions == ()


def test_a_suggestion_never_brings_a_doubt_that_the_choice_does_not_have() -> None:
    for concurrency in (8, 16, 32, 64):
        wanted = request(context=8192, concurrency=concurrency)
        for each in decided(wanted).suggestions:
            if each.kind is NARROW:
                outcome = place(replace(wanted, kv_precision=KvPrecision.FP8), CARDS)
                assert isinstance(outcome, Placed)
                assert outcome.choice.doubts == 0


def test_what_runs_already_and_what_waits_get_no_suggestion() -> None:
    runs = Tenant(ON_L40S, 1, (pool(L40S),))
    held = fleet(node("a", L4, 1), node("b", L40S, 4, held=1))
    (kept,) = plan([runs], held, relatives=other_checkpoints)
    assert not kept.placed_now
    assert kept.suggestions == ()
    waits = decided(replace(ON_L40S, replicas=40))
    assert waits.missing
    assert waits.suggestions == ()


def test_one_pass_searches_for_a_bounded_number_of_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "MOST_SEARCHES", 1)
    where = fleet(node("a", L4, 1), node("b", L40S, 8))
    tenants = [
        Tenant(request(context=8192 - 16 * index, concurrency=6, name=f"d{index}", created=f"2026-01-0{index + 1}"), 1)
        for index in range(3)
    ]
    found = plan(tenants, where, relatives=other_checkpoints)
    assert [bool(each.suggestions) for each in found] == [True, False, False]


def test_the_catalogue_knows_the_other_checkpoints_of_a_model() -> None:
    names = {facts.name for facts in other_checkpoints(LLAMA_8B)}
    assert names == {
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8",
    }
    assert {facts.name for facts in other_checkpoints("Qwen/Qwen3-30B-A3B")} == {"Qwen/Qwen3-30B-A3B-FP8"}
    assert other_checkpoints("Qwen/Qwen3-30B-A3B-FP8") == ()
    assert other_checkpoints("nobody/knows-this") == ()


@settings(max_examples=25, deadline=None)
@given(
    context=st.sampled_from([2048, 8192, 16384, 65536]),
    concurrency=st.integers(1, 64),
    replicas=st.integers(1, 3),
    small=st.integers(0, 3),
)
def test_every_suggestion_places_all_replicas_for_less(
    context: int, concurrency: int, replicas: int, small: int
) -> None:
    where = fleet(node("a", L4, small), node("b", L40S, 4), node("c", A100, 2), node("d", H100, 8))
    wanted = request(context=context, concurrency=concurrency, replicas=replicas)
    decision = decided(wanted, where)
    assert len(decision.suggestions) <= MOST_SUGGESTIONS
    assert len(kinds(decision)) == len(decision.suggestions)
    for each in decision.suggestions:
        assert decision.choice is not None
        assert decision.choice.hourly_price is not None
        assert each.hourly_saving is not None
        bill = decision.choice.hourly_price * replicas
        assert each.hourly_saving >= LEAST_SAVING * bill
        again = decided(_changed(wanted, each), where)
        assert again.missing == 0
        cost = sum((each.choice.hourly_price or Decimal(0)) * each.replicas for each in again.pools if each.choice)
        assert cost <= bill - each.hourly_saving


def _changed(wanted: Request, suggestion: Suggestion) -> Request:
    found = dict(suggestion.numbers)
    match suggestion.kind:
        case SuggestionKind.NARROW_KV_CACHE:
            return replace(wanted, kv_precision=KvPrecision.FP8)
        case SuggestionKind.EXPECTED_LENGTHS:
            shape = ServingShape(
                wanted.shape.context_tokens, wanted.shape.concurrency, int(found["prompt"]), int(found["output"])
            )
            return replace(wanted, shape=shape)
        case SuggestionKind.OTHER_CHECKPOINT:
            return replace(wanted, model=model(str(found["model"])), precision=Precision(str(found["precision"])))


def test_one_pass_searches_for_a_hundred_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = itertools.count()
    decision = decided(ON_L40S)
    [own] = decision.pools
    monkeypatch.setattr(Suggester, "_cheaper", lambda *_: iter([] * next(searches)))
    finder = Suggester(CARDS, Ledger.of(CARDS), Memo())
    for _ in range(105):
        assert own.choice is not None
        finder.advised(replace(decision, pools=(replace(own, choice=replace(own.choice)),)))
    assert next(searches) == 100
