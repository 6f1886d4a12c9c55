"""The KV cache that the declared load needs on one rank.

The tokens that the cache of an engine that pools holds at the same time.

A request that pools ends with the step that reads its last token, and its blocks are free before the next step is
planned. So the cache holds what the running steps read, and what earlier steps have read of one request: a step takes
up that request first, and cuts only the last one that it takes up. All other requests wait without any block.

Sources, vLLM 0.32: ``v1/core/sched/scheduler.py`` (``schedule``: running requests come first, and a request that is cut
uses up the step), ``config/model.py`` (``is_chunked_prefill_supported``), ``config/vllm.py``
(``max_concurrent_batches``: a step for each stage, because asynchronous scheduling is off where an engine pools).

In a cache of just this size some steps read less than they could, and nothing is preempted: the scheduler takes up a
request only where all of its input fits the free blocks (``scheduler_reserve_full_isl``), and short requests waste the
end of a block each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import KV_CACHE, CacheLoad, Derivation, Line, Term
from plimsoll.domain.models.caches import (
    AttentionCache,
    CacheSpec,
    CrossCache,
    IndexerCache,
    LatentCache,
    RingCache,
    RowCache,
    StateCache,
)
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.vllm.memory.kv_cache import Group, KvLayout
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import rank_layout
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.memory.draft import draft_caches
from plimsoll.memory.load import EXPECTED_HEADROOM_PERCENT, AtOnce, blocks_at_once, engine_shape, needed_blocks
from plimsoll.memory.stages import stage_caches

_POOL_BY_STEPS = frozenset({"Qwen2ForProcessRewardModel"})


def tokens_at_once(request: Request, split: Split, batched_tokens: int) -> AtOnce | None:
    """Return the most tokens in the cache of one engine, whatever waits; None where requests stay to generate.

    ``batched_tokens`` is ``--max-num-batched-tokens``. It is at least the context where requests are not cut, so there
    is always room for one request of full length, without which the engine does not start.
    """
    if request.model.task is not Task.POOL:
        return None
    begun = 0 if reads_at_once(request.model) else request.shape.context_tokens
    return AtOnce(begun, split.pipeline_parallel * batched_tokens)


def reads_at_once(model: ModelFacts) -> bool:
    """Whether the engine never cuts a prompt into chunks: encoders, and pooling by steps (``config/model.py``).

    The method of pooling may be in files of the checkpoint that are not read here. Mean and first-token pooling of a
    decoder needs ``spec.engine.maxBatchedTokens`` of at least ``contextLength``.
    """
    return model.task is Task.POOL and (not model.keeps_cache or model.architecture in _POOL_BY_STEPS)


def cache_term(rank: Rank, layout: KvLayout) -> Term:
    """Return the needed cache as a term: whole blocks of every request, and the block that the engine keeps unused."""
    size = cache_bytes(engine_shape(rank.request.shape, rank.split), layout, _at_once(rank))
    return Term(KV_CACHE, size, _derivation, rank)


def cache_bytes(shape: ServingShape, layout: KvLayout, at_once: AtOnce | None) -> int:
    """Return the bytes of the cache that the load of one engine needs. ``at_once`` is as in ``needed_blocks``."""
    return layout.bytes_for(needed_blocks(shape, layout, at_once))


def _at_once(rank: Rank) -> AtOnce | None:
    return tokens_at_once(rank.request, rank.split, rank.settings.max_num_batched_tokens)


def _derivation(rank: Rank) -> Derivation:
    layout = rank_layout(rank.request, rank.gpu, rank.split, rank.settings, rank.stage)
    if not layout.groups:
        return Derivation("none: an input is read in one step, and nothing of it is kept")
    load = cache_load(engine_shape(rank.request.shape, rank.split), layout, _at_once(rank))
    return Derivation("needed by the declared load", tuple(_lines(rank, layout)), load)


def cache_load(shape: ServingShape, layout: KvLayout, at_once: AtOnce | None) -> CacheLoad:
    """Return the load of one engine in figures that add up to :func:`cache_bytes`."""
    if at_once is not None and needed_blocks(shape, layout, at_once) < needed_blocks(shape, layout):
        return _load_at_once(shape, layout, at_once)
    requests, tokens, percent = _counted(shape, layout)
    growing = layout.growing_bytes_of_request(tokens)
    return CacheLoad(
        requests=requests,
        tokens=tokens,
        percent=percent,
        growing_bytes_per_token=layout.growing_bytes_per_token,
        growing_bytes=growing,
        bounded_bytes=layout.block_bytes * layout.blocks_of_request(tokens) - growing,
        total_bytes=cache_bytes(shape, layout, at_once),
    )


def _load_at_once(shape: ServingShape, layout: KvLayout, at_once: AtOnce) -> CacheLoad:
    """Return the load where the running steps decide the size, and not the declared requests."""
    total = cache_bytes(shape, layout, at_once)
    growing = sum(layout.growing_bytes_of_request(tokens) for tokens in at_once)
    return CacheLoad(
        requests=1,
        tokens=at_once.tokens,
        percent=100,
        growing_bytes_per_token=layout.growing_bytes_per_token,
        growing_bytes=growing,
        bounded_bytes=total - layout.bytes_for(0) - growing,
        total_bytes=total,
        of_steps=True,
    )


def _counted(shape: ServingShape, layout: KvLayout) -> tuple[int, int, int]:
    """Return the requests that decide the size, the tokens of each, and the percent of their cache that is kept."""
    needed, longest = needed_blocks(shape, layout), layout.blocks_of_request(shape.context_tokens)
    if shape.expected_tokens is None or needed == shape.concurrency * longest:
        return shape.concurrency, shape.context_tokens, 100
    if needed == longest:
        return 1, shape.context_tokens, 100
    return shape.concurrency, shape.expected_tokens, EXPECTED_HEADROOM_PERCENT


def _lines(rank: Rank, layout: KvLayout) -> Iterator[Line]:
    request = rank.request
    caches = Counter(dict(stage_caches(request.model, rank.stage, rank.split.pipeline_parallel)))
    caches.update(dict(draft_caches(request) if rank.is_last else ()))
    for cache, count in caches.items():
        yield Line("cache", f"{count} layers: {_described(cache)}")
    yield Line("block", f"{layout.block_bytes:,} B, one page of each layer of a group; all groups share the blocks")
    yield from _share(request, rank.split)
    yield from _load(engine_shape(request.shape, rank.split), layout, _at_once(rank))


def _share(request: Request, split: Split) -> Iterator[Line]:
    if split.data_parallel > 1:
        total, own = request.shape.concurrency, split.share(request.shape.concurrency)
        yield Line("share", f"{total} requests over {split.data_parallel} engines: at most {own} on each")


def _load(shape: ServingShape, layout: KvLayout, at_once: AtOnce | None) -> Iterator[Line]:
    blocks, total = layout.blocks_of_request(shape.context_tokens), needed_blocks(shape, layout, at_once)
    for group in layout.groups:
        yield Line("group", _grouped(group, shape.context_tokens))
    parts = [f"{group.blocks_of_request(shape.context_tokens):,}" for group in layout.groups]
    added = f"{' + '.join(parts)} = " if len(parts) > 1 else ""
    yield Line("request", f"{shape.context_tokens:,} tokens = {added}{blocks:,} blocks")
    how = f"{shape.concurrency} x {blocks:,} blocks"
    if shape.expected_tokens is not None:
        mean = layout.blocks_of_request(shape.expected_tokens)
        room = f"{EXPECTED_HEADROOM_PERCENT / 100:.1f} x {shape.concurrency} x {mean:,} blocks"
        how = f"min({how}, max({room} of {shape.expected_tokens:,} tokens, {blocks:,}))"
    if at_once is not None:
        begun = f" + {at_once.begun:,} of a request that was begun" if at_once.begun else ""
        yield Line("at once", f"{at_once.steps:,} tokens of running steps{begun}, the others wait")
        how = f"min({how}, {blocks_at_once(shape, layout, at_once):,} blocks of {at_once.tokens:,} tokens)"
    yield Line("load", f"{how} = {total:,} blocks", total * layout.block_bytes)
    yield Line("null block", "1 block that the engine keeps unused", layout.bytes_for(0))


def _grouped(group: Group, tokens: int) -> str:
    """Return what a request holds in these groups."""
    which = f"{group.count} group{'s' if group.count > 1 else ''} of layers"
    blocks = group.blocks_of_request(tokens)
    own = f"{group.count} x {blocks // group.count:,} = {blocks:,} blocks"
    if group.fixed_blocks is not None:
        return f"{which} with a fixed size for each request: {own}"
    if group.held_tokens is None:
        return f"{which} that keep every token, {group.block_tokens * group.token_ranks:,} in a block: {own}"
    held = f"at most {group.held_tokens:,} tokens (window and running steps), {group.block_tokens:,} in a block"
    return f"{which} that keep {held}: {own}"


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
