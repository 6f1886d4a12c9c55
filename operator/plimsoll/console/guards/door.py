"""May this browser see the console of one person?

``plimsoll console`` prints a URL with a secret token. Who opens it gets a session cookie, and is sent on to the address
without the token. The printed URL works as often as the person opens it, in a second tab or another browser, until the
process ends: people expect that of such tools, and it gives nobody more than the first opening gave. The cookie does
not contain the token. It ends with the browser's session or with this process.
"""

from __future__ import annotations

import hmac
import secrets

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.guards.headers import STATIC

TOKEN_BYTES = 32
TOKEN_FIELD = "token"  # noqa: S105 - the name of a query field
DOORS = frozenset({"/", "/enter"})
"""Paths that take a token. Both lead to ``/``, so that nobody can make the console send a browser elsewhere."""


def new_token() -> str:
    """Return a secret that nobody can guess, fit for a URL."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def cookie_name(port: int) -> str:
    """Return the name of the session cookie. Browsers share cookies between the ports of a host, so it has the port."""
    return f"plimsoll-session-{port}"


def only_with_session(token: str, port: int) -> Middleware:
    """Return the middleware that asks for the session cookie, and gives it to who has the token.

    Args:
        token: the secret of the printed URL.
        port: the port that the console listens on.
    """
    session, name = new_token(), cookie_name(port)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in DOORS and TOKEN_FIELD in request.query:
            return enter(request, token, session, name)
        if not request.path.startswith(STATIC) and not is_same(request.cookies.get(name, ""), session):
            raise stranger()
        return await handler(request)

    return guard


def enter(request: web.Request, token: str, session: str, name: str) -> web.StreamResponse:
    """Exchange the token for the cookie.

    Raises:
        ConsoleRefusal: 401, the token is another one.
    """
    if not is_same(request.query[TOKEN_FIELD], token):
        raise stranger()
    answer = web.Response(status=303, headers={"Location": "/", "Referrer-Policy": "no-referrer"})
    answer.set_cookie(name, session, path="/", httponly=True, samesite="Strict")
    return answer


def is_same(given: str, known: str) -> bool:
    """Whether two secrets are equal. The time that it takes says nothing about where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())


def stranger() -> ConsoleRefusal:
    """Return the refusal for a browser without a session."""
    return ConsoleRefusal(
        401,
        "NoSession",
        "This browser has no session with this console, or the console was started again.",
        "Open the address that `plimsoll console` printed, or run `plimsoll console` again. "
        "If a link of another site led here, load the page again.",
    )
