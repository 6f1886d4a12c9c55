"""The tokens of a KV-cache block that a user names (``--block-size``).

vLLM keeps a named size, and takes another attention backend where its usual one cannot read it. It refuses to start
where no backend can (``get_attn_backend_cls`` of ``platforms/cuda.py`` and ``platforms/rocm.py``). A recurrent state
still enlarges the block (``Platform._align_hybrid_block_size``). All read in 0.20 to 0.33.
"""

from __future__ import annotations

from plimsoll.domain.caches import AttentionCache, IndexerCache, LatentCache, RowCache
from plimsoll.domain.model import ModelFacts

KERNEL_TOKENS = 16
"""Every backend for keys and values reads blocks of a multiple of 16 tokens (``get_supported_kernel_block_sizes`` of
``v1/attention/backends``, 0.33; the check "Block size must be a multiple of 16" since 0.8)."""

_LATENT_TOKENS = 64
"""Some kernels for latent rows read pages of 64 tokens alone, FlashMLA and the indexer of sparse attention among them.
Releases up to 0.14 enlarge other sizes to 64 for them (``check_and_update_config`` of ``platforms/cuda.py``)."""

_WIDE_HEAD = 256
"""From this width on, kernels of some GPUs choose longer blocks by themselves (``get_preferred_block_size`` of
``v1/attention/backends/flash_attn.py``, 0.33)."""


def block_refusal(model: ModelFacts, tokens: int) -> str | None:
    """Return why the engine does not start with blocks of so many tokens, and what to write; None where it may."""
    if tokens % KERNEL_TOKENS == 0 or not any(isinstance(cache, AttentionCache) for cache in model.caches()):
        return None
    near = max(1, round(tokens / KERNEL_TOKENS)) * KERNEL_TOKENS
    return (
        f"No attention backend of vLLM reads such blocks: write a multiple of {KERNEL_TOKENS}, e.g. {near}, or leave "
        "it out."
    )


def follows_block(model: ModelFacts, tokens: int | None) -> bool:
    """Whether the tokens of a block are certain on every GPU where so many are named; None where nobody names them."""
    caches = tuple(model.caches())
    if any(isinstance(cache, RowCache) for cache in caches):
        return False
    if any(isinstance(cache, LatentCache | IndexerCache) for cache in caches):
        return tokens is not None and tokens % _LATENT_TOKENS == 0
    wide = any(isinstance(cache, AttentionCache) and cache.key_dim >= _WIDE_HEAD for cache in caches)
    return tokens is not None or not wide
