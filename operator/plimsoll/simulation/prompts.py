"""The admitted requests of a replica whose prompts are not computed yet."""

from __future__ import annotations

from plimsoll.simulation.decoding import blocks_of
from plimsoll.simulation.request import Request

Chunks = tuple[tuple[Request, int], ...]
"""The tokens of prompts that ride along in a step, by their requests."""


class Prompts:
    """Requests in the order of their admission. ``blocks`` are those of their whole prompts."""

    __slots__ = ("_requests", "blocks")

    def __init__(self) -> None:
        self.blocks = 0
        self._requests: list[Request] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: Request) -> bool:
        return request in self._requests

    @property
    def left(self) -> int:
        """The tokens of all of them that are to be computed."""
        return sum(request.known_tokens - request.computed for request in self._requests)

    def newest(self) -> Request:
        """Return the request that was admitted last.

        Raises:
            IndexError: there is none.
        """
        return self._requests[-1]

    def requests(self) -> tuple[Request, ...]:
        """Return all of them, in the order of their admission."""
        return tuple(self._requests)

    def admit(self, request: Request) -> None:
        """Give a request the blocks of its prompt."""
        self._requests.append(request)
        self.blocks += blocks_of(request.known_tokens)

    def release(self, request: Request) -> None:
        """Take back the blocks of a request.

        Raises:
            ValueError: it is not here.
        """
        self._requests.remove(request)
        self.blocks -= blocks_of(request.known_tokens)

    def chunks(self, room: int) -> Chunks:
        """Return what a step with ``room`` tokens for prompts computes of them, the oldest first."""
        found: list[tuple[Request, int]] = []
        for request in self._requests:
            tokens = min(room, request.known_tokens - request.computed)
            if tokens > 0:
                found.append((request, tokens))
                room -= tokens
        return tuple(found)
