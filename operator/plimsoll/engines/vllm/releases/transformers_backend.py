"""The models that vLLM may load through its generic Transformers backend, where it has no class of its own for them.

Source: ``model_executor/models/transformers.py`` (a package since 0.11.1) and ``registry.py`` of 0.8.0 to 0.33.0, and
the releases' ``requirements/common.txt``. The backend wants a class that the image's Transformers library has, or that
the checkpoint brings (``auto_map``), with exchangeable attention (``_supports_attention_backend``). Nothing here can
see that, so the answer is "may".
"""

from __future__ import annotations

from plimsoll.domain.caches import AttentionCache, CacheSpec, LatentCache
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.versions import EngineVersion

_WINDOWS = EngineVersion(0, 9)
"""Layers with a sliding window next to others (``interleaved_sliding_window``)."""
_TOWERS = EngineVersion(0, 10)
"""``TransformersForMultimodalLM``."""
_EXPERTS = EngineVersion(0, 19, 1)
"""``TransformersMoEForCausalLM`` is there since 0.11.1 and wants Transformers 5, which releases admit since 0.19.1."""
_LATENT = EngineVersion(0, 28)
"""Latent attention with the latent cache (``transformers/fusers``)."""


def may_load(model: ModelFacts, release: EngineVersion) -> bool:
    """Whether the backend of ``release`` has all parts of the model; recurrent states and own caches it never has."""
    return (
        all(_may_cache(cache, release) for cache in model.caches())
        and (model.encoder is None or release >= _TOWERS)
        and (model.experts is None or release >= _EXPERTS)
        and not model.host_bytes
    )


def _may_cache(cache: CacheSpec, release: EngineVersion) -> bool:
    if isinstance(cache, LatentCache):
        return not cache.sparse and release >= _LATENT
    if not isinstance(cache, AttentionCache) or cache.chunk_tokens is not None:
        return False
    return cache.window_tokens is None or release >= _WINDOWS
