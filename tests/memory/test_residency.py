"""Weights in host memory: what leaves the GPU, what stays, and what crosses PCIe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload, MediaUse, WeightStreaming
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.weights.loaded import served_model
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.memory.residency import Resident, resident_weights, stage_layer_bytes
from plimsoll.memory.weights import stage_weights, weight_format
from tests.support.model_configs import facts_of
from tests.support.planning import H100, LLAMA_8B, gpu, model, request

BF16, ONE = Precision.BF16, Split(1)
LAYER = 2 * (4096 * 4096 * 2 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 4096)
"""Bytes of one layer of Llama-3.1-8B: queries, keys, values, output; gate, up, down; two norms."""


def whole(split: Split = ONE, stage: int = 0) -> int:
    return stage_weights(model(LLAMA_8B), BF16, split, stage).total_bytes


def test_without_residency_everything_is_on_the_gpu() -> None:
    assert resident_weights(model(LLAMA_8B), BF16, ONE, None) == Resident(whole())


def test_offloaded_bytes_leave_the_gpu_and_nothing_else_changes() -> None:
    where = resident_weights(model(LLAMA_8B), BF16, ONE, CpuOffload(4 * GIB))
    assert where == Resident(whole() - 4 * GIB, 4 * GIB)


def test_only_layers_can_be_offloaded() -> None:
    where = resident_weights(model(LLAMA_8B), BF16, ONE, CpuOffload(100 * GIB))
    assert where.host_bytes == 32 * LAYER
    tables = 2 * 2 * 128_256 * 4096
    assert where.gpu_bytes == tables + 2 * 4096 + model(LLAMA_8B).rotary_bytes


def test_offload_is_a_rank_s_so_two_ranks_spare_twice() -> None:
    split = Split(2)
    where = resident_weights(model(LLAMA_8B), BF16, split, CpuOffload(GIB))
    assert where.gpu_bytes == whole(split) - GIB


@pytest.mark.parametrize(("group", "layers", "gone"), [(8, 2, 8), (4, 1, 8), (1, 1, 32), (32, 3, 3), (33, 1, 0)])
def test_the_last_layers_of_every_group_are_streamed(group: int, layers: int, gone: int) -> None:
    # vLLM, config/offload.py: group 8 with 2 of it offloads layers 6, 7, 14, 15, 22, 23, ...
    where = resident_weights(model(LLAMA_8B), BF16, ONE, WeightStreaming(group, layers))
    assert where.host_bytes == gone * LAYER
    assert where.buffer_bytes == (LAYER if gone else 0)
    assert where.gpu_bytes == whole() - where.host_bytes + where.buffer_bytes


def test_buffers_are_kept_for_every_prefetched_layer_even_if_fewer_are_streamed() -> None:
    where = resident_weights(model(LLAMA_8B), BF16, ONE, WeightStreaming(32, 1, prefetch=4))
    assert (where.host_bytes, where.buffer_bytes) == (LAYER, 4 * LAYER)
    assert where.gpu_bytes > whole()


def test_layers_that_differ_in_their_cache_alone_share_buffers() -> None:
    facts = facts_of("google__gemma-3-27b-it")
    assert len(facts.kinds) == 2
    assert facts.kinds[0].weights == facts.kinds[1].weights
    where = resident_weights(facts, BF16, ONE, WeightStreaming(1))
    assert where.buffer_bytes * facts.layers == where.host_bytes


def test_layers_of_different_shape_have_buffers_each_but_for_what_is_equal() -> None:
    facts = facts_of("deepseek-ai__DeepSeek-V2-Lite")
    dense, sparse = (
        sum(weight.parameters for weight in facts.kinds[kind].weights if weight.inputs > 1) for kind in (0, 1)
    )
    where = resident_weights(facts, BF16, ONE, WeightStreaming(1))
    assert 2 * max(dense, sparse) < where.buffer_bytes < 2 * (dense + sparse)


def test_copies_that_kernels_make_stay_on_the_gpu() -> None:
    facts = facts_of("deepseek-ai__DeepSeek-V2-Lite")
    where = resident_weights(facts, BF16, ONE, CpuOffload(1000 * GIB))
    total = stage_weights(facts, BF16, ONE)
    assert where.gpu_bytes == total.total_bytes - stage_layer_bytes(facts, BF16, ONE, 0)
    assert where.gpu_bytes > total.kernel_bytes


def test_groups_are_counted_within_a_stage() -> None:
    split = Split(1, 2)
    both = [resident_weights(model(LLAMA_8B), BF16, split, WeightStreaming(8), stage) for stage in (0, 1)]
    assert [each.host_bytes for each in both] == [2 * LAYER, 2 * LAYER]


def test_a_tower_that_is_left_out_is_not_counted() -> None:
    facts = facts_of("Qwen__Qwen2.5-VL-7B-Instruct")
    assert facts.encoder is not None
    text = resident_weights(served_model(facts, MediaUse(text_only=True)), BF16, ONE, None).gpu_bytes
    form = weight_format(facts, BF16)
    tower = sum(
        form.of(weight).bytes_of(weight.outputs, weight.inputs) * weight.count for weight in facts.encoder.weights
    )
    assert resident_weights(facts, BF16, ONE, None).gpu_bytes - text == tower


@pytest.mark.parametrize("residency", [CpuOffload(4 * GIB), WeightStreaming(4)])
def test_what_leaves_the_weights_comes_to_the_cache(residency: CpuOffload | WeightStreaming) -> None:
    plain = request()
    spared = replace(plain, engine=replace(plain.engine, residency=residency))
    before, after = (estimate(each, gpu(H100), ONE, engine_settings(each, gpu(H100), ONE)) for each in (plain, spared))
    where = resident_weights(plain.model, BF16, ONE, residency)
    assert after.host_bytes == where.host_bytes > 0
    assert after.available_kv_bytes - before.available_kv_bytes == where.host_bytes - where.buffer_bytes


def test_text_alone_spares_the_tower_and_its_pass() -> None:
    both = request(facts_of("Qwen__Qwen2.5-VL-7B-Instruct"))
    text = replace(both, model=served_model(both.model, MediaUse(text_only=True)))
    with_tower, without = (
        estimate(each, gpu(H100), ONE, engine_settings(each, gpu(H100), ONE)) for each in (both, text)
    )
    assert without.weights_bytes < with_tower.weights_bytes
    assert without.activations_bytes <= with_tower.activations_bytes
