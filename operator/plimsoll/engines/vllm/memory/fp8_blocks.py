"""The extra bytes of weights in FP8 blocks on a GPU, compared with the checkpoint's values and scales."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.gpus import GpuType, Vendor
from plimsoll.domain.model import ModelFacts, Sharding, Weight
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.memory.weights import Stored, rank_shape, stage_tensors

_COMPUTES_FP8 = (8, 9)
_SCALE_BYTES = 2
_ROW_STEP, _ROW_PADDING = 512, 256
_EXPERTS = (Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS)


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
    return 0 if weight.sharding in _EXPERTS or inputs % _ROW_STEP else count * outputs * _ROW_PADDING
