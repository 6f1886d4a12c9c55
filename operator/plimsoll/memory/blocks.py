"""The bytes that PyTorch's allocator adds to the weights: the ends of blocks that it does not split off.

A tensor of 10 MiB or more gets its own segment, rounded up to 2 MiB. The rest of the segment counts as allocated unless
it is more than 1 MiB and may be split off. So a layer whose matrices end half a MiB below a step costs that much more,
and all layers are equal. Smaller tensors share segments; their waste is ignored.

Source: PyTorch, ``c10/cuda/CUDACachingAllocator.cpp`` (``get_allocation_size``, ``should_split``; constants in
``c10/core/AllocatorConfig.h``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import MIB, ceil_div
from plimsoll.memory.weights import EXPERTS, Stored, rank_shape, stage_tensors

_OWN_SEGMENT_BYTES = 10 * MIB
_SEGMENT_STEP = 2 * MIB
_KEPT_BYTES = MIB
_LARGEST_SPLIT_BYTES = 20 * MIB

_FUSED = {
    "q_proj": "qkv",
    "k_proj": "qkv",
    "v_proj": "qkv",
    "gate_proj": "gate_up",
    "up_proj": "gate_up",
    "q_a_proj": "qkv_a",
    "kv_a_proj_with_mqa": "qkv_a",
    "in_proj_qkv": "in_proj",
    "in_proj_z": "in_proj",
}
"""Projections that the engine keeps in one tensor (``MergedColumnParallelLinear``, ``QKVParallelLinear``)."""


def block_end_bytes(tensor_bytes: int, *, splits_large: bool) -> int:
    """Return the bytes that stay allocated after a tensor, at the end of its segment.

    Args:
        tensor_bytes: size of the tensor.
        splits_large: whether ends of segments above 20 MiB may be split off.
    """
    if tensor_bytes < _OWN_SEGMENT_BYTES:
        return 0
    end = ceil_div(tensor_bytes, _SEGMENT_STEP) * _SEGMENT_STEP - tensor_bytes
    is_split = end > _KEPT_BYTES and (splits_large or tensor_bytes < _LARGEST_SPLIT_BYTES)
    return 0 if is_split else end


def block_ends_bytes(
    model: ModelFacts,
    precision: Precision,
    split: Split,
    stage: int = 0,
    *,
    splits_large: bool = True,
) -> int:
    """Return the bytes that the allocator adds to the weights of one rank of one stage."""
    tensors = _tensors(model, precision, split, stage)
    return sum(times * block_end_bytes(size, splits_large=splits_large) for size, times in tensors)


def tensors_with_ends(
    model: ModelFacts, precision: Precision, split: Split, stage: int = 0, *, splits_large: bool = True
) -> int:
    """Return how many tensors of one rank of one stage keep the end of their block."""
    tensors = _tensors(model, precision, split, stage)
    return sum(times for size, times in tensors if block_end_bytes(size, splits_large=splits_large))


def _tensors(model: ModelFacts, precision: Precision, split: Split, stage: int) -> Iterator[tuple[int, int]]:
    """Yield the size of each kind of tensor, and how many there are of it."""
    stored = stage_tensors(model, precision, split, stage)
    return chain(
        ((size, count) for count, layer in stored.layers for size in _fused(layer)),
        ((size, times) for each in stored.outside for size, times in _apart(each, split)),
    )


def _fused(layer: Iterable[Stored]) -> Iterable[int]:
    """Return the sizes of one layer's large tensors. Fused projections are one tensor, and so are all experts."""
    sizes: dict[tuple[str, str], int] = {}
    for weight, values, scales in layer:
        parent, _, name = weight.name.rpartition(".")
        tensor = (parent, _FUSED.get(name, name))
        sizes[tensor] = sizes.get(tensor, 0) + values
        if scales:
            scale_tensor = (parent, f"{tensor[1]} scales")
            sizes[scale_tensor] = sizes.get(scale_tensor, 0) + scales
    return sizes.values()


def _apart(stored: Stored, split: Split) -> Iterator[tuple[int, int]]:
    """Yield sizes and counts of tensors of one name outside the decoder: tower layers are separate, experts are not."""
    if stored.weight.sharding in EXPERTS:
        yield stored.values, 1
        return
    count, *_ = rank_shape(stored.weight, split)
    if count:
        yield stored.values // count, count
