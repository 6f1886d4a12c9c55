"""Which splits are worth judging: stages only where tensor parallelism cannot cut, or copies what it should divide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.caches import CacheSpec, StateCache
from plimsoll.domain.models.model import LayerKind
from plimsoll.domain.requests.serving import Overrides
from plimsoll.placement.options.candidates import candidates, splits_for
from plimsoll.placement.options.divisibility import split_refusal
from tests.support.model_configs import facts_of
from tests.support.planning import H100, L4, LLAMA_8B, fleet, model, node, request

TENSOR_PARALLEL_DEGREES = (1, 2, 4, 8)

ONLY_TENSOR_PARALLEL = tuple(Split(degree) for degree in TENSOR_PARALLEL_DEGREES)


@pytest.mark.parametrize(
    "stem",
    [
        "meta-llama__Llama-3.1-8B-Instruct",  # 8 KV heads: each of 8 ranks has its own
        "Qwen__Qwen2.5-32B",
        "openai__gpt-oss-120b",
    ],
)
def test_heads_that_divide_by_every_degree_need_no_stages(stem: str) -> None:
    assert splits_for(request(facts_of(stem))) == ONLY_TENSOR_PARALLEL


def test_stages_where_heads_would_be_copied() -> None:
    # Qwen2.5-7B: 28 heads divide by 4, its 4 KV heads too; by 8 neither.
    found = splits_for(request(facts_of("Qwen__Qwen2.5-7B-Instruct")))
    assert Split(4, 1) in found
    assert {split for split in found if split.pipeline_parallel > 1} == {Split(4, 2)}


def test_two_stages_are_tried_before_four() -> None:
    # Qwen2.5-0.5B: 14 heads and 2 KV heads divide by 2 only.
    found = splits_for(request(facts_of("Qwen__Qwen2.5-0.5B")))
    assert [split for split in found if split.pipeline_parallel > 1] == [Split(2, 2), Split(2, 4)]


def test_stages_for_latents_that_lie_on_every_rank() -> None:
    found = splits_for(request(facts_of("deepseek-ai__DeepSeek-V3")))
    assert set(ONLY_TENSOR_PARALLEL) < set(found)
    assert {split for split in found if split.pipeline_parallel > 1} == {Split(1, 2), Split(2, 2), Split(4, 2)}


def test_states_are_divided_and_need_no_stages() -> None:
    facts = facts_of("nvidia__Nemotron-H-56B-Base-8K")
    recurrent = replace(facts, kinds=tuple(LayerKind(kind.weights, _states(kind)) for kind in facts.kinds))
    assert recurrent.kv_heads == 1
    assert splits_for(request(recurrent)) == ONLY_TENSOR_PARALLEL


def _states(kind: LayerKind) -> tuple[CacheSpec, ...]:
    return tuple(cache for cache in kind.caches if isinstance(cache, StateCache))


def test_no_candidate_that_cannot_be_cut_has_stages() -> None:
    for stem in ("Qwen__Qwen2.5-0.5B", "HuggingFaceTB__SmolLM2-135M", "tiiuae__falcon-40b"):
        wanted = request(facts_of(stem))
        for split in splits_for(wanted):
            if split.pipeline_parallel > 1:
                assert split_refusal(wanted.model, wanted.precision, "", split) is None


def test_a_forced_degree_is_tried_beside_the_usual_ones() -> None:
    wanted = request(model(LLAMA_8B), overrides=Overrides(tensor_parallel=16))
    assert splits_for(wanted) == (*ONLY_TENSOR_PARALLEL, Split(16))
    usual = request(model(LLAMA_8B), overrides=Overrides(tensor_parallel=4))
    assert splits_for(usual) == ONLY_TENSOR_PARALLEL


def test_every_type_of_the_fleet_at_every_split_in_order() -> None:
    found = list(candidates(request(), fleet(node("h", H100), node("l", L4))))
    assert [(each.gpu.name, each.split) for each in found] == [
        (kind, split) for kind in (H100, L4) for split in ONLY_TENSOR_PARALLEL
    ]
    assert {each.target.resource for each in found} == {"nvidia.com/gpu"}


def test_splits_come_by_gpus_and_then_by_stages() -> None:
    found = splits_for(request(facts_of("deepseek-ai__DeepSeek-V3")))
    assert list(found) == sorted(found, key=lambda split: (split.gpus, split.data_parallel, split.pipeline_parallel))
