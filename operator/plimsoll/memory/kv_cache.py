"""KV cache of one rank: blocks, groups of layers, and how many blocks a request takes.

vLLM keeps one pool of blocks. Layers of one kind form a group; where kinds are mixed (full and sliding attention) every
group holds the same number of layers, padded, and a request takes blocks for each group
(``vllm/v1/core/kv_cache_utils.py``). A model of one kind is the simple case: one group with all its layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.model import AttentionLayers, ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import KvPrecision
from plimsoll.domain.units import ceil_div

BLOCK_TOKENS = 16
"""Tokens of one block (vLLM's ``DEFAULT_BLOCK_SIZE``). Backends may take larger ones: bytes per token stay the same."""

NULL_BLOCKS = 1
"""vLLM keeps block 0 unused (``BlockPool.null_block``)."""

CONCURRENT_BATCHES = 2
"""Steps in flight with asynchronous scheduling, vLLM's default: sliding windows hold their tokens too."""


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How one rank's cache is cut.

    ``block_bytes`` is what one block id costs over all layers of a group; ``windows`` has an entry per group: its
    sliding window in tokens, or None for full attention. ``bytes_per_token`` is of the full-attention reading of the
    model.
    """

    block_bytes: int
    windows: tuple[int | None, ...]
    bytes_per_token: int
    in_flight_tokens: int

    def blocks_of_request(self, tokens: int) -> int:
        """Blocks that a request of ``tokens`` tokens holds at its longest, over all groups."""
        return sum(self._blocks_in_group(window, tokens) for window in self.windows)

    def _blocks_in_group(self, window: int | None, tokens: int) -> int:
        if window is None:
            return ceil_div(tokens, BLOCK_TOKENS)
        # A window straddles one block more than it fills, and tokens of running steps are not released yet.
        return ceil_div(min(window - 1 + self.in_flight_tokens, tokens), BLOCK_TOKENS) + 1

    def bytes_for(self, blocks: int) -> int:
        """Bytes of ``blocks`` usable blocks, the null block included."""
        return (blocks + NULL_BLOCKS) * self.block_bytes

    def blocks_in(self, available_bytes: int) -> int:
        """Usable blocks that fit in ``available_bytes``; zero when not even the null block fits."""
        return max(0, available_bytes // self.block_bytes - NULL_BLOCKS)

    def capacity_tokens(self, available_bytes: int, context_tokens: int) -> int:
        """Tokens as vLLM reports them: concurrency at full length times that length (``kv_cache_size_tokens``)."""
        per_request = self.blocks_of_request(context_tokens)
        return self.blocks_in(available_bytes) * context_tokens // per_request


def kv_layout(model: ModelFacts, precision: KvPrecision, split: Split, *, batched_tokens: int) -> KvLayout:
    """The layout on one rank of ``split``.

    Raises:
        UnsupportedModel: layers of different KV width are mixed; no law for that yet.
    """
    per_layer = {_layer_token_bytes(group, precision, split) for group in model.attention}
    if len(per_layer) != 1:
        raise UnsupportedModel(model.name, "attention layers with different KV widths in one model")
    (token_bytes,) = per_layer
    buckets = _buckets(model.attention)
    group_size = _group_size(tuple(buckets.values()))
    windows = tuple(window for window, layers in buckets.items() for _ in range(ceil_div(layers, group_size)))
    return KvLayout(
        block_bytes=BLOCK_TOKENS * token_bytes * group_size,
        windows=windows,
        bytes_per_token=token_bytes * sum(buckets.values()),
        in_flight_tokens=CONCURRENT_BATCHES * batched_tokens,
    )


def _layer_token_bytes(group: AttentionLayers, precision: KvPrecision, split: Split) -> int:
    """K and V of one token in one layer on one rank; a rank never holds less than one KV head."""
    heads = max(1, group.kv_heads // split.tensor_parallel)
    return 2 * heads * group.head_dim * precision.bytes_per_value


def _buckets(attention: tuple[AttentionLayers, ...]) -> dict[int | None, int]:
    """Layers by window, full attention first, so that the order never depends on the configuration's."""
    counts: dict[int | None, int] = {}
    for group in sorted(attention, key=lambda group: (group.window_tokens is not None, group.window_tokens or 0)):
        counts[group.window_tokens] = counts.get(group.window_tokens, 0) + group.count
    return counts


def _group_size(layers: tuple[int, ...]) -> int:
    """The engine's rule: the smallest bucket, or the largest where they are within a factor of 1.5 (less padding)."""
    smallest, largest = min(layers), max(layers)
    return largest if largest < 1.5 * smallest else smallest
