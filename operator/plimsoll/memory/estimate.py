"""The estimate of one candidate: every term of one rank, and what the budget leaves for the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.memory.activations import activations_bytes
from plimsoll.memory.kv_cache import KvLayout, kv_layout
from plimsoll.memory.laws import law_for
from plimsoll.memory.load import needed_blocks, needed_tokens
from plimsoll.memory.runtime import cuda_graphs_bytes, outside_bytes, overhead_bytes
from plimsoll.memory.weights import weights_bytes

MARGIN_BYTES = GIB // 4
"""Kept free of every estimate ..."""

MARGIN_PERMILLE = 10
"""... and this share of the GPU's usable memory: the error of the terms that are fitted, not computed."""


def estimate(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
    """VRAM of one rank of ``request`` on ``gpu``, cut by ``split`` and run with ``settings``.

    The budget identity is vLLM's own: requested = usable x utilization; KV cache = requested - weights - activations -
    what is outside PyTorch - CUDA graphs (``vllm/v1/worker/gpu_worker.py``).

    Raises:
        ValueError: the engine release is older than any known law.
        UnsupportedModel: the model has attention that no law covers.
    """
    law = law_for(request.engine.version)
    layout = kv_layout(request.model, request.kv_precision, split, batched_tokens=settings.max_num_batched_tokens)
    graphs = _graphs(request, settings)
    charged = graphs if law.charges_cuda_graphs else 0
    terms = _Terms(
        weights=weights_bytes(request.model, request.precision, split),
        activations=activations_bytes(
            request.model,
            split,
            law,
            batched_tokens=settings.max_num_batched_tokens,
            sequences=settings.max_num_seqs,
        ),
        graphs=charged,
        overhead=overhead_bytes(gpu, split),
        margin=MARGIN_BYTES + gpu.usable_bytes * MARGIN_PERMILLE // 1000,
    )
    return _assemble(request, gpu, layout, terms, settings, outside=outside_bytes(split) + graphs - charged)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms that do not depend on the KV cache, in bytes."""

    weights: int
    activations: int
    graphs: int
    overhead: int
    margin: int

    @property
    def total(self) -> int:
        return self.weights + self.activations + self.graphs + self.overhead + self.margin


def _graphs(request: Request, settings: EngineSettings) -> int:
    if settings.enforce_eager:
        return 0
    return cuda_graphs_bytes(
        request.model, sequences=settings.max_num_seqs, batched_tokens=settings.max_num_batched_tokens
    )


def _assemble(
    request: Request, gpu: GpuType, layout: KvLayout, terms: _Terms, settings: EngineSettings, *, outside: int
) -> MemoryEstimate:
    budget = gpu.usable_bytes * settings.gpu_memory_utilization_percent // 100
    return MemoryEstimate(
        weights_bytes=terms.weights,
        kv_cache_bytes=layout.bytes_for(needed_blocks(request.shape, layout)),
        activations_bytes=terms.activations,
        cuda_graphs_bytes=terms.graphs,
        overhead_bytes=terms.overhead,
        margin_bytes=terms.margin,
        outside_bytes=outside,
        usable_bytes=gpu.usable_bytes,
        budget_bytes=budget,
        kv_bytes_per_token=layout.bytes_per_token,
        kv_needed_tokens=needed_tokens(request.shape),
        kv_capacity_tokens=layout.capacity_tokens(max(0, budget - terms.total), request.shape.context_tokens),
        forced_bytes=request.overrides.memory_per_gpu_bytes,
    )
