"""The bytes that a token of decoding reads of the caches, and the work of the attention of a prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.caches import (
    AttentionCache,
    CacheSpec,
    CrossCache,
    IndexerCache,
    LatentCache,
    RowCache,
    StateCache,
)
from plimsoll.domain.model import LayerKind, ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import KvPrecision
from plimsoll.memory.cache_bytes import RankFormat, state_bytes, token_bytes

_FLOPS = 2
_STATE_PASSES = 2
"""A recurrent state is read and written for every token."""

_LATENT_PROJECTION = "self_attn.kv_b_proj"
_DEFAULT_HEAD_WIDTHS = 256
"""Key part without positions, and value, of one head of latent attention (128 + 128 in DeepSeek models)."""


@dataclass(frozen=True, slots=True)
class CacheWork:
    """One kind of cache on one rank, over all layers that have it.

    Attributes:
        token_bytes: bytes read of each earlier token that a new token attends to.
        token_flops: products for each of them, while decoding.
        prompt_flops: products for each pair of a token of a prompt and an earlier one.
        most_tokens: the most earlier tokens that are attended to (window, chunk, selection); None without a limit.
        fixed_bytes: bytes read and written for every token whatever the context (recurrent states).
    """

    token_bytes: float
    token_flops: float
    prompt_flops: float
    most_tokens: int | None
    fixed_bytes: float

    def attended(self, context: float) -> float:
        """Return how many earlier tokens a token behind ``context`` tokens attends to."""
        return context if self.most_tokens is None else min(context, float(self.most_tokens))

    def pairs(self, prompt: float) -> float:
        """Return the pairs of tokens that the attention of a prompt of that length computes."""
        most = prompt if self.most_tokens is None else min(prompt, float(self.most_tokens))
        return most * prompt - most * most / 2


def cache_work(model: ModelFacts, precision: KvPrecision, split: Split) -> tuple[CacheWork, ...]:
    """Return the work of the caches of all layers, one entry for each limit of attended tokens.

    Raises:
        UnsupportedModel: a cache has no layout in ``precision``.
    """
    rank = RankFormat(precision, 2, split.tensor_parallel, 0, model.name)
    sums: dict[int | None, list[float]] = {}
    for index, count in Counter(model.order).items():
        for work in _of_layer(model, model.kinds[index], rank, split):
            total = sums.setdefault(work.most_tokens, [0.0, 0.0, 0.0, 0.0])
            for place, each in enumerate((work.token_bytes, work.token_flops, work.prompt_flops, work.fixed_bytes)):
                total[place] += count * each
    return tuple(CacheWork(read, flops, prompt, most, fixed) for most, (read, flops, prompt, fixed) in sums.items())


def _of_layer(model: ModelFacts, kind: LayerKind, rank: RankFormat, split: Split) -> Iterator[CacheWork]:
    heads = max(1, model.heads // split.tensor_parallel)
    picked = min((cache.picked_tokens for cache in kind.caches if isinstance(cache, IndexerCache)), default=0)
    for cache in kind.caches:
        yield from _of_cache(cache, rank, split, heads, _latent_widths(kind, model), picked or None)


def _of_cache(
    cache: CacheSpec, rank: RankFormat, split: Split, heads: int, latent_widths: int, picked: int | None
) -> Iterator[CacheWork]:
    """Yield the work of one cache of one layer. Context parallelism divides the tokens, not the states."""
    share = 1 / split.context_parallel
    match cache:
        case AttentionCache():
            products = float(_FLOPS * heads * (cache.key_dim + cache.value_dim))
            most = cache.window_tokens or cache.chunk_tokens
            yield CacheWork(token_bytes(cache, rank) * share, products * share, products, most, 0)
        case LatentCache():
            decode = float(_FLOPS * heads * (2 * cache.latent + cache.rope))
            prompt = float(_FLOPS * heads * (latent_widths + cache.rope))
            most = picked if cache.sparse else None
            yield CacheWork(token_bytes(cache, rank) * share, decode * share, prompt, most, 0)
        case IndexerCache():
            yield CacheWork(token_bytes(cache, rank) * share, 0, 0, None, 0)
        case RowCache():
            products = float(_FLOPS * heads * cache.row_bytes) / cache.tokens_per_row
            size = cache.row_bytes / cache.tokens_per_row
            yield CacheWork(size * share, products * share, products, cache.window_tokens, 0)
        case CrossCache():
            yield CacheWork(0, 0, 0, None, float(cache.encoder_tokens * token_bytes(cache, rank)))
        case StateCache():
            yield CacheWork(0, 0, 0, None, float(_STATE_PASSES * state_bytes(cache, rank)))
        case _:
            return


def _latent_widths(kind: LayerKind, model: ModelFacts) -> int:
    """Return the key and value widths of one head that prefills expand from a latent."""
    found = (each for each in kind.weights if each.name == _LATENT_PROJECTION)
    return next((each.outputs // model.heads for each in found), _DEFAULT_HEAD_WIDTHS)
