"""The floor of the time of a token: what has to be read, and over which wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload, WeightStreaming
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB
from plimsoll.memory.residency import stage_layer_bytes
from plimsoll.performance.decode_time import decode_floor
from tests.support.model_configs import facts_of
from tests.support.planning import H100, LLAMA_8B, LLAMA_70B, gpu, model

BF16, ONE = Precision.BF16, Split(1)
LAYERS = 32 * 2 * (4096 * 4096 * 2 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 4096)
HEAD = 2 * (128_256 * 4096 + 4096)


def test_layers_and_output_projection_are_read_once_and_the_table_is_not() -> None:
    card = replace(gpu(H100), memory_bandwidth_gb_per_second=1000)
    assert decode_floor(model(LLAMA_8B), BF16, card, ONE).seconds == pytest.approx((LAYERS + HEAD) / 1e12)


def test_a_tied_table_is_read_as_the_output_projection_wherever_it_lies() -> None:
    facts = facts_of("Qwen__Qwen2.5-0.5B")
    assert facts.tied_embeddings
    one = decode_floor(facts, BF16, gpu(H100), ONE).seconds
    assert decode_floor(facts, BF16, gpu(H100), Split(1, 2)).seconds == pytest.approx(one)


def test_stages_take_turns_and_ranks_share() -> None:
    one = decode_floor(model(LLAMA_70B), BF16, gpu(H100), ONE).seconds
    assert decode_floor(model(LLAMA_70B), BF16, gpu(H100), Split(1, 4)).seconds == pytest.approx(one, rel=1e-6)
    assert decode_floor(model(LLAMA_70B), BF16, gpu(H100), Split(4)).seconds == pytest.approx(one / 4, rel=1e-3)


def test_experts_that_a_token_does_not_visit_are_not_read() -> None:
    facts = facts_of("Qwen__Qwen3-235B-A22B")
    card = replace(gpu(H100), memory_bandwidth_gb_per_second=1000)
    active = decode_floor(facts, BF16, card, ONE).gpu_seconds * 1e12 / 2
    # Published as A22B: 22 billion active parameters, the table of 0.62 billion among them.
    assert active + facts.vocabulary * facts.hidden == pytest.approx(22e9, rel=0.02)


def test_a_tower_is_not_read_for_a_token_of_text() -> None:
    facts = facts_of("Qwen__Qwen2.5-VL-7B-Instruct")
    text = replace(facts, encoder=None)
    assert decode_floor(facts, BF16, gpu(H100), ONE) == decode_floor(text, BF16, gpu(H100), ONE)


def test_offloaded_weights_come_over_pcie_after_the_others() -> None:
    card = replace(gpu(H100), memory_bandwidth_gb_per_second=1000, host_bandwidth_gb_per_second=10)
    floor = decode_floor(model(LLAMA_8B), BF16, card, ONE, CpuOffload(GIB))
    assert floor.host_seconds == pytest.approx(GIB / 1e10)
    assert floor.gpu_seconds == pytest.approx((LAYERS + HEAD - GIB) / 1e12)
    assert floor.seconds == floor.gpu_seconds + floor.host_seconds


def test_streamed_layers_cross_pcie_whole_while_the_gpu_reads() -> None:
    card = replace(gpu(H100), memory_bandwidth_gb_per_second=1000, host_bandwidth_gb_per_second=10)
    floor = decode_floor(model(LLAMA_8B), BF16, card, ONE, WeightStreaming(8, 2))
    assert floor.host_seconds == pytest.approx(LAYERS / 4 / 1e10)
    assert floor.gpu_seconds == pytest.approx((LAYERS + HEAD) / 1e12)
    assert floor.seconds == floor.host_seconds


def test_of_offloaded_experts_a_token_reads_its_own_and_of_streamed_ones_all() -> None:
    facts = facts_of("Qwen__Qwen3-30B-A3B-FP8")
    layers = stage_layer_bytes(facts, Precision.FP8, ONE, 0)
    offloaded = decode_floor(facts, Precision.FP8, gpu(H100), ONE, CpuOffload(layers))
    streamed = decode_floor(facts, Precision.FP8, gpu(H100), ONE, WeightStreaming(1))
    bandwidth = gpu(H100).host_bandwidth_gb_per_second * 1e9
    assert streamed.host_seconds == pytest.approx(layers / bandwidth)
    assert offloaded.host_seconds < 0.2 * streamed.host_seconds
