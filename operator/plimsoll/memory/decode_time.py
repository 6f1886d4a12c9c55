"""The least time of one token at batch size 1: memory bandwidth, and the PCIe cliff of weights that left the GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.domain.engine_options import CpuOffload, Residency, WeightStreaming
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts, Sharding, Weight
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.memory.kernels import stored_bytes
from plimsoll.memory.residency import resident_weights, stage_layer_bytes
from plimsoll.memory.weights import idle_expert_bytes, rank_shape, weight_format

_BYTES_PER_GB = 10**9


@dataclass(frozen=True, slots=True)
class DecodeFloor:
    """Seconds below which no token can be made: every active weight is read once.

    ``gpu_seconds`` over the GPU's own bandwidth, ``host_seconds`` over PCIe; with streaming both go on at the same
    time, with UVA offload one after the other.
    """

    gpu_seconds: float
    host_seconds: float
    overlaps: bool

    @property
    def seconds(self) -> float:
        """The floor of time per output token (TPOT)."""
        return max(self.gpu_seconds, self.host_seconds) if self.overlaps else self.gpu_seconds + self.host_seconds


def decode_floor(
    model: ModelFacts, precision: Precision, gpu: GpuType, split: Split, residency: Residency | None = None
) -> DecodeFloor:
    """The floor for one sequence, all stages one after the other, without reading any KV cache.

    What is read: the layers but for experts that a token does not visit, and the output projection. An embedding table
    is looked up in one row, a tower has done its part before. Streaming copies whole layers, experts and all, and reads
    them again on the GPU. Bandwidths are the datasheets' peaks (:class:`~plimsoll.domain.gpus.GpuType`): the floor is a
    floor.
    """
    on_gpu = in_host = 0
    for stage in range(split.pipeline_parallel):
        layers = stage_layer_bytes(model, precision, split, stage)
        active = layers - idle_expert_bytes(model, precision, split, stage)
        host = resident_weights(model, precision, split, residency, stage).host_bytes
        if isinstance(residency, CpuOffload) and layers:
            host = host * active // layers
            active -= host
        in_host += host
        on_gpu += active
    on_gpu += _projection_bytes(model, precision, split)
    return DecodeFloor(
        gpu_seconds=on_gpu / (gpu.memory_bandwidth_gb_per_second * _BYTES_PER_GB),
        host_seconds=in_host / (gpu.host_bandwidth_gb_per_second * _BYTES_PER_GB),
        overlaps=isinstance(residency, WeightStreaming),
    )


def _projection_bytes(model: ModelFacts, precision: Precision, split: Split) -> int:
    """Bytes of the output projection on one rank: with tied embeddings it is the table."""
    form = weight_format(model, precision)
    weights = (*model.head, *(_tables(model.embedding) if model.tied_embeddings else ()))
    return sum(stored_bytes(weight, form.of(weight), rank_shape(weight, split)) for weight in weights)


def _tables(weights: Iterable[Weight]) -> Iterable[Weight]:
    """The table of token embeddings; not those of positions, nor of embeddings a layer."""
    return [weight for weight in weights if weight.sharding is Sharding.VOCABULARY][:1]
