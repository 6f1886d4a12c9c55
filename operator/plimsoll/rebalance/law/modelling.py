"""The model of one replica as it runs: its cache, its limits, the time of its steps, and what is promised."""

from __future__ import annotations

from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Split
from plimsoll.domain.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.performance.step_costs import step_costs
from plimsoll.placement.speed import plans_ahead
from plimsoll.rebalance.law.capacity import ReplicaModel


def model_of(request: Request, gpu: GpuType, split: Split, kv_tokens: int) -> ReplicaModel | None:
    """Return the model of a replica; None where the performance model does not cover the model or the split.

    Args:
        request: the deployment, with the settings that the replica runs with.
        gpu: the GPU type.
        split: how the replica is cut.
        kv_tokens: its KV cache, as reported, or else as predicted.
    """
    engine = engine_of(request.engine.name)
    if kv_tokens <= 0:
        return None
    try:
        settings = engine.settings(request, gpu, split)
        costs = step_costs(
            request.model,
            request.precision,
            request.kv_precision,
            gpu,
            split,
            settings.residency,
            synchronous=not plans_ahead(request),
        )
    except (PlimsollError, ValueError):
        return None
    return ReplicaModel(
        kv_tokens=kv_tokens,
        max_sequences=split.data_parallel * settings.max_num_seqs,
        batched_tokens=settings.max_num_batched_tokens,
        costs=costs,
        slo=request.slo or INTERACTIVE,
    )
