"""Did a page of this console send the form?

A browser sends cookies with forms of other sites in some cases, so a cookie alone proves nothing. Browsers say where a
request comes from in ``Sec-Fetch-Site``. On plain HTTP beyond loopback they leave it out; then ``Origin`` decides.
GET changes nothing anywhere in the console, so GET needs no such proof.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from plimsoll.console.guards.errors import ConsoleRefusal

READING = frozenset({"GET", "HEAD"})
LARGEST_FORM = 1024 * 1024
"""Most bytes of a form: a manifest or a config.json fits many times."""

FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


def only_own_forms(scheme: str) -> Middleware:
    """Return the middleware that lets through what reads, and forms of the console's own pages.

    ``scheme`` is that of the console's address, as the browser sees it.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST":
            check_origin(request, scheme)
            check_body(request)
        elif request.method not in READING:
            raise web.HTTPMethodNotAllowed(request.method, [*READING, "POST"])
        return await handler(request)

    return guard


def check_origin(request: web.Request, scheme: str) -> None:
    """Check that a page of this console sent the request.

    Raises:
        ConsoleRefusal: 403.
    """
    if not is_own(
        request.headers.getall("Sec-Fetch-Site", []), request.headers.getall("Origin", []), scheme, request.host
    ):
        raise ConsoleRefusal(
            403,
            "ForeignForm",
            "The browser does not say that a page of this console sent the form.",
            "Open the page in the console itself and send the form there.",
        )


def is_own(sites: list[str], origins: list[str], scheme: str, host: str) -> bool:
    """Whether these headers say that a page of ``scheme://host`` sent the request.

    An ``Origin`` of another site is refused even if ``Sec-Fetch-Site`` is in order: no browser sends such a pair.

    Args:
        sites: every ``Sec-Fetch-Site``.
        origins: every ``Origin``.
        scheme: the scheme of this console's address.
        host: this request's ``Host``, which is known to be one of the console's.
    """
    own = f"{scheme}://{host}".lower()
    if any(origin.lower() != own for origin in origins):
        return False
    return sites == ["same-origin"] if sites else len(origins) == 1


def check_body(request: web.Request) -> None:
    """Check the type and the announced size of the body. The server reads no more than the announced bytes.

    Raises:
        ConsoleRefusal: 415, 411 or 413.
    """
    if request.content_type not in FORMS:
        raise ConsoleRefusal(
            415, "NoForm", "The body of the request is no form.", "Send the form of a page of the console."
        )
    if request.content_length is None:
        raise ConsoleRefusal(411, "NoLength", "The request does not say how long it is.", "Send a Content-Length.")
    if request.content_length > LARGEST_FORM:
        raise ConsoleRefusal(
            413,
            "TooLarge",
            f"The form has {request.content_length:,} bytes; {LARGEST_FORM:,} are the most.",
            "Send less, or use the command line, which has no such limit.",
        )
