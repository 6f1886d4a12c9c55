"""The estimate of one candidate: every term of one rank, and the budget that is left for the KV cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.domain.engine_options import LoraSlots
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.observations import Correction
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.engines.vllm.memory.adapters import adapters_bytes
from plimsoll.engines.vllm.memory.allocator import loading_bytes
from plimsoll.engines.vllm.memory.band import band
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.laws import law_for
from plimsoll.engines.vllm.memory.outside_budget import outside_budget_bytes
from plimsoll.engines.vllm.memory.rank import Rank, rank_activations, rank_graphs, rank_overhead, value_bytes
from plimsoll.engines.vllm.memory.rank_cache import rank_layout
from plimsoll.memory.band import Band
from plimsoll.memory.calibration import learned_band
from plimsoll.memory.draft import draft_weights
from plimsoll.memory.load import needed_blocks, needed_tokens
from plimsoll.memory.residency import Resident, resident_weights
from plimsoll.memory.stages import different_stages


def estimate(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
    """Return the VRAM of one rank of ``request`` on ``gpu`` with ``split`` and ``settings``.

    The formula of the budget is vLLM's own: requested = usable x utilization; KV cache = requested - weights -
    activations - memory outside PyTorch - CUDA graphs (``vllm/v1/worker/gpu_worker.py``). With pipeline parallelism,
    the estimate is that of the stage that runs out of memory first, because the engine gives every stage as many blocks
    as the stage with the fewest has.

    Raises:
        ValueError: the engine release is older than any known law.
        UnsupportedModel: the model has a cache that no law covers.
    """
    stages = [
        estimate_of_stage(request, gpu, split, settings, stage) for stage in different_stages(request.model, split)
    ]
    if len(stages) == 1:
        return stages[0]
    short = max(stages, key=lambda each: each.computed_bytes)
    return replace(
        short,
        kv_capacity_tokens=min(each.kv_capacity_tokens for each in stages),
        kv_capacity_low_tokens=min(each.kv_capacity_low_tokens for each in stages),
        kv_capacity_high_tokens=min(each.kv_capacity_high_tokens for each in stages),
        kv_told_tokens=min(each.kv_told_tokens for each in stages),
    )


def estimate_of_stage(
    request: Request, gpu: GpuType, split: Split, settings: EngineSettings, stage: int
) -> MemoryEstimate:
    """Return the VRAM of one rank of one pipeline stage, as in its own log. The other stages are ignored.

    Raises:
        ValueError, UnsupportedModel: as :func:`estimate`.
    """
    rank = Rank(request, gpu, split, settings, law_for(request.engine.version), stage)
    return _assemble(rank, rank_layout(request, split, settings, stage), _terms(rank))


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms that do not depend on the KV cache, in bytes."""

    weights: Resident
    adapters: int
    activations: int
    graphs: int
    overhead: int
    outside: int
    band: Band
    learned: int = 0

    @property
    def total(self) -> int:
        return self.weights.gpu_bytes + self.adapters + self.activations + self.graphs + self.overhead + self.learned


def _terms(rank: Rank) -> _Terms:
    request, gpu, split, law = rank.request, rank.gpu, rank.split, rank.law
    lora = request.engine.lora
    graphs = rank_graphs(rank).memory
    correction = request.correction_for(gpu.name, split)
    activations = rank_activations(rank)
    prior = band(request.model, gpu, split, law, sequences=rank.settings.max_num_seqs)
    terms = _Terms(
        weights=_weights(rank),
        adapters=0 if lora is None else _adapters(rank, lora),
        activations=activations.total,
        graphs=graphs.estimated_bytes,
        overhead=sum(size for _, size in rank_overhead(rank)),
        outside=outside_budget_bytes(request.model, gpu, split, law, graphs, sequences=rank.settings.max_num_seqs),
        band=prior._replace(low_bytes=prior.low_bytes - activations.spared_when_warm),
    )
    return terms if correction is None else _corrected(terms, correction, rank.settings)


def _corrected(terms: _Terms, correction: Correction, settings: EngineSettings) -> _Terms:
    """Return the terms with the correction learned from engines of the same kind, and with the learned band."""
    return replace(
        terms,
        weights=replace(terms.weights, gpu_bytes=terms.weights.gpu_bytes + correction.weights_bytes),
        activations=terms.activations + correction.activations_bytes,
        learned=correction.rest_bytes,
        band=learned_band(
            terms.band,
            correction,
            batched_tokens=settings.max_num_batched_tokens,
            sequences=settings.max_num_seqs,
        ),
    )


def _weights(rank: Rank) -> Resident:
    """Return the model's weights with the allocator's extra bytes, and on the last stage those of a draft."""
    request = rank.request
    own = resident_weights(
        request.model,
        request.precision,
        rank.split,
        request.engine.residency,
        rank.stage,
    )
    extra = loading_bytes(
        request.model,
        request.precision,
        rank.gpu,
        rank.split,
        rank.law,
        rank.stage,
        batched_tokens=rank.settings.max_num_batched_tokens,
    )
    if rank.is_last:
        extra += draft_weights(request, rank.split)
    return Resident(own.gpu_bytes + extra, own.host_bytes, own.buffer_bytes)


def _adapters(rank: Rank, slots: LoraSlots) -> int:
    return adapters_bytes(rank.request.model, slots, rank.split, rank.stage, value_bytes=value_bytes(rank.request))


def _assemble(rank: Rank, layout: KvLayout, terms: _Terms) -> MemoryEstimate:
    request, settings = rank.request, rank.settings
    budget = rank.gpu.usable_bytes * settings.gpu_memory_utilization_percent // 100
    left, context = budget - terms.total, request.shape.context_tokens
    # Weights and cache are counted and not estimated, so the need is never below them, for any band.
    slack = max(0, min(-terms.band.low_bytes, terms.total - terms.weights.gpu_bytes - terms.adapters))
    expected, low, high = layout.capacities((left, left - terms.band.high_bytes, left + slack), context)
    by_group = kv_law_for(request.engine.version).tells_tokens_by_group
    return MemoryEstimate(
        weights_bytes=terms.weights.gpu_bytes,
        adapters_bytes=terms.adapters,
        kv_cache_bytes=layout.bytes_for(needed_blocks(request.shape, layout)),
        activations_bytes=terms.activations,
        cuda_graphs_bytes=terms.graphs,
        overhead_bytes=terms.overhead,
        margin_bytes=terms.band.high_bytes,
        slack_bytes=slack,
        outside_bytes=terms.outside,
        usable_bytes=rank.gpu.usable_bytes,
        budget_bytes=budget,
        kv_bytes_per_token=layout.bytes_per_token,
        kv_needed_tokens=needed_tokens(request.shape),
        kv_capacity_tokens=expected,
        kv_capacity_low_tokens=low,
        kv_capacity_high_tokens=high,
        kv_told_tokens=layout.tokens_by_group(left) if by_group else expected,
        kv_block_tokens=layout.block_tokens,
        max_sequences=layout.max_sequences(max(0, left - terms.band.high_bytes)),
        host_bytes=terms.weights.host_bytes,
        forced_bytes=request.overrides.memory_per_gpu_bytes,
        stage=rank.stage,
        learned_bytes=terms.learned,
    )
