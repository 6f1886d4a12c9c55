"""The sessions of people: each holds one person's view of the cluster for a limited time.

Strangers choose tokens, so a map by token must have bounds: people who ask for nothing are forgotten after a while, and
the map never holds more than a fixed number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.guards.person import Person

T = TypeVar("T")

IDLE_SECONDS = 600.0
RETRY_SECONDS = 30


@dataclass(slots=True)
class _Held(Generic[T]):
    """One person's session: ``users`` requests use it now, the last one ended at ``used_at``."""

    used_at: float
    users: int = 0
    value: list[T] = field(default_factory=list)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)


class PersonSessions(Generic[T]):
    """A session for each person, e.g. a connection to the API server.

    Args:
        open_for: opens a session. It should ask the API server who the person is: a session that cannot be opened is
            not held, so tokens that somebody makes up displace nobody for long.
        most: sessions that are held at the same time.
        idle_seconds: a session that nobody has used for so long is closed at the next chance.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        open_for: Callable[[Person], AbstractAsyncContextManager[T]],
        *,
        most: int,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_for = open_for
        self._most = most
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._held: dict[str, _Held[T]] = {}

    def __len__(self) -> int:
        return len(self._held)

    @asynccontextmanager
    async def session_of(self, person: Person) -> AsyncIterator[T]:
        """Hold the person's session while it is used.

        Raises:
            ConsoleRefusal: 503, every session is in use.
            Exception: whatever ``open_for`` raises.
        """
        await self.sweep()
        held = self._held.get(person.key) or await self._admit(person)
        held.users += 1
        try:
            yield await self._opened(held, person)
        finally:
            held.users -= 1
            held.used_at = self._clock()
            if not held.value and not held.users:
                self._held.pop(person.key, None)

    async def sweep(self) -> None:
        """Close the sessions that nobody has used for a while."""
        limit = self._clock() - self._idle_seconds
        for key in [key for key, held in self._held.items() if not held.users and held.used_at <= limit]:
            await self._close(key)

    async def close(self) -> None:
        """Close every session."""
        for key in list(self._held):
            await self._close(key)

    async def _admit(self, person: Person) -> _Held[T]:
        """Return a new session, not yet open. If all places are taken, the one that was idle longest goes."""
        leaving = None
        if len(self._held) >= self._most:
            idle = [(held.used_at, key) for key, held in self._held.items() if not held.users]
            if not idle:
                raise ConsoleRefusal(
                    503,
                    "TooManyPeople",
                    "Too many people use the console at the same time.",
                    "Load the page again in a moment.",
                    {"Retry-After": str(RETRY_SECONDS)},
                )
            leaving = self._held.pop(min(idle)[1])
        # The place is taken before anything is awaited, so that requests at the same time cannot exceed the bound.
        held = self._held[person.key] = _Held(self._clock())
        if leaving is not None:
            held.users += 1
            try:
                await leaving.closing.aclose()
            finally:
                held.users -= 1
        return held

    async def _opened(self, held: _Held[T], person: Person) -> T:
        """Return the session; the first request opens it, and requests at the same time wait for that."""
        async with held.opening:
            if not held.value:
                held.value.append(await held.closing.enter_async_context(self._open_for(person)))
        return held.value[0]

    async def _close(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            await held.closing.aclose()
