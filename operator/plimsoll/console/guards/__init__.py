"""Who may see the console, and what a browser may do with it. Each guard refuses one kind of request.

:func:`local` and :func:`in_cluster` return the guards in their order. The headers come first, because every answer
needs them; the errors come next, because they answer what the others raise.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Middleware

from plimsoll.console.guards.door import only_with_session
from plimsoll.console.guards.errors import Draw, answering_errors, plain_page
from plimsoll.console.guards.headers import dressing, on_prepare
from plimsoll.console.guards.hosts import loopback_hosts, only_for
from plimsoll.console.guards.person import PERSON, only_people
from plimsoll.console.guards.posts import only_own_forms
from plimsoll.console.guards.settings import InCluster, Local

__all__ = ["InCluster", "Local", "guard", "in_cluster", "local", "runner"]


LONGEST_ADDRESS = 128 * 1024
"""Bytes of a URL: the calculator's question is its address, and a pasted configuration is a part of it."""


def local(settings: Local, draw: Draw = plain_page) -> tuple[Middleware, ...]:
    """Return the guards of a console for one person, on a loopback address."""
    return (
        dressing(settings.static),
        answering_errors(draw, lambda _: [settings.token]),
        only_for(loopback_hosts(settings.port)),
        only_with_session(settings.token, settings.port, settings.command, settings.static),
        only_own_forms("http", settings.largest_body),
    )


def in_cluster(settings: InCluster, draw: Draw = plain_page) -> tuple[Middleware, ...]:
    """Return the guards of a console for many people, behind a proxy that signs them in."""
    return (
        dressing(settings.static),
        answering_errors(draw, _token_of_person),
        only_for(settings.hosts, proxies=settings.proxies, free=settings.health),
        only_people(settings.token_header, settings.proxies, settings.health, settings.static),
        only_own_forms(settings.scheme, settings.largest_body),
    )


def guard(app: web.Application, settings: Local | InCluster, draw: Draw = plain_page) -> None:
    """Put the guards before all other middlewares of an application, and the headers on its event streams, too."""
    guards = local(settings, draw) if isinstance(settings, Local) else in_cluster(settings, draw)
    app.middlewares[:0] = guards
    app.on_response_prepare.append(on_prepare(settings.static))


def runner(app: web.Application) -> web.AppRunner:
    """Return the server of an application, without an access log: the first address of a session has the token."""
    return web.AppRunner(app, access_log=None, handler_cancellation=True, max_line_size=LONGEST_ADDRESS)


def _token_of_person(request: web.Request) -> Iterable[str]:
    return [request[PERSON].token] if PERSON in request else []
