"""One event stream a tab: it says that something has changed, and the tab fetches its page again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.sessions import Session, Sessions
from plimsoll.console.views.world import GapKind

COMMENT_SECONDS = 15.0
"""A comment at least so often: a proxy would close a silent connection."""

LEAST_PAUSE_SECONDS = 1.0
"""The least time between two changes that one tab hears of."""


MOST = 64
MOST_OF_ONE = 4
"""Over HTTP/1.1 a browser opens six connections to a host. Two stay free for pages, however many tabs are visible."""

RETRY_SECONDS = 30


class OpenStreams:
    """The tasks of all open streams of one process, by person. They end with the process.

    Each holds a connection and a task for as long as a tab is open. Beyond the bounds the answer is 503 with
    ``Retry-After``, and the page polls instead.

    Args:
        most: open streams in total.
        most_of_one: open streams of one person.
    """

    def __init__(self, most: int = MOST, most_of_one: int = MOST_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._open: dict[str, list[asyncio.Task[Any]]] = {}

    @property
    def open(self) -> int:
        """The number of streams that are open now."""
        return sum(map(len, self._open.values()))

    @contextlib.contextmanager
    def place(self, person: str) -> Iterator[None]:
        """Hold a place for the current task as long as its stream is open. It does not wait for a place.

        Args:
            person: any key that differs between people. It is forgotten with the person's last stream.

        Raises:
            ConsoleRefusal: 503, all places are taken.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a stream is a task")
        if self.open >= self._most or len(self._open.get(person, ())) >= self._most_of_one:
            raise ConsoleRefusal(
                503,
                "TooManyStreams",
                "Too many pages receive live figures at the same time.",
                "The page asks again by itself. Close tabs that nobody reads.",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        self._open.setdefault(person, []).append(task)
        try:
            yield
        finally:
            self._open[person].remove(task)
            if not self._open[person]:
                del self._open[person]

    async def end(self) -> None:
        """End all streams."""
        tasks = [task for each in self._open.values() for task in each]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


OPEN = web.AppKey("open_streams", OpenStreams)

_HEADERS = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}


async def stream(request: web.Request, sessions: Sessions) -> web.StreamResponse:
    """Send ``changed`` with the revision until the tab is closed, or until the person may see nothing any more.

    Raises:
        ConsoleRefusal: too many streams are open.
    """
    session = await sessions.of(request)
    with request.app[OPEN].place(session.person):
        return await _answer(request, session)


async def _answer(request: web.Request, session: Session) -> web.StreamResponse:
    answer = web.StreamResponse(headers=_HEADERS)
    with contextlib.suppress(ConnectionError, asyncio.CancelledError):  # the tab was closed, or the process ends
        await answer.prepare(request)
        await _follow(answer, session)
    return answer


async def _follow(answer: web.StreamResponse, session: Session) -> None:
    with session.reader.listen() as listener:
        await answer.write(b": plimsoll\n\n")
        while may_see(session):
            began = time.monotonic()
            if not await listener.wait(COMMENT_SECONDS):
                await answer.write(b": still here\n\n")
                continue
            await answer.write(f"event: changed\ndata: {session.reader.revision}\n\n".encode())
            await asyncio.sleep(max(0.0, LEAST_PAUSE_SECONDS - (time.monotonic() - began)))


def may_see(session: Session) -> bool:
    """Whether the person may list InferenceDeployments anywhere."""
    caches = session.reader.caches_of(INFERENCE_DEPLOYMENTS)
    return any(cache.gap is None or cache.gap.reason is not GapKind.FORBIDDEN for cache in caches)
