"""The least time of one token at batch size 1: memory bandwidth, and the PCIe cliff of weights that left the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload, Residency, WeightStreaming
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.memory.residency import resident_weights, stage_layer_bytes
from plimsoll.memory.weights import idle_expert_bytes, projection, rank_bytes, weight_format

_BYTES_PER_GB = 10**9


@dataclass(frozen=True, slots=True)
class DecodeFloor:
    """The least seconds per token: every active weight is read once.

    ``gpu_seconds`` are reads over the GPU's own bandwidth, ``host_seconds`` reads over PCIe. With streaming both run at
    the same time, with UVA offload one after the other.
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
    """Return the floor for one sequence, all stages one after the other, without reads of the KV cache.

    A token reads the layers (without the experts that it does not use) and the output projection. It reads only one row
    of an embedding table, and the tower has run before. Streaming copies whole layers with all experts, and reads them
    again on the GPU. Bandwidths are the peaks of the datasheets (:class:`~plimsoll.domain.cluster.gpus.GpuType`), so
    the result is a lower bound.
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
    on_gpu += rank_bytes(projection(model), weight_format(model, precision), split)
    return DecodeFloor(
        gpu_seconds=on_gpu / (gpu.memory_bandwidth_gb_per_second * _BYTES_PER_GB),
        host_seconds=in_host / (gpu.host_bandwidth_gb_per_second * _BYTES_PER_GB),
        overlaps=isinstance(residency, WeightStreaming),
    )
