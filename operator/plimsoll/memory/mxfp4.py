"""How gpt-oss's experts lie in memory where another kernel than Marlin runs them: by GPU and release.

:mod:`plimsoll.memory.kernels` pads them as Marlin asks, which serves most GPUs. Source: vLLM
``quantization/mxfp4.py`` (since 0.19 ``fused_moe/oracle/mxfp4.py``), read in 0.10 to 0.19.
"""

from __future__ import annotations

from functools import lru_cache

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts, Sharding
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.memory.engine_law import EngineLaw
from plimsoll.memory.weights import Stored, rank_shape, stage_tensors

_HOPPER, _BLACKWELL = (9, 0), 10
_TRITON_WIDTH_STEP = 64
_FLASHINFER_STEP = 256

_ARCHITECTURE = "GptOssForCausalLM"


def relaid_bytes(model: ModelFacts, gpu: GpuType | None, split: Split, law: EngineLaw, stage: int) -> int:
    """Signed bytes that the experts of one rank of one stage take more than padded as Marlin asks.

    Hopper runs Triton's kernels, whose package comes with releases from 0.12 on: widths are padded less, the hidden
    size not at all, and the scales are kept beside their reordered copy. gpt-oss-120b logged 64.38 GiB (0.14.1, H100),
    64.17 computed; 65.97 with Marlin (0.10.1). From 0.19 on two sizes logged 0.1 GiB less than with Marlin, which is
    left. Data-centre Blackwell runs FlashInfer's kernels, which pad the width to 256 as well.
    """
    capability = gpu.compute_capability if gpu is not None else None
    if model.architecture != _ARCHITECTURE or capability is None:
        return 0
    if capability == _HOPPER and law.sorts_experts_with_triton:
        return _difference(model, split, stage, width_step=_TRITON_WIDTH_STEP, hidden_step=1, scale_copies=2)
    if capability[0] == _BLACKWELL:
        return _difference(
            model, split, stage, width_step=_FLASHINFER_STEP, hidden_step=_FLASHINFER_STEP, scale_copies=1
        )
    return 0


@lru_cache(maxsize=256)
def _difference(
    model: ModelFacts, split: Split, stage: int, *, width_step: int, hidden_step: int, scale_copies: int
) -> int:
    layers = stage_tensors(model, model.checkpoint.precision, split, stage).layers
    return sum(
        count * (_laid_out(each, split, width_step, hidden_step, scale_copies) - each.values - each.scales)
        for count, layer in layers
        for each in layer
        if each.weight.storage.precision is Precision.MXFP4 and each.weight.inputs > 1
    )


def _laid_out(each: Stored, split: Split, width_step: int, hidden_step: int, scale_copies: int) -> int:
    count, outputs, inputs = rank_shape(each.weight, split)
    is_down = each.weight.sharding is Sharding.EXPERT_INPUTS
    outputs = _rounded(outputs, hidden_step if is_down else width_step)
    inputs = _rounded(inputs, width_step if is_down else hidden_step)
    storage = each.weight.storage
    return count * (storage.value_bytes(outputs, inputs) + scale_copies * storage.scale_bytes_of(outputs, inputs))


def _rounded(size: int, step: int) -> int:
    return ceil_div(size, step) * step
