"""The headers that say how a browser may use an answer of the console.

The policy forbids everything that the console does not need: inline scripts and styles, other origins, frames. Every
answer carries it, errors and event streams included.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)

ALWAYS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

REFERRER_POLICY = "same-origin"
"""No other site sees an address of the console. With ``no-referrer`` browsers would send ``Origin: null`` with the
console's own forms (Fetch standard, "append a request `Origin` header"), and ``posts`` could not know them."""

STATIC = "/static/"
"""The path below which the static files are. They are the same for everybody, and the page of a refusal needs them."""

FOUND = frozenset({200, 206, 304})
"""Answers that hold a file. Only those of static files may be kept, if their handler says for how long."""


def dress(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers of an answer that is not sent yet. A referrer policy that the answer has stays.

    Browsers keep nothing but static files.
    """
    response.headers.update(ALWAYS)
    response.headers.setdefault("Referrer-Policy", REFERRER_POLICY)
    if not (request.path.startswith(STATIC) and response.status in FOUND and "Cache-Control" in response.headers):
        response.headers["Cache-Control"] = "no-store"


@web.middleware
async def dressing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set the headers of all answers but event streams. It belongs before all other middlewares.

    A stream sends its headers before its handler returns: it needs the signal of :func:`on_prepare`.
    """
    try:
        response = await handler(request)
    except web.HTTPException as answer:
        dress(request, answer)
        raise
    if not response.prepared:
        dress(request, response)
    return response


async def on_prepare(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers of every answer, streams included. It is a handler for ``app.on_response_prepare``."""
    dress(request, response)
