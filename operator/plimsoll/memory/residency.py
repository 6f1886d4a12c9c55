"""Weights that stay in host memory: the bytes that this saves on the GPU, and the bytes read over PCIe per step.

Weights in page-locked host memory: their bytes in one pod, and what the allocator adds to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload, Residency, WeightStreaming
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.memory.stages import stage_layers
from plimsoll.memory.weights import (
    layer_bytes,
    rank_bytes,
    stage_tensors,
    stage_weights,
    weight_format,
)


@dataclass(frozen=True, slots=True)
class Resident:
    """The weights of one rank by place: ``gpu_bytes`` on the GPU, ``host_bytes`` read over PCIe in every step.

    ``buffer_bytes``, a part of ``gpu_bytes``, are the buffers for copies of streamed layers.
    """

    gpu_bytes: int
    host_bytes: int = 0
    buffer_bytes: int = 0


def resident_weights(
    model: ModelFacts,
    precision: Precision,
    split: Split,
    residency: Residency | None,
    stage: int = 0,
) -> Resident:
    """Return where the weights of one rank of one stage are kept.

    Only decoder layers count as off the GPU. Embeddings, output projection and the kernels' copies stay on it. vLLM
    0.32 offloads a tower too; to be safe, the saving does not include it. UVA offload continues to the end of the
    parameter that crosses its limit, so the engine saves up to one parameter more. Source: vLLM,
    ``model_executor/offloader/uva.py`` and ``prefetch.py`` (``make_layers`` wraps the layers).
    """
    total = stage_weights(model, precision, split, stage).total_bytes
    match residency:
        case None:
            return Resident(total)
        case CpuOffload(bytes_per_gpu):
            host = min(bytes_per_gpu, stage_layer_bytes(model, precision, split, stage))
            return Resident(total - host, host)
        case WeightStreaming():
            host, buffers = _streamed(model, precision, split, residency, stage)
            return Resident(total - host + buffers, host, buffers)


@lru_cache(maxsize=1024)
def stage_layer_bytes(model: ModelFacts, precision: Precision, split: Split, stage: int) -> int:
    """Return the bytes of the parameters of one stage's decoder layers on one rank."""
    form = weight_format(model, precision)
    layers = stage_layers(model.layers, split.pipeline_parallel)[stage]
    return sum(layer_bytes(model.kinds[model.order[layer]], form, split) for layer in layers)


def _streamed(
    model: ModelFacts, precision: Precision, split: Split, streaming: WeightStreaming, stage: int
) -> tuple[int, int]:
    """Return the bytes that leave the GPU, and the bytes of the buffers for their copies.

    The last ``layers`` of every ``group`` leave the GPU. The pool holds ``prefetch`` copies of every different
    parameter, by name, shape and type, even if there are fewer layers than copies (``StaticBufferPool``).
    """
    form = weight_format(model, precision)
    layers = stage_layers(model.layers, split.pipeline_parallel)[stage]
    gone = [
        model.kinds[model.order[layer]]
        for index, layer in enumerate(layers)
        if index % streaming.group >= streaming.group - streaming.layers
    ]
    host = sum(layer_bytes(kind, form, split) for kind in gone)
    different = {weight for kind in gone for weight in kind.weights}
    return host, streaming.prefetch * rank_bytes(different, form, split)


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
    for count, layer in stage_tensors(model, precision, split, stage).layers:
        for stored in layer:
            yield count, stored.values
            if stored.scales:
                yield count, stored.scales
