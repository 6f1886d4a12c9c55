"""Scales of weights in FP8 blocks, on GPUs that do not compute in FP8: Marlin's kernels want one for every output."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

from plimsoll.domain.gpus import GpuType, Vendor
from plimsoll.domain.model import ModelFacts, Weight
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.memory.weights import Stored, rank_shape, stage_tensors

_COMPUTES_FP8 = (8, 9)
_SCALE_BYTES = 2


def expanded_scale_bytes(model: ModelFacts, precision: Precision, gpu: GpuType | None, split: Split, stage: int) -> int:
    """Bytes that the scales of one rank of one stage take more than in the checkpoint.

    One in 32 bits for a block of outputs and inputs becomes one in 16 for each output and group of inputs. Source: vLLM
    ``quantization/utils/marlin_utils_fp8.py``, read in 0.19. Qwen3.5-35B-A3B-FP8 on an A100 (0.19.0) logged 34.71 GiB:
    34.22 without it, 34.70 with it; Gemma 4 31B in blocks on two RTX 3090 (0.21) 15.85: 15.60 and 15.81.
    """
    capability = gpu.compute_capability if gpu is not None and gpu.vendor is Vendor.NVIDIA else None
    return 0 if capability is None or capability >= _COMPUTES_FP8 else _expanded(model, precision, split, stage)


@lru_cache(maxsize=256)
def _expanded(model: ModelFacts, precision: Precision, split: Split, stage: int) -> int:
    stored = stage_tensors(model, precision, split, stage)
    tensors = chain(
        ((count, each) for count, layer in stored.layers for each in layer), ((1, each) for each in stored.outside)
    )
    return sum(count * (_by_output(each.weight, split) - each.scales) for count, each in tensors if _in_blocks(each))


def _in_blocks(stored: Stored) -> bool:
    storage = stored.weight.storage
    return bool(stored.scales) and storage.precision is Precision.FP8 and (storage.group_outputs or 0) > 1


def _by_output(weight: Weight, split: Split) -> int:
    count, outputs, inputs = rank_shape(weight, split)
    return count * outputs * ceil_div(inputs, weight.storage.group_inputs or inputs) * _SCALE_BYTES
