"""One event stream a tab: it says that something has changed, and the tab fetches its page again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.guards.streams import Budget
from plimsoll.console.sessions import Session, Sessions
from plimsoll.console.views.world import GapKind

COMMENT_SECONDS = 15.0
"""A comment at least so often: a proxy would close a silent connection."""

LEAST_PAUSE_SECONDS = 1.0
"""The least time between two changes that one tab hears of."""


class OpenStreams:
    """The tasks of all open streams. They end with the process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count the current task as a stream."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a stream is a task")
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    async def end(self) -> None:
        """End all streams."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


OPEN = web.AppKey("open_streams", OpenStreams)

_HEADERS = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}


async def stream(request: web.Request, sessions: Sessions, budget: Budget) -> web.StreamResponse:
    """Send ``changed`` with the revision until the tab is closed, or until the person may see nothing any more.

    Raises:
        Refusal: too many streams are open.
    """
    session = await sessions.of(request)
    with budget.place(session.person), request.app[OPEN].one():
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
