"""Who asks, if a proxy signs people in?

The console in a cluster has no rights of its own. It uses the person's bearer token for every request to the API
server, so the API server decides what the person sees, and its audit log names the person.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.guards.headers import STATIC
from plimsoll.console.guards.hosts import HEALTH, Networks, is_listed, peer_of

AUTHORIZATION = "Authorization"
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)
"""A bearer token (RFC 6750, section 2.1)."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a token of the API server.

    Attributes:
        token: the token. It is in no text of this value.
        key: SHA-256 of the token, for caches. It names one sign-in; two sign-ins of a person have two keys.
    """

    token: str = field(repr=False)
    key: str

    @classmethod
    def of_token(cls, token: str) -> Self:
        """Return the person of a token."""
        return cls(token, sha256(token.encode()).hexdigest())


PERSON = web.RequestKey("plimsoll_person", Person)
"""Key of the person in a request."""


def only_people(header: str, proxies: Networks) -> Middleware:
    """Return the middleware that asks for a token and puts its :class:`Person` into the request.

    Args:
        header: the header with the token.
        proxies: addresses of the listed proxies.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in HEALTH and not request.path.startswith(STATIC):
            request[PERSON] = person_of(request, header, proxies)
        return await handler(request)

    return guard


def person_of(request: web.Request, header: str, proxies: Networks) -> Person:
    """Return who asks.

    Raises:
        ConsoleRefusal: 401, there is no usable token, or it comes from somebody who may not speak for others.
    """
    sent = request.headers.getall(header, [])
    if len(sent) != 1:
        raise _unknown(f"The request has {len(sent)} headers {header}, and the console needs exactly one")
    if header.lower() == AUTHORIZATION.lower():
        return Person.of_token(_bearer(sent[0]))
    if not is_listed(peer_of(request), proxies):
        raise _unknown(f"The header {header} does not come from a listed proxy")
    return Person.of_token(_usable(sent[0]))


def _bearer(value: str) -> str:
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer":
        raise _unknown("The header Authorization holds no bearer token")
    return _usable(token.strip())


def _usable(token: str) -> str:
    """Return the token. The API server judges it; here only its form is checked, because it becomes a header."""
    if _TOKEN.fullmatch(token) is None:
        raise _unknown("The token has characters that no token has")
    return token


def _unknown(reason: str) -> ConsoleRefusal:
    return ConsoleRefusal(
        401,
        "NotSignedIn",
        f"The console does not know who asks. {reason}.",
        "Sign in again. If that does not help, the proxy in front of the console must pass the person's token.",
        {"WWW-Authenticate": "Bearer"},
    )
