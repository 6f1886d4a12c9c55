"""Weights in page-locked host memory: their bytes in one pod, and what the allocator adds to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plimsoll.domain.engine_options import CpuOffload, Residency
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.memory.residency import resident_weights, stage_layer_bytes
from plimsoll.memory.weights import stage_tensors


class HostWeights(NamedTuple):
    """Weights in host memory of all ranks of one replica, and the bytes that their buffers take in addition."""

    weights_bytes: int = 0
    rounding_bytes: int = 0


def host_weights(model: ModelFacts, precision: Precision, split: Split, residency: Residency | None) -> HostWeights:
    """Return the weights that one replica keeps in host memory.

    PyTorch rounds a page-locked buffer up to a power of two (``ATen/core/CachingHostAllocator.h``, ``PowerOf2Ceil``).
    With a limit in bytes, a rank also keeps the whole of the tensor that crosses the limit.
    """
    if residency is None:
        return HostWeights()
    weights = rounding = 0
    for stage in range(split.pipeline_parallel):
        kept = resident_weights(model, precision, split, residency, stage).host_bytes
        sizes = list(_tensor_sizes(model, precision, split, stage))
        exact = sum(count * size for count, size in sizes)
        more = 0
        if isinstance(residency, CpuOffload):
            most = stage_layer_bytes(model, precision, split, stage)
            more = min(max((size for _, size in sizes), default=0), most - kept)
        rounded = sum(count * power_of_two(size) for count, size in sizes)
        weights += kept
        rounding += more + ((kept + more) * (rounded - exact) // exact if exact else 0)
    ranks = split.tensor_parallel * split.data_parallel
    return HostWeights(ranks * weights, ranks * rounding)


def power_of_two(size: int) -> int:
    """Return the smallest power of two that is not less than ``size``; 0 for nothing."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def _tensor_sizes(model: ModelFacts, precision: Precision, split: Split, stage: int) -> Iterator[tuple[int, int]]:
    """Yield the number and the size of every tensor of a stage's layers. Scales are tensors of their own."""
    for count, layer in stage_tensors(model, precision, split, stage).layers:
        for stored in layer:
            yield count, stored.values
            if stored.scales:
                yield count, stored.scales
