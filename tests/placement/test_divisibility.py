"""The splits that a model's shape allows: each rule on both sides of its boundary."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.models.model import EncoderFacts, ExpertFacts, ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.public_words import Reason
from plimsoll.placement.options.divisibility import split_refusal
from tests.support.planning import H100, LLAMA_70B, model

FP8_EXPERTS = "Qwen/Qwen3-235B-A22B-FP8"
"""Experts of width 1,536 in blocks of 128, with 4 KV heads."""


TOWER = EncoderFacts((), layers=1, hidden=64, intermediate=128, item_tokens=4, output_tokens=4)


def refused(facts: ModelFacts, split: Split, precision: Precision | None = None) -> Rejection | None:
    return split_refusal(facts, precision or facts.checkpoint.precision, H100, split)


def reason_and_numbers(facts: ModelFacts, split: Split) -> tuple[Reason, dict[str, int | str]]:
    said = refused(facts, split)
    assert said is not None
    return said.reason, dict(said.numbers)


def widened(facts: ModelFacts, width: int) -> ModelFacts:
    weights = tuple(
        replace(weight, outputs=width) if weight.name in ("mlp.gate_proj", "mlp.up_proj") else weight
        for weight in facts.kinds[0].weights
    )
    return replace(facts, kinds=(replace(facts.kinds[0], weights=weights), *facts.kinds[1:]))


def with_experts(experts: int) -> ModelFacts:
    return replace(model(), experts=ExpertFacts(layers=32, experts=experts, experts_per_token=2, intermediate=1024))


def test_a_model_has_at_most_one_stage_for_each_layer() -> None:
    four = replace(model(), order=(0, 0, 0, 0))
    assert refused(four, Split(1, 4)) is None
    assert reason_and_numbers(four, Split(1, 5)) == (Reason.STAGES_EXCEED_LAYERS, {"stages": 5, "layers": 4})


@pytest.mark.parametrize("run", [(8, 16), (16, 24)])
def test_layers_that_share_may_end_or_begin_a_stage(run: tuple[int, int]) -> None:
    assert refused(replace(model(), inseparable=(run,)), Split(1, 2)) is None  # the second stage begins at layer 16


def test_layers_that_share_are_refused_where_a_stage_begins_at_the_second_of_them() -> None:
    joined = replace(model(), inseparable=((0, 8), (15, 17)))
    numbers = {"stages": 2, "first": 15, "last": 16}
    assert reason_and_numbers(joined, Split(1, 2)) == (Reason.STAGES_CUT_SHARED_LAYERS, numbers)


def test_expert_parallelism_needs_an_expert_for_each_rank() -> None:
    assert refused(with_experts(4), Split(4, expert_parallel=True)) is None
    numbers = {"experts": 4, "ranks": 8, "next_degree": 4}
    assert reason_and_numbers(with_experts(4), Split(8, expert_parallel=True)) == (
        Reason.EXPERTS_NOT_DIVISIBLE,
        numbers,
    )


def test_without_expert_parallelism_there_may_be_fewer_experts_than_ranks() -> None:
    assert refused(with_experts(4), Split(8)) is None


def test_a_dense_model_has_no_experts_to_spread_at_any_degree() -> None:
    numbers = {"experts": 0, "ranks": 2}
    assert reason_and_numbers(model(), Split(2, expert_parallel=True)) == (Reason.EXPERTS_NOT_DIVISIBLE, numbers)


def test_a_degree_may_be_a_multiple_of_the_kv_heads() -> None:
    assert model(LLAMA_70B).kv_heads == 8
    assert refused(model(LLAMA_70B), Split(16)) is None


def test_tokens_are_spread_over_the_copies_of_the_same_kv_heads_and_no_further() -> None:
    copied_twice = model(LLAMA_70B)  # 8 KV heads on 16 ranks
    assert refused(copied_twice, Split(16, context_parallel=2)) is None
    numbers = {"ranks": 4, "copies": 2}
    assert reason_and_numbers(copied_twice, Split(16, context_parallel=4)) == (
        Reason.CONTEXT_RANKS_NOT_DIVISIBLE,
        numbers,
    )


def test_blocks_stay_whole_in_the_precision_of_the_checkpoint_only() -> None:
    assert refused(model(FP8_EXPERTS), Split(4)) is None
    assert refused(model(FP8_EXPERTS), Split(8), Precision.BF16) is None
    said = refused(model(FP8_EXPERTS), Split(8))
    assert said is not None
    assert (said.reason, said.number("width")) == (Reason.QUANT_BLOCK_NOT_DIVISIBLE, 192)


@pytest.mark.parametrize("cut", [Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS])
def test_blocks_stay_whole_in_weights_that_are_cut_by_rows_and_in_those_cut_by_columns(cut: Sharding) -> None:
    facts = model(FP8_EXPERTS)
    kinds = tuple(
        replace(kind, weights=tuple(each for each in kind.weights if each.sharding is cut)) for kind in facts.kinds
    )
    assert any(kind.weights for kind in kinds)
    numbers = {"what": "moe_intermediate_size", "width": 192, "block": 128, "next_degree": 4}
    assert reason_and_numbers(replace(facts, kinds=kinds), Split(8)) == (Reason.QUANT_BLOCK_NOT_DIVISIBLE, numbers)
    assert refused(replace(facts, kinds=kinds), Split(4)) is None


@pytest.mark.parametrize(("columns", "reason"), [(1, None), (2, Reason.WIDTH_NOT_DIVISIBLE), (4, None)])
def test_a_single_column_of_an_expert_is_kept_whole_and_more_are_divided(columns: int, reason: Reason | None) -> None:
    """A value for each output of an expert, such as a bias, has one column. Every rank holds it."""
    facts = model("mistralai/Mixtral-8x7B-v0.1")
    (kind,) = facts.kinds
    down = next(each for each in kind.weights if each.sharding is Sharding.EXPERT_INPUTS)
    changed = replace(kind, weights=(*kind.weights, replace(down, name="extra", inputs=columns)))
    found = refused(replace(facts, kinds=(changed,)), Split(4))
    assert (None if found is None else found.reason) is reason


def test_the_next_degree_may_be_one() -> None:
    assert reason_and_numbers(widened(model(), 14_337), Split(2))[1]["next_degree"] == 1


@pytest.mark.parametrize("units", [1, 2, 3, 4])
@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("sharding", [Sharding.OUTPUTS, Sharding.INPUTS, Sharding.REPLICATED], ids=str)
def test_a_towers_matrix_is_cut_only_into_ranks_that_divide_its_units(
    units: int, degree: int, sharding: Sharding
) -> None:
    """A width of 66 is even, and no multiple of 4. A matrix of several units stays whole if a rank cannot have some."""
    weight = Weight("visual.proj", 66, 66, sharding, units=units)
    facts = replace(model(), encoder=replace(TOWER, weights=(weight,)))
    is_cut = sharding is not Sharding.REPLICATED and (units == 1 or units % degree == 0)
    found = refused(facts, Split(degree))
    assert (found is None) is not (is_cut and degree == 4)
    assert found is None or (found.reason, dict(found.numbers)["size"]) == (Reason.TOWER_NOT_DIVISIBLE, 66)
