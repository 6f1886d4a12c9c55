"""The layout of one rank's cache, and its capacity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import CacheSpec, RowCache
from plimsoll.domain.models.precision import SCALED_BY_TOKEN, TURBOQUANT, KvPrecision
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.kv_cache.blocks import BLOCK_TOKENS, pages_of
from plimsoll.engines.vllm.memory.kv_cache.groups import Holding, Layers, Page, group_layers
from plimsoll.engines.vllm.memory.kv_cache.packed import Packing, packed_groups
from plimsoll.memory.cache_bytes import PER_TOKEN_CACHES, RankFormat, token_bytes

NULL_BLOCKS = 1
"""vLLM keeps block 0 unused (``BlockPool.null_block``), but counts it in the figures that it prints."""


@dataclass(frozen=True, slots=True)
class Group:
    """``count`` groups of layers in which a request holds the same number of blocks.

    ``held_tokens`` limits how many tokens stay (None: all). ``extra_blocks`` are added. ``fixed_blocks`` is the number
    of blocks where the length of a request does not matter. ``token_ranks`` ranks share a request's tokens.
    """

    count: int
    block_tokens: int
    held_tokens: int | None = None
    extra_blocks: int = 0
    fixed_blocks: int | None = None
    token_ranks: int = 1

    @property
    def grows(self) -> bool:
        """Whether every token of a request takes more of these blocks, however long the request is."""
        return self.fixed_blocks is None and self.held_tokens is None

    def blocks_of_request(self, tokens: int) -> int:
        """Return the most blocks of a request of ``tokens`` tokens, over all ``count`` groups."""
        if self.fixed_blocks is not None:
            return self.count * self.fixed_blocks
        kept = ceil_div(tokens, self.token_ranks) if self.held_tokens is None else min(tokens, self.held_tokens)
        return self.count * (ceil_div(kept, self.block_tokens) + self.extra_blocks)


@dataclass(frozen=True, slots=True)
class KvLayout:
    """The blocks of one rank's cache.

    ``block_bytes`` are the bytes of one block id over all layers of a group; 0 for models without any cache.
    ``block_tokens`` are the tokens of an attention block. ``bytes_per_token`` are the bytes of one more token in
    every attention layer.
    """

    block_bytes: int
    block_tokens: int
    bytes_per_token: int
    groups: tuple[Group, ...]
    has_states: bool = False

    @property
    def fixed_blocks(self) -> int:
        """The blocks that a request of any length holds."""
        return sum([group.count * group.fixed_blocks for group in self.groups if group.fixed_blocks is not None])

    def blocks_of_request(self, tokens: int) -> int:
        """Return the most blocks that a request of ``tokens`` tokens holds, over all groups."""
        return sum([group.blocks_of_request(tokens) for group in self.groups])

    def growing_bytes_of_request(self, tokens: int) -> int:
        """Return the bytes of a request of ``tokens`` tokens in the groups that grow with every token."""
        return self.block_bytes * sum(group.blocks_of_request(tokens) for group in self.groups if group.grows)

    @property
    def growing_bytes_per_token(self) -> Fraction:
        """The bytes of one more token in the groups that grow, padding of their blocks included."""
        tokens = (Fraction(group.count, group.block_tokens * group.token_ranks) for group in self.groups if group.grows)
        return self.block_bytes * sum(tokens, Fraction(0))

    def bytes_for(self, blocks: int) -> int:
        """Return the bytes of ``blocks`` usable blocks and the null block."""
        return (blocks + NULL_BLOCKS) * self.block_bytes

    def pool_blocks(self, available_bytes: int) -> int:
        """Return the blocks that fit ``available_bytes``, including the null block (``num_gpu_blocks``)."""
        return max(0, available_bytes) // self.block_bytes if self.block_bytes else 0

    def capacity_tokens(self, available_bytes: int, context_tokens: int) -> int:
        """Return the tokens that vLLM reports: full-length requests times that length (``kv_cache_size_tokens``)."""
        return self.capacities((available_bytes,), context_tokens)[0]

    def capacities(self, available_bytes: Iterable[int], context_tokens: int) -> list[int]:
        """:meth:`capacity_tokens` of several pools."""
        per_request = self.blocks_of_request(context_tokens)
        if not per_request:
            return [0 for _ in available_bytes]
        # Through a float, like the engine: an exact product may round to one token more.
        return [int(self.pool_blocks(size) / per_request * context_tokens) for size in available_bytes]

    def tokens_by_group(self, available_bytes: int) -> int:
        """Return the tokens that vLLM reported up to 0.20.0: the pool divided by groups, in the smallest blocks."""
        groups = sum(group.count for group in self.groups)
        if not groups:
            return 0
        kept = [group for group in self.groups if group.fixed_blocks is None] or self.groups
        smallest = min(group.block_tokens * group.token_ranks for group in kept)
        return self.pool_blocks(available_bytes) // groups * smallest

    def bytes_of_tokens(self, tokens: int, context_tokens: int) -> int:
        """Return the bytes of a pool with a reported capacity of ``tokens``: the inverse of :meth:`capacity_tokens`."""
        blocks = ceil_div(tokens * self.blocks_of_request(context_tokens), context_tokens)
        return blocks * self.block_bytes

    def max_sequences(self, available_bytes: int) -> int | None:
        """Return the largest ``--max-num-seqs`` that starts; None where no recurrent state limits it.

        Source: vLLM, ``config/compilation.py``: each decoding sequence needs a block for its state.
        """
        return self.pool_blocks(available_bytes) if self.has_states else None


class _Steps(NamedTuple):
    """The sizes that decide what a running request holds in addition to its tokens."""

    batched_tokens: int
    in_flight_tokens: int
    retained_tokens: int
    state_blocks: int
    saves_states: bool
    token_ranks: int


def kv_layout(
    caches: Sequence[tuple[CacheSpec, int]],
    precision: KvPrecision,
    split: Split,
    *,
    batched_tokens: int,
    dtype_bytes: int = 2,
    speculative_tokens: int = 0,
    others: Sequence[tuple[CacheSpec, int]] = (),
    block_tokens: int | None = None,
    concurrent_batches: int | None = None,
    retained_tokens: int = 0,
    prefix_caching: bool = True,
    state_checkpoints: bool = True,
    state_alignment: int = BLOCK_TOKENS,
    aligns_to_block: bool = True,
    hybrid_manager: bool = True,
    packing: Packing = Packing.DENSE,
    model: str = "this model",
) -> KvLayout:
    """Return the layout on one rank of ``split``.

    Args:
        caches: caches of the rank's pipeline stage, with how many layers have each.
        precision: format of keys and values. States keep their own types.
        split: tensor, pipeline and context parallelism of the replica.
        batched_tokens: ``--max-num-batched-tokens``.
        dtype_bytes: bytes of the model's own type; 4 for 32-bit models, whose cache is 32-bit too.
        speculative_tokens: tokens drafted in a step.
        others: caches of the other pipeline stages.
        block_tokens: the backend's block, or the user's, where it is not the default.
        concurrent_batches: steps whose tokens windows reserve; by default one per stage and one more, as with
            asynchronous scheduling. Releases before 0.26 reserve for 1 (vLLM's pull request 47728).
        retained_tokens: tokens that windows keep longer, for multi-module speculation: its tokens less one.
        prefix_caching: whether it is on. Then a model with attention holds each recurrent state twice. Releases before
            0.28 leave it off for models with recurrent states (vLLM's pull request 50991).
        state_checkpoints: whether prefix caching keeps a block more for kernels that save states from inside a prefill.
        state_alignment: tokens of which a block is a multiple where a state decides its size.
        aligns_to_block: whether such a block is a multiple of ``block_tokens``, too.
        hybrid_manager: false where windows are charged as full attention.
        packing: how pages of different size share a block, for caches that the engine packs.
        model: the name in error messages.

    Raises:
        UnsupportedModel: the engine, or this law, knows no layout for these caches together.
    """
    if precision in (*SCALED_BY_TOKEN, *TURBOQUANT) and any(
        isinstance(cache, RowCache) for cache, _ in (*caches, *others)
    ):
        raise UnsupportedModel(model, f"the {precision} KV cache of rows whose format the kernels fix")
    rank = RankFormat(precision, dtype_bytes, split.tensor_parallel, speculative_tokens, model)
    layers = _layers(caches, others, rank, block_tokens, state_alignment, aligns_to_block=aligns_to_block)
    if any(isinstance(cache, RowCache) and cache.packed for cache, _ in (*caches, *others)):
        grouping = packed_groups(layers, packing)
    else:
        grouping = group_layers(layers, model, hybrid_manager=hybrid_manager)
    pages = [page for page, _ in grouping.groups]
    if split.context_parallel > 1 and any(page.holding in (Holding.WINDOW, Holding.CHUNK) for page in pages):
        raise UnsupportedModel(model, "context parallelism with sliding windows")
    states = any(entry.page.holding is Holding.STATE for entry in layers)
    attention = any(entry.page.holding not in (Holding.STATE, Holding.RING) for entry in layers)
    batches = split.pipeline_parallel + 1 if concurrent_batches is None else concurrent_batches
    steps = _Steps(
        batched_tokens=batched_tokens,
        in_flight_tokens=batches * batched_tokens,
        retained_tokens=retained_tokens,
        state_blocks=(2 if prefix_caching and attention else 1) + speculative_tokens,
        saves_states=prefix_caching and attention and state_checkpoints,
        token_ranks=split.context_parallel,
    )
    return KvLayout(
        block_bytes=grouping.block_bytes,
        block_tokens=_block_tokens(layers),
        bytes_per_token=_bytes_per_token(caches, rank, split),
        groups=tuple(_group(page, count, steps) for page, count in grouping.groups),
        has_states=states,
    )


def _block_tokens(layers: Sequence[Layers]) -> int:
    """Return the block of attention to all tokens, or of any other layer that keeps tokens."""
    pages = [entry.page for entry in layers if entry.page.holding not in (Holding.STATE, Holding.RING)]
    full = [page for page in pages if page.holding is Holding.FULL]
    return next((page.block_tokens for page in (*full, *pages)), 1)


def _layers(
    caches: Sequence[tuple[CacheSpec, int]],
    others: Sequence[tuple[CacheSpec, int]],
    rank: RankFormat,
    block_tokens: int | None,
    state_alignment: int,
    *,
    aligns_to_block: bool,
) -> list[Layers]:
    here = [count for _, count in caches] + [0] * len(others)
    everywhere = [*caches, *others]
    kinds = [cache for cache, _ in everywhere]
    pages = pages_of(kinds, rank, block_tokens, state_alignment, aligns_to_block=aligns_to_block)
    return [Layers(page, own, count) for page, own, (_, count) in zip(pages, here, everywhere, strict=True)]


def _group(page: Page, count: int, steps: _Steps) -> Group:
    """Return the groups of this page. Source: vLLM, ``max_memory_usage_bytes`` of each spec."""
    match page.holding:
        case Holding.FULL:
            return Group(count, page.block_tokens, token_ranks=steps.token_ranks)
        case Holding.WINDOW:
            # Tokens of running steps are not released yet, and a window may reach into one block more than it fills.
            held = page.limit_tokens - 1 + steps.retained_tokens + steps.in_flight_tokens
            return Group(count, page.block_tokens, held_tokens=held, extra_blocks=1)
        case Holding.CHUNK:
            return Group(count, page.block_tokens, held_tokens=page.limit_tokens + steps.in_flight_tokens)
        case Holding.CROSS:
            # The engine charges its encoder budget, which is the batch. It also computes an item that is longer.
            encoder_tokens = max(page.limit_tokens, steps.batched_tokens)
            return Group(count, page.block_tokens, fixed_blocks=ceil_div(encoder_tokens, page.block_tokens))
        case Holding.RING:
            return Group(count, page.block_tokens, fixed_blocks=1)
        case Holding.STATE:
            saved = page.limit_tokens if steps.saves_states else 0
            return Group(count, page.block_tokens, fixed_blocks=steps.state_blocks + saved)


def _bytes_per_token(caches: Sequence[tuple[CacheSpec, int]], rank: RankFormat, split: Split) -> int:
    total = Fraction(0)
    for cache, count in caches:
        if isinstance(cache, PER_TOKEN_CACHES):
            total += token_bytes(cache, rank) * count
        elif isinstance(cache, RowCache) and not cache.window_tokens:
            total += Fraction(cache.row_bytes, cache.tokens_per_row) * count
    return ceil(total / split.context_parallel)
