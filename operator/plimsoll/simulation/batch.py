"""The requests of a replica that generate tokens, one in each step, and the blocks of the KV cache that they hold.

All of them take the same steps, so that many steps cost as much to compute as one: only the sum of their lengths is
counted on, and how many of them need another block in which step.

The admitted requests of a replica whose prompts are not computed yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from plimsoll.simulation.values import SimulatedRequest

BLOCK_TOKENS = 16
"""Tokens of a block of the KV cache (vLLM's default)."""


def blocks_of(tokens: int) -> int:
    """Return the blocks that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


class _Slot(NamedTuple):
    """The step at which a request joined, its tokens in the cache then, and the step after which it is done."""

    step: int
    tokens: int
    last: int


class Decoding:
    """Requests that generate. ``tokens`` and ``blocks`` are what all of them have in the KV cache."""

    __slots__ = ("_count", "_ends", "_needs", "_slots", "_step", "blocks", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        self.blocks = 0
        self._step = 0
        self._count = 0
        self._slots: dict[SimulatedRequest, _Slot] = {}
        self._ends: list[tuple[int, int, _Slot, SimulatedRequest]] = []
        self._needs = [0] * BLOCK_TOKENS
        """How many requests need another block in a step, by the number of the step modulo the size of a block."""

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def context(self) -> float:
        """The mean of their tokens in the cache; 0 without any request."""
        return self.tokens / len(self._slots) if self._slots else 0.0

    @property
    def blocks_needed(self) -> int:
        """The blocks that the next step adds."""
        return self._needs[self._step % BLOCK_TOKENS]

    @property
    def steps_to_end(self) -> int:
        """The steps until the first of them is done.

        Raises:
            IndexError: there is no request.
        """
        while self._slots.get(self._ends[0][3]) is not self._ends[0][2]:
            heappop(self._ends)
        return self._ends[0][0] - self._step

    def join(self, request: SimulatedRequest) -> None:
        """Let a request generate whose prompt is computed, and that has a token to generate."""
        left = request.arrival.output_tokens - request.generated
        slot = _Slot(self._step, request.computed, self._step + left)
        self._slots[request] = slot
        self._count += 1
        heappush(self._ends, (slot.last, self._count, slot, request))
        self._needs[_needs_at(slot)] += 1
        self.tokens += slot.tokens
        self.blocks += blocks_of(slot.tokens)

    def leave(self, request: SimulatedRequest) -> None:
        """Take a request out, as far as it has come.

        Raises:
            KeyError: it does not generate.
        """
        slot = self._slots.pop(request)
        passed = self._step - slot.step
        request.generated += passed
        self._needs[_needs_at(slot)] -= 1
        self.tokens -= slot.tokens + passed
        self.blocks -= blocks_of(slot.tokens + passed)

    def newest(self) -> SimulatedRequest:
        """Return the request that joined last.

        Raises:
            StopIteration: there is none.
        """
        return next(reversed(self._slots))

    def requests(self) -> tuple[SimulatedRequest, ...]:
        """Return all of them, in the order in which they joined."""
        return tuple(self._slots)

    def steps_within(self, blocks: int) -> int:
        """Return how many steps can be taken with so many free blocks. There is at least one request."""
        rounds, left = divmod(blocks, len(self._slots))
        steps = rounds * BLOCK_TOKENS
        while (needed := self._needs[(self._step + steps) % BLOCK_TOKENS]) <= left:
            left -= needed
            steps += 1
        return steps

    def advance(self, steps: int) -> None:
        """Take so many steps, in which nobody is done before the last one."""
        rounds, rest = divmod(steps, BLOCK_TOKENS)
        self.blocks += rounds * len(self._slots)
        self.blocks += sum(self._needs[(self._step + each) % BLOCK_TOKENS] for each in range(rest))
        self.tokens += steps * len(self._slots)
        self._step += steps

    def take_done(self) -> Iterator[SimulatedRequest]:
        """Take out the requests that have all their tokens."""
        while self._slots and self.steps_to_end == 0:
            request = self._ends[0][3]
            self.leave(request)
            yield request


def _needs_at(slot: _Slot) -> int:
    """Return the step, modulo the size of a block, at which a request has filled its blocks."""
    return (slot.step - slot.tokens) % BLOCK_TOKENS


Chunks = tuple[tuple[SimulatedRequest, int], ...]
"""The tokens of prompts that ride along in a step, by their requests."""


class Prompts:
    """Requests in the order of their admission. ``blocks`` are those of their whole prompts."""

    __slots__ = ("_requests", "blocks")

    def __init__(self) -> None:
        self.blocks = 0
        self._requests: list[SimulatedRequest] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: SimulatedRequest) -> bool:
        return request in self._requests

    @property
    def left(self) -> int:
        """The tokens of all of them that are to be computed."""
        return sum(request.known_tokens - request.computed for request in self._requests)

    def newest(self) -> SimulatedRequest:
        """Return the request that was admitted last.

        Raises:
            IndexError: there is none.
        """
        return self._requests[-1]

    def requests(self) -> tuple[SimulatedRequest, ...]:
        """Return all of them, in the order of their admission."""
        return tuple(self._requests)

    def admit(self, request: SimulatedRequest) -> None:
        """Give a request the blocks of its prompt."""
        self._requests.append(request)
        self.blocks += blocks_of(request.known_tokens)

    def release(self, request: SimulatedRequest) -> None:
        """Take back the blocks of a request.

        Raises:
            ValueError: it is not here.
        """
        self._requests.remove(request)
        self.blocks -= blocks_of(request.known_tokens)

    def chunks(self, room: int) -> Chunks:
        """Return what a step with ``room`` tokens for prompts computes of them, the oldest first."""
        found: list[tuple[SimulatedRequest, int]] = []
        for request in self._requests:
            tokens = min(room, request.known_tokens - request.computed)
            if tokens > 0:
                found.append((request, tokens))
                room -= tokens
        return tuple(found)
