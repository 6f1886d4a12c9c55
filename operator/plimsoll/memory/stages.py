"""The layers of a pipeline stage, and their caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.caches import CacheSpec
from plimsoll.domain.models.model import ModelFacts

CountedCaches = tuple[tuple[CacheSpec, int], ...]
"""Caches with the number of layers that have each, in the order of their first layer."""


def stage_layers(layers: int, stages: int) -> tuple[range, ...]:
    """Return the layers of each pipeline stage, by index.

    The remainder goes, one layer each, to the stages just before the last stage. Source: vLLM,
    ``distributed/utils.py``, ``get_pp_indices``.

    Raises:
        ValueError: there are no stages.
    """
    if stages < 1:
        raise ValueError(f"stages: {stages} cannot hold layers; write 1 or more")
    sizes = [layers // stages] * stages
    for place in range(2, layers % stages + 2):
        sizes[-place] += 1
    ends = [sum(sizes[: stage + 1]) for stage in range(stages)]
    return tuple(range(end - size, end) for size, end in zip(sizes, ends, strict=True))


def counted(caches: Iterable[CacheSpec]) -> CountedCaches:
    """Return each different cache with its number."""
    return tuple(Counter(caches).items())


def stage_caches(model: ModelFacts, stage: int, stages: int) -> CountedCaches:
    """Return the caches of one pipeline stage's layers."""
    return counted(_caches(model, stage_layers(model.layers, stages)[stage]))


def other_caches(model: ModelFacts, stage: int, stages: int) -> CountedCaches:
    """Return the caches of all other stages: the engine makes groups from the layers of the whole model."""
    own = stage_layers(model.layers, stages)[stage]
    return counted(_caches(model, (layer for layer in range(model.layers) if layer not in own)))


def _caches(model: ModelFacts, layers: Iterable[int]) -> Iterable[CacheSpec]:
    return (cache for layer in layers for cache in model.kinds[model.order[layer]].caches)


@lru_cache(maxsize=1024)
def different_stages(model: ModelFacts, split: Split) -> tuple[int, ...]:
    """Return one stage of each kind. Stages between the first and the last with equal layers need the same memory."""
    stages = split.pipeline_parallel
    chosen: dict[tuple[bool, bool, tuple[tuple[int, int], ...]], int] = {}
    for stage, layers in enumerate(stage_layers(model.layers, stages)):
        held = tuple(sorted(Counter(model.order[layer] for layer in layers).items()))
        chosen.setdefault((stage == 0, stage == stages - 1, held), stage)
    return tuple(chosen.values())
