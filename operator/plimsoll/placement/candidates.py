"""The GPU types and splits to judge for a request."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.caches import AttentionCache, CrossCache, StateCache
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split, Target
from plimsoll.domain.serving import Request
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of
from plimsoll.placement.divisibility import replica_refusal, split_refusal
from plimsoll.placement.memo import Memo

TENSOR_PARALLEL_DEGREES = (1, 2, 4, 8)
"""Degrees that fit on one node of eight GPUs and that divide the head counts of every catalogued model."""

PIPELINE_STAGES = (2, 4)
"""Numbers of pipeline stages worth their latency on one node of eight GPUs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One GPU type with one split. ``gpu`` is the target's GPU type."""

    gpu: GpuType
    target: Target

    @property
    def split(self) -> Split:
        """The split of a replica."""
        return self.target.split


def candidate_on(gpu: GpuType, split: Split, fleet: Fleet, *, restricted: bool = False) -> Candidate:
    """Return a candidate whose labels and resource are those of the fleet's nodes of its GPU type.

    With ``restricted``, its pods run on nodes of its capacity type alone. They do so too where the card is on both.
    """
    selector, *others = fleet.labels_of(gpu.name)
    resource = fleet.of_type(gpu.name)[0].resource
    capacity = gpu.capacity if restricted or fleet.has_both_capacities(gpu.name) else None
    return Candidate(gpu, Target(gpu.name, split, selector, resource, tuple(others), capacity))


def candidates(request: Request, fleet: Fleet, memo: Memo | None = None) -> tuple[Candidate, ...]:
    """Return every GPU type of the fleet with every split, by name and degree. An admin's degree is always included.

    Requests with equal splits share the candidates.
    """
    splits = splits_for(request) if memo is None else memo.recall(request, "splits", (), lambda: splits_for(request))
    return cuts(splits, fleet, restricted=request.constraints.restricts_capacity)


def cuts(splits: tuple[Split, ...], fleet: Fleet, *, restricted: bool = False) -> tuple[Candidate, ...]:
    """Return every GPU type of the fleet with each of these splits."""
    return fleet.once(
        ("cuts", splits, restricted),
        lambda: tuple(
            candidate_on(gpu, split, fleet, restricted=restricted) for gpu in fleet.gpu_types() for split in splits
        ),
    )


def splits_for(request: Request) -> tuple[Split, ...]:
    """Return the splits to judge for a model, ordered by GPUs and stages.

    Tensor parallelism is tried at every degree. Pipeline stages, as few as possible, are added only where tensor
    parallelism cannot divide the model over that many GPUs, or would copy KV heads instead of dividing them. In these
    cases stages hold more tokens. Expert parallelism is added only where the width of experts, or their quantized
    blocks, cannot be divided, and whole experts can be spread instead. With one engine, every rank has all tokens of a
    step anyway, so that the experts' results are summed as with tensor parallelism (vLLM sends tokens between ranks
    only with data parallelism). Data-parallel attention is added where tensor parallelism would copy keys and values.
    """
    forced = request.overrides.tensor_parallel
    if forced is not None and forced not in TENSOR_PARALLEL_DEGREES:
        return (*(Split(degree) for degree in TENSOR_PARALLEL_DEGREES), Split(forced))
    splits = {Split(degree) for degree in TENSOR_PARALLEL_DEGREES}
    for gpus in TENSOR_PARALLEL_DEGREES:
        if _copies_tokens(request.model, gpus) or not _divides(request, Split(gpus)):
            splits |= set(_staged(request, gpus)[:1])
        splits |= set(_with_whole_experts(request, Split(gpus)))
        splits |= set(_side_by_side(request, gpus))
    return tuple(sorted(splits, key=_order))


def _order(split: Split) -> tuple[int, int, int, bool]:
    return split.gpus, split.data_parallel, split.pipeline_parallel, split.expert_parallel


def _with_whole_experts(request: Request, split: Split) -> tuple[Split, ...]:
    whole = split._replace(expert_parallel=True)
    needed = request.model.experts is not None and not _divides(request, split)
    return (whole,) if needed and _divides(request, whole) else ()


def _side_by_side(request: Request, gpus: int) -> tuple[Split, ...]:
    """Return ``gpus`` engines of one GPU, which share the experts and have a KV cache each for requests of their own.

    They are of use where ranks of tensor parallelism would hold copies of the cache. A forced degree excludes them. The
    memory of adapters, drafts and what is kept in host memory is not known of several engines, so that there are none.
    """
    engine, split = request.engine, Split(1, data_parallel=gpus, expert_parallel=True)
    simple = engine.lora is None and engine.speculation is None and not engine.fills_host_memory
    if not simple or request.overrides.tensor_parallel is not None or not _copies_tokens(request.model, gpus):
        return ()
    if request.model.experts is None or Feature.DATA_PARALLEL not in engine_of(engine.name).since:
        return ()
    return (split,) if split_refusal(request.model, request.precision, "", split) is None else ()


def _staged(request: Request, gpus: int) -> list[Split]:
    """Return the splits of ``gpus`` GPUs into stages that the model allows, the fewest stages first."""
    staged = (Split(gpus // stages, stages) for stages in PIPELINE_STAGES if gpus % stages == 0)
    return [split for split in staged if _divides(request, split)]


def _copies_tokens(model: ModelFacts, degree: int) -> bool:
    """Whether ranks hold copies of keys and values: latents always, heads where there are fewer than ``degree``."""
    return degree > 1 and any(
        cache.kv_heads < degree if isinstance(cache, AttentionCache) else not isinstance(cache, StateCache | CrossCache)
        for cache in model.caches()
    )


def _divides(request: Request, split: Split) -> bool:
    return replica_refusal(request, "", split) is None
