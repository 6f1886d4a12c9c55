"""FP8 blocks on cards that do not compute in FP8, and on AMD's."""

from __future__ import annotations

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.weights.layout import fp8_block_bytes
from plimsoll.memory.weights import stage_tensors
from tests.support.model_configs import facts_of
from tests.support.planning import A100, H100, L4, gpu

BLOCKS = facts_of("Qwen__Qwen3-30B-A3B-FP8")
PRECISION = BLOCKS.checkpoint.precision


@pytest.mark.parametrize("degree", [1, 2])
def test_a_group_of_inputs_has_a_scale_for_every_output(degree: int) -> None:
    """128 weights of a byte share one of 2 bytes: a 64th, where the checkpoint's 4 bytes serve 128 x 128."""
    split = Split(degree)
    values = sum(
        count * each.values
        for count, layer in stage_tensors(BLOCKS, PRECISION, split).layers
        for each in layer
        if each.scales
    )
    extra = fp8_block_bytes(BLOCKS, PRECISION, gpu(A100), split, 0)
    assert extra == pytest.approx(values / 64 - values * 4 / 128**2, rel=0.01)
    assert 0.40 < extra * degree / GIB < 0.45


@pytest.mark.parametrize("kind", [H100, L4])
def test_cards_that_compute_in_fp8_keep_the_checkpoint_s(kind: str) -> None:
    assert fp8_block_bytes(BLOCKS, PRECISION, gpu(kind), Split(1), 0) == 0


def test_scales_of_whole_rows_are_left_alone() -> None:
    rows = facts_of("nvidia__Llama-3.1-70B-Instruct-FP8")
    assert fp8_block_bytes(rows, rows.checkpoint.precision, gpu(A100), Split(1), 0) == 0
    assert fp8_block_bytes(facts_of("Qwen__Qwen3-8B"), PRECISION, gpu(A100), Split(1), 0) == 0


@pytest.mark.parametrize("degree", [1, 2])
def test_rows_of_linear_layers_are_padded_on_amd(degree: int) -> None:
    """Rows of both models are multiples of 512 B, alone and on two ranks; experts stay as they are."""
    dense, split = facts_of("Qwen__Qwen3-8B-FP8"), Split(degree)
    rows = 36 * ((32 + 2 * 8) * 128 // degree + 4096 + 2 * 12_288 // degree + 4096)
    assert fp8_block_bytes(dense, PRECISION, gpu("mi300x-192gb"), split, 0) == rows * 256
    rows = 48 * ((32 + 2 * 4) * 128 // degree + 2048)
    assert fp8_block_bytes(BLOCKS, PRECISION, gpu("mi300x-192gb"), split, 0) == rows * 256
