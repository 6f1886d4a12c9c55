"""Who may see the console, and what a browser may do with it. Each guard refuses one kind of request.

The headers come first, because every answer needs them; the errors come next, because they answer what the others
raise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web

from plimsoll.console.guards.door import only_with_session
from plimsoll.console.guards.errors import Draw, answering_errors, plain_page
from plimsoll.console.guards.headers import dressing, on_prepare
from plimsoll.console.guards.hosts import HEALTH, Networks, loopback_hosts, only_for
from plimsoll.console.guards.person import AUTHORIZATION, PERSON, only_people
from plimsoll.console.guards.posts import only_own_forms

LONGEST_ADDRESS = 128 * 1024
"""Bytes of a URL: the calculator's question is its address, and a pasted configuration is a part of it."""


@dataclass(frozen=True, slots=True)
class Local:
    """The console of one person, on a loopback address.

    Attributes:
        port: the port that the console listens on.
        token: the secret in the first URL; ``door.new_token()`` makes one.
    """

    port: int
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class InCluster:
    """The console of many people, behind a proxy that signs them in.

    Attributes:
        hosts: the public names, as browsers write them in ``Host``: with the port, unless it is the scheme's own.
        proxies: addresses of the proxies whose headers are believed.
        token_header: the header with the person's token. Any name but ``Authorization`` is believed from a listed
            proxy only.
    """

    hosts: frozenset[str]
    proxies: Networks = ()
    token_header: str = AUTHORIZATION


def guard(app: web.Application, settings: Local | InCluster, draw: Draw = plain_page) -> None:
    """Put the guards before all other middlewares of an application, and the headers on its event streams, too."""
    if isinstance(settings, Local):
        guards = (
            answering_errors(draw, lambda _: [settings.token]),
            only_for(loopback_hosts(settings.port)),
            only_with_session(settings.token, settings.port),
            only_own_forms("http"),
        )
    else:
        guards = (
            answering_errors(draw, lambda request: [request[PERSON].token] if PERSON in request else []),
            only_for(settings.hosts, proxies=settings.proxies, free=HEALTH),
            only_people(settings.token_header, settings.proxies),
            only_own_forms("https"),
        )
    app.middlewares[:0] = (dressing, *guards)
    app.on_response_prepare.append(on_prepare)


def runner(app: web.Application) -> web.AppRunner:
    """Return the server of an application, without an access log: the first address of a session has the token."""
    return web.AppRunner(app, access_log=None, handler_cancellation=True, max_line_size=LONGEST_ADDRESS)
