"""The sampler's memory: what PyTorch's sort and Triton's kernel take, row by row, against what engines logged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.units import GIB, KIB, MIB
from plimsoll.engines.vllm.memory.laws.engine_law import (
    COPYING_SAMPLER,
    FUSED_SAMPLER,
    GUMBEL_SAMPLER,
    NATIVE_SAMPLER,
    SamplerLaw,
)
from plimsoll.engines.vllm.memory.step.libraries import multiprocessors, workspace_bytes
from plimsoll.engines.vllm.memory.step.sampler import Sampling, sampling
from tests.memory.overhead_rows import ROWS, Row
from tests.support.tables import every_case

H100 = GpuType("h100", Vendor.NVIDIA, (), 80 * GIB, 80 * GIB, (9, 0), None, Interconnect.NVLINK, 8, 3350)
A10G = replace(H100, name="a10g", compute_capability=(8, 6), interconnect=Interconnect.PCIE)
MI300X = replace(H100, name="mi300x", vendor=Vendor.AMD, compute_capability=None, gfx="gfx942")
R9700 = replace(MI300X, name="r9700", gfx="gfx1201")

VOCABULARY = 128_256
ROW = VOCABULARY * 4
"""The bytes of one row of Llama 3's logits in 32 bits."""


def llama(law: SamplerLaw, gpu: GpuType | None = H100) -> Sampling:
    return sampling(law, vocabulary=VOCABULARY, hidden=4096, gpu=gpu)


@pytest.mark.parametrize(("rows", "copies"), [(2, 12.5), (127, 12.5), (170, 9.5), (1024, 9.5)])
def test_pytorch_sorts_few_rows_at_once_and_takes_more_for_each(rows: int, copies: float) -> None:
    hidden = 2 * rows * 4096 * 2
    assert llama(NATIVE_SAMPLER).peak_bytes(rows) == rows * copies * ROW + hidden + 32 * MIB


@pytest.mark.parametrize(
    ("rows", "copies", "buffered"),
    [(7, 12.5, 0), (32, 3.5, 32), (100, 3.5, 128), (129, 3.5, 132), (1024, 3.5, 132)],
    ids=["sorted", "a-program-each", "power-of-two", "multiprocessors", "default"],
)
def test_tritons_kernel_keeps_a_row_for_each_program(rows: int, copies: float, buffered: int) -> None:
    hidden = 2 * rows * 4096 * 2
    assert llama(FUSED_SAMPLER).buffered_rows(rows) == buffered
    assert llama(FUSED_SAMPLER).peak_bytes(rows) == (rows * copies + buffered) * ROW + hidden + 32 * MIB


@pytest.mark.parametrize(("law", "fewer", "rows"), [(NATIVE_SAMPLER, 127, 128), (FUSED_SAMPLER, 7, 8)])
def test_more_rows_are_never_promised_for_less(law: SamplerLaw, fewer: int, rows: int) -> None:
    """128 rows take less than 127 where PyTorch sorts them, as its kernels do; a plan must hold for both."""
    assert llama(law).copies_of(rows) < llama(law).copies_of(fewer)
    assert llama(law).peak_bytes(rows) == llama(law).peak_bytes(fewer) < llama(law).peak_bytes(2 * rows + fewer)
    assert llama(law).formula(rows).endswith(f", which is more than {rows} rows take")


@pytest.mark.parametrize(("law", "copies"), [(COPYING_SAMPLER, 1.5), (GUMBEL_SAMPLER, 0.5)])
def test_the_second_runner_neither_sorts_nor_keeps_a_buffer(law: SamplerLaw, copies: float) -> None:
    for rows in (4, 1024):
        assert llama(law).peak_bytes(rows) == rows * copies * ROW + rows * 4096 * 2 + 32 * MIB


def test_smaller_gpus_keep_fewer_rows_and_a_smaller_workspace() -> None:
    large, small = (llama(FUSED_SAMPLER, gpu) for gpu in (H100, A10G))
    saved = (132 - 84) * ROW + 32 * MIB - 8320 * KIB
    assert large.peak_bytes(256) - small.peak_bytes(256) == saved


def test_an_unknown_gpu_counts_as_a_hopper_and_an_unknown_capability_as_the_largest() -> None:
    assert workspace_bytes(None) == workspace_bytes(H100) == 32 * MIB
    assert multiprocessors(None) == multiprocessors(H100) == 132
    unknown = replace(H100, name="new", compute_capability=(13, 0))
    assert workspace_bytes(unknown) == 32 * MIB
    assert multiprocessors(unknown) == 188


def test_amds_gpus_have_their_workspace_among_the_weights_and_accelerators_more_units() -> None:
    assert workspace_bytes(MI300X) == workspace_bytes(R9700) == 0
    assert (multiprocessors(MI300X), multiprocessors(R9700)) == (304, 96)
    assert "workspace" not in llama(NATIVE_SAMPLER, MI300X).formula(64)


def test_drafts_are_rejected_in_more_copies_than_rows_are_sampled_in() -> None:
    plain, drafting = (
        sampling(FUSED_SAMPLER, vocabulary=VOCABULARY, gpu=H100, rejects=rejects) for rejects in (False, True)
    )
    assert drafting.peak_bytes(64) - plain.peak_bytes(64) == 64 * 2 * ROW
    assert drafting.peak_bytes(4) == plain.peak_bytes(4)


def test_the_formula_names_what_the_sum_holds() -> None:
    formula = llama(FUSED_SAMPLER).formula(1024)
    assert formula == (
        "1,024 rows x 128,256 logits x 4 B x 3.5 copies + 132 buffered rows x 128,256 logits x 4 B"
        " + 1,024 hidden rows x 16,384 B + 33,554,432 B of workspace"
    )
    assert "buffered" not in llama(NATIVE_SAMPLER).formula(1024)


def _samples(row: Row) -> bool:
    """Whether the row logs its activations and the sampler is their peak, with flags that are not in doubt."""
    forward = ("CodeLlama-7b", "granite-3.1-8b", "granite-3.3-8b")
    is_log = row.id.startswith("llmd-") and "mistral" not in row.id
    is_run = row.of_planner and row.last_stage and not any(name in row.id for name in forward)
    return row.activation_gib is not None and (is_log or is_run)


SAMPLED = [row for row in ROWS if _samples(row)]


@every_case("row", SAMPLED, ids=lambda row: row.id)
def test_logged_peaks_of_sampling_are_met_within_a_hundredth_of_a_gib(row: Row) -> None:
    """The log prints two digits. No figure of the sampler was fitted to these rows."""
    assert row.activations_gib == pytest.approx(row.activation_gib, abs=0.0075)


def test_both_samplers_are_among_these_peaks() -> None:
    assert [row.version[1] for row in SAMPLED].count(11) == 9
    assert [row.version[1] for row in SAMPLED].count(19) == 28


FP8_ON_ADA = ("nvidia-4090-RedHatAI_Qwen3-14B", "nvidia-ada5000-RedHatAI_Qwen3-14B")
"""0.15 GiB more than the other models of these cards, outside PyTorch; no source explains it."""


@pytest.mark.parametrize("card", ["a100", "3090", "4090", "5090", "ada5000"])
def test_what_the_law_leaves_of_one_card_is_the_same_for_every_model(card: str) -> None:
    """vLLM 0.12 with 32 and 64 sequences, 128,256 to 201,088 tokens of vocabulary: one figure for each card."""
    rows = [row for row in ROWS if row.id.startswith(f"kyuz0-nvidia-{card}") and row.version == [0, 12]]
    left = [row.residual_gib for row in rows if not any(name in row.id for name in FP8_ON_ADA)]
    assert len(left) >= 3
    assert max(left) - min(left) <= 0.035
