"""The memory layout of experts where their kernel needs more or less than their shape: by GPU and release.

:mod:`plimsoll.memory.kernels` pads gpt-oss's experts for Marlin, which serves most GPUs. Source: vLLM
``quantization/mxfp4.py`` (since 0.19 ``fused_moe/oracle/mxfp4.py``), read in 0.10 to 0.19, and
``quantization/utils/flashinfer_utils.py``, read in 0.16 and 0.17.

The extra bytes of weights in FP8 blocks on a GPU, compared with the checkpoint's values and scales.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.expert_kernels import Scheme, is_gated, scheme_of
from plimsoll.memory.weights import Stored, rank_shape, stage_tensors

_HOPPER, _BLACKWELL = (9, 0), 10
_GPT_OSS = "GptOssForCausalLM"
_EXPERTS = (Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS)
_FP8 = (Scheme.FP8_BLOCK, Scheme.FP8_CHANNEL, Scheme.FP8_TENSOR)


class _Layout(NamedTuple):
    """The steps to which a rank's width and the hidden size are rounded up, and the number of copies of the scales."""

    width_step: int
    hidden_step: int
    scale_copies: int = 1


_TRITON, _TRITON_SORTED_ALONE = _Layout(64, 1, scale_copies=2), _Layout(64, 1)
_FLASHINFER_MXFP4 = _Layout(256, 256)
_FLASHINFER_UNGATED = _Layout(128, 1)


def relaid_bytes(model: ModelFacts, gpu: GpuType | None, split: Split, law: EngineLaw, stage: int) -> int:
    """Return the signed bytes that one rank's experts of one stage take beyond :mod:`plimsoll.memory.kernels`.

    Triton's kernels run MXFP4 on Hopper. Their package comes with releases from 0.12 on. They pad widths less and the
    hidden size not at all, and keep the original scales in addition to the reordered copy until 0.24. gpt-oss-120b
    logged 64.38 GiB (0.14.1, H100; 64.17 computed) and 61.29 (0.25.1; 61.01 computed), and 65.97 with Marlin (0.10.1).
    From 0.19 to 0.24 two sizes logged 0.1 GiB less than with Marlin; this difference is ignored. Data-centre Blackwell
    runs FlashInfer's kernels, which pad the width to 256 as well.

    FP8 experts without a gate are padded to 128 for FlashInfer on Hopper and Blackwell since 0.17: Nemotron 3 Nano
    logged 30.52 GiB on 0.14.1 and 31.40 on 0.19 (H200).
    """
    found = _layout_of(model, gpu, law)
    return 0 if found is None else _difference(model, split, stage, *found)


def relaid_formula(model: ModelFacts, gpu: GpuType | None, split: Split, law: EngineLaw, stage: int) -> str:
    """Return how the bytes of :func:`relaid_bytes` come about; empty where the experts stay as they are."""
    found = _layout_of(model, gpu, law)
    if found is None:
        return ""
    precision, layout = found
    counted, laid_out = _sizes(model, split, stage, precision, layout)
    padded = f"widths in steps of {layout.width_step}"
    if layout.hidden_step > 1:
        padded += f", hidden size in steps of {layout.hidden_step}"
    if layout.scale_copies > 1:
        padded += f", scales {layout.scale_copies} times"
    return f"the kernel of this GPU keeps the experts in {laid_out:,} B ({padded}), not in the {counted:,} B above"


def _layout_of(model: ModelFacts, gpu: GpuType | None, law: EngineLaw) -> tuple[Precision, _Layout] | None:
    """Return the format of the experts that a kernel lays out in its own way, and that way; None for all others."""
    capability = gpu.compute_capability if gpu is not None else None
    if model.experts is None or capability is None or capability < _HOPPER:
        return None
    if model.architecture != _GPT_OSS:
        pads = law.pads_ungated_experts and capability[0] <= _BLACKWELL and _has_ungated_fp8(model)
        return (Precision.FP8, _FLASHINFER_UNGATED) if pads else None
    if capability == _HOPPER and law.sorts_experts_with_triton:
        return Precision.MXFP4, _TRITON_SORTED_ALONE if law.drops_unsorted_scales else _TRITON
    return (Precision.MXFP4, _FLASHINFER_MXFP4) if capability[0] == _BLACKWELL else None


def _has_ungated_fp8(model: ModelFacts) -> bool:
    return not is_gated(model) and scheme_of(model, model.checkpoint.precision) in _FP8


def _difference(model: ModelFacts, split: Split, stage: int, precision: Precision, layout: _Layout) -> int:
    counted, laid_out = _sizes(model, split, stage, precision, layout)
    return laid_out - counted


def _sizes(model: ModelFacts, split: Split, stage: int, precision: Precision, layout: _Layout) -> tuple[int, int]:
    """Return the bytes of these experts as the weights count them, and in the kernel's layout."""
    layers = stage_tensors(model, model.checkpoint.precision, split, stage).layers
    experts = [(count, each) for count, layer in layers for each in layer if _is_expert(each.weight, precision)]
    counted = sum(count * each.total for count, each in experts)
    return counted, sum(count * _laid_out(each, split, layout) for count, each in experts)


def _is_expert(weight: Weight, precision: Precision) -> bool:
    return weight.storage.precision is precision and weight.inputs > 1 and weight.sharding in _EXPERTS


def _laid_out(each: Stored, split: Split, layout: _Layout) -> int:
    count, outputs, inputs = rank_shape(each.weight, split)
    is_down = each.weight.sharding is Sharding.EXPERT_INPUTS
    outputs = _rounded(outputs, layout.hidden_step if is_down else layout.width_step)
    inputs = _rounded(inputs, layout.width_step if is_down else layout.hidden_step)
    storage = each.weight.storage
    scales = layout.scale_copies * storage.scale_bytes_of(outputs, inputs)
    return count * (storage.value_bytes(outputs, inputs) + scales)


def _rounded(size: int, step: int) -> int:
    return ceil_div(size, step) * step


_COMPUTES_FP8 = (8, 9)
_SCALE_BYTES = 2
_ROW_STEP, _ROW_PADDING = 512, 256
_FUSED_EXPERTS = (Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS)


def fp8_block_bytes(model: ModelFacts, precision: Precision, gpu: GpuType | None, split: Split, stage: int) -> int:
    """Return the bytes that FP8 blocks on one rank of one stage take in addition to the checkpoint's.

    NVIDIA's cards before Ada do not compute in FP8. Marlin's kernels run it there. They need a 16-bit scale for each
    output and group of inputs, where the checkpoint has one 32-bit scale for a block (vLLM
    ``quantization/utils/marlin_utils_fp8.py``, read in 0.19). Qwen3.5-35B-A3B-FP8 on an A100 (0.19.0) logged 34.71 GiB:
    34.22 without it, 34.70 with it; Gemma 4 31B in blocks on two RTX 3090 (0.21) 15.85: 15.60 and 15.81.

    On AMD's, rows of a linear layer that are a multiple of 512 B long get 256 B more (VLLM_ROCM_FP8_PADDING in
    ``quantization/utils/fp8_utils.py``, read in 0.11 to 0.29). Qwen3.8-27B-FP8 on an MI355X (0.20.2) logged 29.38 GiB,
    and 14.90 on each of two: 28.50 and 14.42 without it, 29.43 and 14.97 with it.
    """
    if gpu is None:
        return 0
    if gpu.vendor is Vendor.AMD:
        return _padding(model, precision, split, stage)
    capability = gpu.compute_capability
    return 0 if capability is None or capability >= _COMPUTES_FP8 else _expansion(model, precision, split, stage)


def fp8_block_formula(model: ModelFacts, precision: Precision, gpu: GpuType | None, split: Split, stage: int) -> str:
    """Return how the bytes of :func:`fp8_block_bytes` come about."""
    if gpu is not None and gpu.vendor is Vendor.AMD:
        rows = _padding(model, precision, split, stage) // _ROW_PADDING
        return f"{rows:,} rows of FP8 weights x {_ROW_PADDING} B of padding on AMD's GPUs"
    counted = sum(count * each.scales for count, each in _blocks(model, precision, split, stage))
    wanted = counted + _expansion(model, precision, split, stage)
    return f"this GPU does not compute in FP8: its kernel wants {wanted:,} B of scales for the {counted:,} B above"


def _expansion(model: ModelFacts, precision: Precision, split: Split, stage: int) -> int:
    blocks = _blocks(model, precision, split, stage)
    return sum(count * (_scales_by_output(each.weight, split) - each.scales) for count, each in blocks)


def _padding(model: ModelFacts, precision: Precision, split: Split, stage: int) -> int:
    blocks = _blocks(model, precision, split, stage)
    return sum(count * _row_padding(each.weight, split) for count, each in blocks)


def _blocks(model: ModelFacts, precision: Precision, split: Split, stage: int) -> Iterator[tuple[int, Stored]]:
    """Weights in FP8 blocks and the number of layers that have them."""
    stored = stage_tensors(model, precision, split, stage)
    yield from ((count, each) for count, layer in stored.layers for each in layer if _in_blocks(each))
    yield from ((1, each) for each in stored.outside if _in_blocks(each))


def _in_blocks(stored: Stored) -> bool:
    storage = stored.weight.storage
    return bool(stored.scales) and storage.precision is Precision.FP8 and (storage.group_outputs or 0) > 1


def _scales_by_output(weight: Weight, split: Split) -> int:
    count, outputs, inputs = rank_shape(weight, split)
    return count * outputs * ceil_div(inputs, weight.storage.group_inputs or inputs) * _SCALE_BYTES


def _row_padding(weight: Weight, split: Split) -> int:
    count, outputs, inputs = rank_shape(weight, split)
    return 0 if weight.sharding in _FUSED_EXPERTS or inputs % _ROW_STEP else count * outputs * _ROW_PADDING
