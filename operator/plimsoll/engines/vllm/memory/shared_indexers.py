"""Layers of sparse attention that use an earlier layer's choice of keys, and the engines that omit their indexers."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from plimsoll.domain.caches import IndexerCache, LatentCache
from plimsoll.domain.model import LayerKind, ModelFacts
from plimsoll.domain.versions import EngineVersion

SHARES_INDEXERS_SINCE = EngineVersion(0, 24)
"""Before, every sparse layer has an indexer and its cache, used or not (vLLM ``models/deepseek_v2.py``, read in 0.21 to
0.27). GLM-5.2 on 8 x H20 (0.23): 61,472 B a token logged, 61,464 computed, 53,940 with sharing."""

_INDEXER = "self_attn.indexer."


@lru_cache(maxsize=256)
def with_loaded_indexers(model: ModelFacts, version: EngineVersion) -> ModelFacts:
    """``model`` as an engine of ``version`` makes it: with an indexer in every sparse layer, where none are shared."""
    owner = next((kind for kind in model.kinds if _picks(kind)), None)
    if (
        version >= SHARES_INDEXERS_SINCE
        or owner is None
        or all(_picks(kind) or not _sparse(kind) for kind in model.kinds)
    ):
        return model
    weights = tuple(weight for weight in owner.weights if weight.name.startswith(_INDEXER))
    caches = tuple(cache for cache in owner.caches if isinstance(cache, IndexerCache))
    kinds = (
        LayerKind(kind.weights + weights, kind.caches + caches) if _sparse(kind) and not _picks(kind) else kind
        for kind in model.kinds
    )
    return replace(model, kinds=tuple(kinds))


def _picks(kind: LayerKind) -> bool:
    return any(isinstance(cache, IndexerCache) for cache in kind.caches)


def _sparse(kind: LayerKind) -> bool:
    return any(isinstance(cache, LatentCache) and cache.sparse for cache in kind.caches)
