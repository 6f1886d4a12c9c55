"""The GPU types and splits to judge for a request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.models.caches import AttentionCache, CrossCache, StateCache
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of
from plimsoll.placement.options.divisibility import divides, split_refusal, unknown_on_several_engines

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


def candidate_on(gpu: GpuType, split: Split, fleet: Fleet, *, restricted: bool) -> Candidate:
    """Return a candidate whose labels and resource are those of the fleet's nodes of its GPU type.

    With ``restricted``, its pods run on nodes of its capacity type alone. They do so too if the card is on both.
    """
    selector, *others = fleet.labels_of(gpu.name)
    resource = fleet.of_type(gpu.name)[0].resource
    capacity = gpu.capacity if restricted or fleet.has_both_capacities(gpu.name) else None
    return Candidate(gpu, Target(gpu.name, split, selector, resource, tuple(others), capacity))


def candidates(request: Request, fleet: Fleet) -> tuple[Candidate, ...]:
    """Return every GPU type of the fleet with every split, by name and degree. An admin's degree is always included.

    Requests with equal splits share the candidates.
    """
    return cuts(splits_for(request), fleet, restricted=request.constraints.restricts_capacity)


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

    Tensor parallelism is tried at every degree. Pipeline stages, as few as possible, are added only if tensor
    parallelism cannot divide the model over that many GPUs, or would copy KV heads instead of dividing them. In these
    cases stages hold more tokens. Expert parallelism is added only if the width of experts, or their quantized
    blocks, cannot be divided, and whole experts can be spread instead. With one engine, every rank has all tokens of a
    step anyway, so that the experts' results are summed as with tensor parallelism (vLLM sends tokens between ranks
    only with data parallelism). Data-parallel attention is added if tensor parallelism would copy keys and values.
    """
    speculation = request.engine.speculation
    divided = _Divided(request.model, request.precision, None if speculation is None else speculation.draft)
    return _splits(divided, request.overrides.tensor_parallel, several=_may_have_several_engines(request))


class _Divided(NamedTuple):
    """Everything that a split divides: a model in a precision, and its draft."""

    model: ModelFacts
    precision: Precision
    draft: ModelFacts | None

    def by(self, split: Split) -> bool:
        return divides(self.model, self.precision, self.draft, split)


@lru_cache(maxsize=1024)
def _splits(divided: _Divided, forced: int | None, *, several: bool) -> tuple[Split, ...]:
    if forced is not None and forced not in TENSOR_PARALLEL_DEGREES:
        return (*(Split(degree) for degree in TENSOR_PARALLEL_DEGREES), Split(forced))
    splits = {Split(degree) for degree in TENSOR_PARALLEL_DEGREES}
    for gpus in TENSOR_PARALLEL_DEGREES:
        if _copies_tokens(divided.model, gpus) or not divided.by(Split(gpus)):
            splits |= set(_staged(divided, gpus)[:1])
        splits |= set(_with_whole_experts(divided, Split(gpus)))
        splits |= set(_side_by_side(divided, gpus) if several else ())
    return tuple(sorted(splits, key=_order))


def _order(split: Split) -> tuple[int, int, int, bool]:
    return split.gpus, split.data_parallel, split.pipeline_parallel, split.expert_parallel


def _with_whole_experts(divided: _Divided, split: Split) -> tuple[Split, ...]:
    whole = split._replace(expert_parallel=True)
    needed = divided.model.experts is not None and not divided.by(split)
    return (whole,) if needed and divided.by(whole) else ()


def _may_have_several_engines(request: Request) -> bool:
    """Whether a replica may run several engines side by side. A forced degree excludes them."""
    engine = request.engine
    is_known = Feature.DATA_PARALLEL in engine_of(engine.name).since
    return is_known and unknown_on_several_engines(engine) is None and request.overrides.tensor_parallel is None


def _side_by_side(divided: _Divided, gpus: int) -> tuple[Split, ...]:
    """Return ``gpus`` engines of one GPU, which share the experts and have a KV cache each for requests of their own.

    They are of use if ranks of tensor parallelism would hold copies of the cache.
    """
    split = Split(1, data_parallel=gpus, expert_parallel=True)
    if divided.model.experts is None or not _copies_tokens(divided.model, gpus):
        return ()
    return (split,) if split_refusal(divided.model, divided.precision, "", split) is None else ()


def _staged(divided: _Divided, gpus: int) -> list[Split]:
    """Return the splits of ``gpus`` GPUs into stages that the model allows, the fewest stages first."""
    staged = (Split(gpus // stages, stages) for stages in PIPELINE_STAGES if gpus % stages == 0)
    return [split for split in staged if divided.by(split)]


def _copies_tokens(model: ModelFacts, degree: int) -> bool:
    """Whether ranks hold copies of keys and values: latents always, heads if there are fewer than ``degree``."""
    return degree > 1 and any(
        cache.kv_heads < degree if isinstance(cache, AttentionCache) else not isinstance(cache, StateCache | CrossCache)
        for cache in model.caches()
    )
