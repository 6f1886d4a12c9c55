"""The KV cache that the declared load needs on one rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from plimsoll.domain.caches import (
    AttentionCache,
    CacheSpec,
    CrossCache,
    IndexerCache,
    LatentCache,
    RingCache,
    RowCache,
    StateCache,
)
from plimsoll.domain.outcomes import Split
from plimsoll.domain.serving import Request, ServingShape
from plimsoll.domain.terms import KV_CACHE, Derivation, Line, Term
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.engines.vllm.memory.rank_cache import rank_layout
from plimsoll.memory.draft import draft_caches
from plimsoll.memory.load import EXPECTED_HEADROOM_PERCENT, engine_shape, needed_blocks
from plimsoll.memory.stages import stage_caches


def cache_term(rank: Rank, layout: KvLayout) -> Term:
    """Return the needed cache as a term: whole blocks of every request, and the block that the engine keeps unused."""
    return Term(KV_CACHE, cache_bytes(engine_shape(rank.request.shape, rank.split), layout), _derivation, rank)


def cache_bytes(shape: ServingShape, layout: KvLayout) -> int:
    """Return the bytes of the cache that the load of one engine needs."""
    return layout.bytes_for(needed_blocks(shape, layout))


def _derivation(rank: Rank) -> Derivation:
    layout = rank_layout(rank.request, rank.split, rank.settings, rank.stage)
    if not layout.groups:
        return Derivation("none: an input is read in one step, and nothing of it is kept")
    return Derivation("needed by the declared load", tuple(_lines(rank, layout)))


def _lines(rank: Rank, layout: KvLayout) -> Iterator[Line]:
    request = rank.request
    caches = Counter(dict(stage_caches(request.model, rank.stage, rank.split.pipeline_parallel)))
    caches.update(dict(draft_caches(request) if rank.is_last else ()))
    for cache, count in caches.items():
        yield Line("cache", f"{count} layers: {_described(cache)}")
    block = f"{layout.block_tokens} tokens of a group = {layout.block_bytes:,} B"
    yield Line("block", f"{block}; {layout.bytes_per_token:,} B a token")
    yield from _share(request, rank.split)
    yield from _load(engine_shape(request.shape, rank.split), layout)


def _share(request: Request, split: Split) -> Iterator[Line]:
    if split.data_parallel > 1:
        total, own = request.shape.concurrency, split.share(request.shape.concurrency)
        yield Line("share", f"{total} requests over {split.data_parallel} engines: at most {own} on each")


def _load(shape: ServingShape, layout: KvLayout) -> Iterator[Line]:
    blocks, total = layout.blocks_of_request(shape.context_tokens), needed_blocks(shape, layout)
    groups = f"over {len(layout.groups)} kinds of group"
    yield Line("request", f"{shape.context_tokens:,} tokens = {blocks:,} blocks {groups}")
    how = f"{shape.concurrency} x {blocks:,} blocks"
    if shape.expected_tokens is not None:
        mean = layout.blocks_of_request(shape.expected_tokens)
        room = f"{EXPECTED_HEADROOM_PERCENT / 100:.1f} x {shape.concurrency} x {mean:,} blocks"
        how = f"min({how}, max({room} of {shape.expected_tokens:,} tokens, {blocks:,}))"
    yield Line("load", f"{how} = {total:,} blocks", total * layout.block_bytes)
    yield Line("null block", "the engine keeps one block unused", layout.bytes_for(0))


def _described(cache: CacheSpec) -> str:
    match cache:
        case AttentionCache(heads, key, value, window, chunk):
            seen = f", window {window:,}" if window else f", chunk {chunk:,}" if chunk else ""
            return f"{heads} KV heads x ({key} + {value}) values a token{seen}"
        case LatentCache(latent, rope, _):
            return f"latent attention, {latent} + {rope} values a token on every rank"
        case IndexerCache(head_dim):
            return f"indexer, {head_dim} + 4 bytes a token on every rank"
        case RowCache(row, _, tokens, window):
            seen = f", window {window:,}" if window else ""
            return f"rows of {row:,} bytes for {tokens} tokens each on every rank{seen}"
        case RingCache(size, tokens):
            return f"{size:,} bytes of each of the last {tokens} tokens a request on every rank"
        case CrossCache(heads, head_dim, tokens):
            return f"cross attention, {heads} KV heads x 2 x {head_dim} values x {tokens:,} encoder tokens a request"
        case StateCache(kind, parts):
            elements = sum(part.units * part.unit_elements for tensor in parts for part in tensor)
            return f"{kind.value} state, {elements:,} elements a request"
