"""The part of a model that an engine loads: with its tower, without it, or with a whole tower on every rank.

Layers of sparse attention that use an earlier layer's choice of keys, and the engines that omit their indexers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from plimsoll.domain.engines.engine_choice import ALL_MEDIA, EngineVersion, MediaUse
from plimsoll.domain.models.caches import IndexerCache, LatentCache
from plimsoll.domain.models.model import EncoderFacts, LayerKind, ModelFacts, Sharding

_SINCE = {
    EngineVersion(0, 10, 2): (
        "Glm4vForConditionalGeneration",
        "Glm4vMoeForConditionalGeneration",
        "KimiVLForConditionalGeneration",
        "Llama4ForConditionalGeneration",
        "MiniCPMO",
        "MiniCPMV",
        "Qwen2_5_VLForConditionalGeneration",
        "Step3VLForConditionalGeneration",
    ),
    EngineVersion(0, 11, 1): (
        "DotsOCRForCausalLM",
        "H2OVLChatModel",
        "InternVLChatModel",
        "JinaVLForRanking",
        "NVLM_D",
        "Qwen2VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
    ),
    EngineVersion(0, 12): ("OpenCUAForConditionalGeneration",),
    EngineVersion(0, 14): ("IsaacForConditionalGeneration",),
    EngineVersion(0, 15): (
        "Eagle2_5_VLForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "StepVLForConditionalGeneration",
    ),
    EngineVersion(0, 16): ("GlmOcrForConditionalGeneration", "InternS1ProForConditionalGeneration"),
    EngineVersion(0, 17): ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
    EngineVersion(0, 20): ("Exaone4_5_ForConditionalGeneration",),
    EngineVersion(0, 21): ("QianfanOCRForConditionalGeneration",),
    EngineVersion(0, 22): ("InternS2PreviewForConditionalGeneration", "MiniCPMV4_6ForConditionalGeneration"),
    EngineVersion(0, 23): ("Cosmos3ForConditionalGeneration", "Step3p7ForConditionalGeneration"),
    EngineVersion(0, 24): ("MiniMaxM3SparseForConditionalGeneration",),
    EngineVersion(0, 26): ("Cosmos3EdgeForConditionalGeneration",),
    EngineVersion(0, 27): ("KimiK3ForConditionalGeneration",),
    EngineVersion(0, 28): ("InternS2MobiusForConditionalGeneration",),
    EngineVersion(0, 29): ("Qwen4ExpForConditionalGeneration",),
    EngineVersion(0, 30): ("CohereCompassForConditionalGeneration", "DeepseekV41ForCausalLM"),
    EngineVersion(0, 32): ("MiniCPMV4_7ForConditionalGeneration",),
}

COPIES_ENCODER_SINCE = MappingProxyType({name: since for since, names in _SINCE.items() for name in names})
"""From which release on an engine can copy a class's tower to every rank (``supports_encoder_tp_data``); it takes no
notice for others. Source: vLLM ``model_executor/models`` and ``models``, read in 0.8.5 to 0.33; classes that lost it
are left out."""


@lru_cache(maxsize=256)
def served_model(model: ModelFacts, media: MediaUse) -> ModelFacts:
    """Return ``model`` as an engine with ``media`` loads it; the model itself where there is no tower."""
    if model.encoder is None or media == ALL_MEDIA:
        return model
    return replace(model, encoder=None if media.text_only else _served(model.encoder, media))


def _served(encoder: EncoderFacts, media: MediaUse) -> EncoderFacts:
    """Return the encoder as it is served. Images or videos that are not served are not profiled."""
    weights = encoder.weights
    if media.copies_encoder:
        weights = tuple(replace(weight, sharding=Sharding.REPLICATED) for weight in weights)
    return replace(
        encoder,
        weights=weights,
        is_copied=media.copies_encoder,
        item_tokens=0 if media.images == 0 else encoder.item_tokens,
        output_tokens=0 if media.images == 0 else encoder.output_tokens,
        video=None if media.videos == 0 else encoder.video,
        most_images=media.images,
        most_videos=media.videos,
    )


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
