"""One event stream a tab: it says that something has changed, and the tab fetches its page again."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from plimsoll.adapters.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.guards.streams import Budget
from plimsoll.console.seats import Seat, Seats
from plimsoll.console.views.gaps import GapKind

COMMENT_SECONDS = 15.0
"""A comment at least so often: a proxy would close a silent connection."""

LEAST_PAUSE_SECONDS = 1.0
"""The least time between two changes that one tab hears of."""

OPEN = web.AppKey("open_streams", set)
PLACES = web.AppKey("places_for_streams", Budget)


async def stream(request: web.Request, seats: Seats) -> web.StreamResponse:
    """Send ``changed`` with the revision until the tab is closed, or until the person may see nothing any more."""
    seat = await seats.of(request)
    with request.app[PLACES].place(seat.person):
        return await _streamed(request, seat)


async def _streamed(request: web.Request, seat: Seat) -> web.StreamResponse:
    streams = request.app[OPEN]
    answer = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a handler always runs in a task
    streams.add(task)
    try:
        await answer.prepare(request)
        await _follow(answer, seat)
    except (ConnectionError, asyncio.CancelledError):
        pass  # the tab was closed, or the process ends
    finally:
        streams.discard(task)
    return answer


async def _follow(answer: web.StreamResponse, seat: Seat) -> None:
    with seat.reader.listen() as listener:
        await answer.write(b": plimsoll\n\n")
        while may_see(seat):
            began = time.monotonic()
            if not await listener.wait(COMMENT_SECONDS):
                await answer.write(b": still here\n\n")
                continue
            await answer.write(f"event: changed\ndata: {seat.reader.revision}\n\n".encode())
            await asyncio.sleep(max(0.0, LEAST_PAUSE_SECONDS - (time.monotonic() - began)))


def may_see(seat: Seat) -> bool:
    """Whether the person may list InferenceDeployments anywhere."""
    return any(
        shelf.gap is None or shelf.gap.reason is not GapKind.FORBIDDEN
        for shelf in seat.reader.shelves_of(INFERENCE_DEPLOYMENTS)
    )
