"""The KV cache that the declared load needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from plimsoll.domain.outcomes import Split
from plimsoll.domain.serving import ServingShape
from plimsoll.domain.units import ceil_div


class BlockLayout(Protocol):
    """The blocks of an engine's KV cache."""

    def blocks_of_request(self, context_tokens: int) -> int:
        """Return the blocks of one request of that length, in tokens."""
        ...


EXPECTED_HEADROOM_PERCENT = 150
"""KV pool over concurrency x mean length: 1.5 had no preemption in seven trace replays (Azure 2023, Mooncake)."""


def engine_shape(shape: ServingShape, split: Split) -> ServingShape:
    """Return the load of one engine of a replica: with data parallelism, its share of the requests.

    The requests are of any length, and each is on one engine only. So the engines cannot lend cache to each other, and
    the share is rounded up.
    """
    return shape if split.data_parallel == 1 else replace(shape, concurrency=split.share(shape.concurrency))


def replica_tokens(shape: ServingShape, split: Split) -> int:
    """Return the tokens that the caches of all engines of one replica must hold."""
    return split.data_parallel * needed_tokens(engine_shape(shape, split))


def needed_tokens(shape: ServingShape) -> int:
    """Return the tokens that the cache must hold.

    Guaranteed: all requests at full length at the same time. Expected: 1.5 x concurrency x mean length, at least one
    request of full length, and at most the guaranteed product.
    """
    guaranteed = shape.concurrency * shape.context_tokens
    if shape.expected_tokens is None:
        return guaranteed
    expected = ceil_div(EXPECTED_HEADROOM_PERCENT * shape.concurrency * shape.expected_tokens, 100)
    return min(guaranteed, max(expected, shape.context_tokens))


def needed_blocks(shape: ServingShape, layout: BlockLayout) -> int:
    """Return the same in blocks. Each request is rounded up to whole blocks in every group of layers."""
    at_full_length = layout.blocks_of_request(shape.context_tokens)
    if shape.expected_tokens is None:
        return shape.concurrency * at_full_length
    mean = layout.blocks_of_request(shape.expected_tokens)
    expected = ceil_div(EXPECTED_HEADROOM_PERCENT * shape.concurrency * mean, 100)
    return min(shape.concurrency * at_full_length, max(expected, at_full_length))
