"""An answer that takes long is sent in parts: the form and a line that it is being made, and then the answer.

Without it a browser shows nothing at all, or the page before, for as long as the answer takes. No script is needed: the
browser draws what it has of a page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from aiohttp import web
from markupsafe import escape

MARK = "<!-- answer -->"
"""Stands in a template where the answer begins. What comes before it is the same with and without an answer."""

PATIENCE_SECONDS = 1.0
"""How long an answer may take before the first part is sent."""


async def in_parts(
    request: web.Request,
    work: Coroutine[None, None, str],
    meanwhile: Callable[[], str],
    progress: str,
    refused: Callable[[Exception], str],
) -> web.StreamResponse:
    """Send a page in two parts if it takes long. A request that is cancelled cancels the work.

    Args:
        request: who asked.
        work: makes the whole page.
        meanwhile: the page without its answer.
        progress: what is being done, as a sentence.
        refused: why there is no answer, as HTML.

    Raises:
        Exception: what ``work`` raises before anything was sent.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
        if task.done():
            return web.Response(text=task.result(), content_type="text/html")
        answer = web.StreamResponse(headers={"Content-Type": "text/html; charset=utf-8"})
        await answer.prepare(request)
        form, _, rest = meanwhile().partition(MARK)
        line = f'<p class="progress" role="status">{escape(progress)}</p>\n'
        await answer.write(f"{form}{line}".encode())
        try:
            rest = (await task).partition(MARK)[2]
        except Exception as error:  # noqa: BLE001 - the page has begun: what is wrong becomes a part of it
            rest = f"{refused(error)}{rest}"
        await answer.write(rest.encode())
        return answer
    finally:
        task.cancel()
