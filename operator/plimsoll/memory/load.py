"""The KV cache that the declared load needs."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import ServingShape
from plimsoll.domain.units import ceil_div


class BlockLayout(Protocol):
    """The blocks of an engine's KV cache."""

    @property
    def fixed_blocks(self) -> int:
        """The blocks of one request that do not depend on its length: of recurrent states, for example."""
        ...

    def blocks_of_request(self, context_tokens: int) -> int:
        """Return the blocks of one request of that length, in tokens."""
        ...


class AtOnce(NamedTuple):
    """The most tokens that the cache of one engine holds if a request leaves it with the step that reads its end.

    ``begun`` are tokens of the one request that earlier steps have begun; 0 if a step reads all of a request.
    ``steps`` are those of the running steps.
    """

    begun: int
    steps: int

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.begun + self.steps


EXPECTED_HEADROOM_PERCENT = 150
"""KV pool over concurrency x mean length: 1.5 had no preemption in seven trace replays (Azure 2023, Mooncake)."""


def engine_shape(shape: ServingShape, split: Split) -> ServingShape:
    """Return the load of one engine of a replica: with data parallelism, its share of the requests.

    The requests are of any length, and each is on one engine only. So the engines cannot lend cache to each other, and
    the share is rounded up.
    """
    return shape if split.data_parallel == 1 else replace(shape, concurrency=split.share(shape.concurrency))


def replica_tokens(shape: ServingShape, split: Split, at_once: AtOnce | None = None) -> int:
    """Return the tokens that the caches of all engines of one replica must hold. ``at_once`` is of each engine."""
    return split.data_parallel * needed_tokens(engine_shape(shape, split), at_once)


def needed_tokens(shape: ServingShape, at_once: AtOnce | None = None) -> int:
    """Return the tokens that the cache must hold.

    Guaranteed: all requests at full length at the same time. Expected: 1.5 x concurrency x mean length, at least one
    request of full length, and at most the guaranteed product. If requests end with the step that reads them, the
    engine needs no more than it holds ``at_once``; None if requests stay to generate.
    """
    guaranteed = shape.concurrency * shape.context_tokens
    if at_once is not None:
        guaranteed = min(guaranteed, at_once.tokens)
    if shape.expected_tokens is None:
        return guaranteed
    expected = ceil_div(EXPECTED_HEADROOM_PERCENT * shape.concurrency * shape.expected_tokens, 100)
    return min(guaranteed, max(expected, shape.context_tokens))


def needed_blocks(shape: ServingShape, layout: BlockLayout, at_once: AtOnce | None = None) -> int:
    """Return the same in blocks. Each request is rounded up to whole blocks in every group of layers."""
    by_load = _blocks_of_load(shape, layout)
    return by_load if at_once is None else min(by_load, blocks_at_once(shape, layout, at_once))


def blocks_at_once(shape: ServingShape, layout: BlockLayout, at_once: AtOnce) -> int:
    """Return the blocks of these tokens, as if one request had those of the steps.

    A step may read as many requests as are declared, if they are short. Each of them holds blocks of a fixed size.
    """
    parts = [tokens for tokens in at_once if tokens]
    others = max(0, shape.concurrency - len(parts))
    return sum(layout.blocks_of_request(tokens) for tokens in parts) + others * layout.fixed_blocks


def _blocks_of_load(shape: ServingShape, layout: BlockLayout) -> int:
    at_full_length = layout.blocks_of_request(shape.context_tokens)
    if shape.expected_tokens is None:
        return shape.concurrency * at_full_length
    mean = layout.blocks_of_request(shape.expected_tokens)
    expected = ceil_div(EXPECTED_HEADROOM_PERCENT * shape.concurrency * mean, 100)
    return min(shape.concurrency * at_full_length, max(expected, at_full_length))
