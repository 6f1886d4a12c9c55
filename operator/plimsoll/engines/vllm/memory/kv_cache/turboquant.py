"""TurboQuant's KV cache: the layers that keep 16 bits, the block, and the scratch memory of its kernels.

Sources: vLLM 0.24 to 0.32, ``quantization/turboquant/config.py`` (``get_boundary_skip_layers``) and
``v1/attention/backends/turboquant_attn.py`` (``_reserve_workspace``).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.decisions.terms import CACHE_SCRATCH, Derivation, Line, Term
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, StateCache
from plimsoll.domain.models.model import LayerKind, ModelFacts
from plimsoll.domain.models.precision import TURBOQUANT, KvPrecision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import ceil_div

BLOCK_TOKENS = 32
"""Tokens of a block in models without recurrent states, as vLLM 0.32 plans them."""

_ENDS = 2
"""Layers at either end whose cache is not quantized; none in models with recurrent states."""

_SPLITS = 32
"""Parts of a decoding step's attention (``tq_max_kv_splits_for_cuda_graph``)."""

_FLOAT, _HALF = 4, 2
_DECODED_TOKENS = 128
"""Steps of more tokens than this reserve a request's whole context (``_CONTINUATION_DECODE_THRESHOLD``)."""


def turboquant_block(model: ModelFacts, precision: KvPrecision) -> int | None:
    """Return the tokens of a block; None where the usual rules decide."""
    return BLOCK_TOKENS if precision in TURBOQUANT and not _has_states(model) else None


@lru_cache(maxsize=256)
def with_native_ends(model: ModelFacts, precision: KvPrecision) -> ModelFacts:
    """Return the model with the caches of its first and last layers in its own type, where the format asks for it."""
    if precision not in TURBOQUANT or _has_states(model):
        return model
    layers = model.layers
    ends = min(_ENDS, layers // 2)
    kinds = list(model.kinds)
    order = list(model.order)
    for layer in {*range(ends), *range(layers - ends, layers)}:
        native = _native(model.kinds[model.order[layer]])
        if native not in kinds:
            kinds.append(native)
        order[layer] = kinds.index(native)
    return replace(model, kinds=tuple(kinds), order=tuple(order))


def scratch_bytes(request: Request, split: Split, settings: EngineSettings) -> int:
    """Return what the kernels of TurboQuant reserve on a rank: the larger of a decoding step and one whole context."""
    if request.kv_precision not in TURBOQUANT:
        return 0
    model, ranks = request.model, split.tensor_parallel
    caches = [cache for cache in model.caches() if isinstance(cache, AttentionCache)]
    if not caches:
        return 0
    width, kv_heads = max(cache.key_dim for cache in caches), max(cache.kv_heads for cache in caches)
    of_head = _SPLITS * (width + 1) * _FLOAT + width * _HALF + _FLOAT
    decoding = settings.max_num_seqs * max(1, model.heads // ranks) * of_head
    if settings.max_num_batched_tokens <= _DECODED_TOKENS:
        return decoding
    tokens = ceil_div(settings.max_model_len, BLOCK_TOKENS) * BLOCK_TOKENS
    return max(decoding, 2 * max(1, kv_heads // ranks) * tokens * width * _HALF)


def scratch_terms(size: int) -> tuple[Term, ...]:
    """Return the scratch memory as a term of an estimate; empty where there is none."""
    return (Term(CACHE_SCRATCH, size, _derivation, size),) if size else ()


def _derivation(size: int) -> Derivation:
    formula = "TurboQuant's kernels: the larger of a decoding step in 32 parts, and the keys and values of one context"
    return Derivation("scratch of the cache's format", (Line("scratch", formula, size),))


def _has_states(model: ModelFacts) -> bool:
    return any(isinstance(cache, StateCache) for cache in model.caches())


def _native(kind: LayerKind) -> LayerKind:
    return replace(kind, caches=tuple(_native_cache(cache) for cache in kind.caches))


def _native_cache(cache: CacheSpec) -> CacheSpec:
    return replace(cache, keeps_model_type=True) if isinstance(cache, AttentionCache) else cache
