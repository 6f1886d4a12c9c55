"""Is the operator's KV-cache law the engine's? vLLM's own code lays out the same caches."""

from __future__ import annotations

import pytest

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import CacheSpec
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from plimsoll.memory.stages import CountedCaches, counted, stage_layers
from testbed.engine.kv_capacity import KvAnswer, KvRefused
from tests.engine.kv_cases import PRECISIONS, Case, make_cases, make_refused_cases
from tests.engine.questions import kv_groups
from tests.engine.recording import Recording
from tests.memory.sums import max_concurrency

CASES = make_cases(20_261_121, of_each=3)
REFUSED = make_refused_cases()


@pytest.fixture(scope="module")
def answers(recording: Recording) -> dict[str, KvAnswer | KvRefused]:
    cases = [*CASES, *REFUSED]
    given = kv_groups(recording, [case.question for case in cases])
    return {case.name: answer for case, answer in zip(cases, given, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_blocks_tokens_and_concurrency_are_the_engines(case: Case, answers: dict[str, KvAnswer | KvRefused]) -> None:
    answer = answers[case.name]
    assert isinstance(answer, KvAnswer), answer
    stages = layouts(case)
    assert tuple(stage.block_bytes for stage in stages) == answer.block_bytes
    if any(cache.theirs["type"] != "state" for layer in case.layers for cache in layer):
        assert stages[0].block_tokens == answer.block_tokens
    assert min(stage.pool_blocks(case.available_bytes) for stage in stages) == answer.blocks
    # The stage with the fewest blocks rules all of them.
    fullest = max(stages, key=lambda stage: stage.block_bytes)
    assert fullest.capacity_tokens(case.available_bytes, case.context_tokens) == answer.tokens
    assert float(max_concurrency(fullest, case.available_bytes, case.context_tokens)) == answer.concurrency


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_the_engine_cannot_lay_out_has_no_law(case: Case, answers: dict[str, KvAnswer | KvRefused]) -> None:
    assert isinstance(answers[case.name], KvRefused)
    with pytest.raises(UnsupportedModel):
        layouts(case)


def layouts(case: Case) -> list[KvLayout]:
    cut = stage_layers(len(case.layers), case.split.pipeline_parallel)
    stages = [counted(_ours(case, own)) for own in cut]
    return [_layout(case, stages, stage) for stage in range(len(stages))]


def _ours(case: Case, own: range) -> list[CacheSpec]:
    return [cache.ours for layer in own for cache in case.layers[layer]]


def _layout(case: Case, stages: list[CountedCaches], stage: int) -> KvLayout:
    return kv_layout(
        stages[stage],
        PRECISIONS[case.kv_dtype],
        case.split,
        batched_tokens=case.batched_tokens,
        dtype_bytes={"bfloat16": 2, "float32": 4}[case.dtype],
        speculative_tokens=case.speculative_tokens,
        others=[entry for other, caches in enumerate(stages) if other != stage for entry in caches],
        block_tokens=case.block_tokens,
        prefix_caching=case.prefix_caching,
        hybrid_manager=case.hybrid_manager,
    )
