"""The memory layout of experts where their kernel needs more or less than their shape: by GPU and release.

:mod:`plimsoll.memory.kernels` pads gpt-oss's experts for Marlin, which serves most GPUs. Source: vLLM
``quantization/mxfp4.py`` (since 0.19 ``fused_moe/oracle/mxfp4.py``), read in 0.10 to 0.19, and
``quantization/utils/flashinfer_utils.py``, read in 0.16 and 0.17.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts, Sharding, Weight
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.expert_kernels import Scheme, is_gated, scheme_of
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
