"""Runs the console until it is stopped: on this machine, or in a cluster behind a proxy that signs people in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

import click
from aiohttp import web

from plimsoll.adapters.cluster.bearer_access import server_of_pod
from plimsoll.console.guards import InCluster, Local, runner
from plimsoll.console.guards.door import TOKEN_FIELD, new_token
from plimsoll.console.guards.person import AUTHORIZATION
from plimsoll.console.sessions import OneSession, PeopleSessions
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.web import make_app
from plimsoll.domain.errors import InvalidInput

HOST = "127.0.0.1"
"""The address that a local console listens on."""

RENEWAL_SECONDS = 60.0
"""How often the certificate is read again: a Secret that is mounted changes in place."""

logger = logging.getLogger("plimsoll.console")


def serve(settings: ConsoleSettings, fallback: str) -> None:
    """Serve pages on loopback, and print the address to open. Ctrl-C ends it."""
    logging.basicConfig(level=logging.WARNING)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(settings, fallback))


async def _serve(settings: ConsoleSettings, fallback: str) -> None:
    with _socket(settings) as listening:
        port = listening.getsockname()[1]
        token = new_token()
        served = runner(make_app(OneSession(settings, fallback), settings, Local(port, token)))
        await served.setup()
        try:
            await web.SockSite(served, listening).start()
            click.echo(f"Plimsoll's console: http://{HOST}:{port}/?{TOKEN_FIELD}={token}")
            await until_stopped()
        finally:
            await served.cleanup()


def _socket(settings: ConsoleSettings) -> socket.socket:
    """Return a listening socket: the guards need the port before the first request comes."""
    try:
        return socket.create_server((HOST, settings.port))
    except OSError as error:
        raise InvalidInput(
            "--port", settings.port, f"Choose another port, or 0 for any free one ({error.strerror})."
        ) from error


async def until_stopped() -> None:
    """Wait for Ctrl-C or a request to end."""
    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    await ended.wait()


@dataclass(frozen=True, slots=True)
class Front:
    """How people reach the console.

    Attributes:
        guards: who is let in.
        certificate: file of the certificate in PEM; None to serve without TLS.
        key: file of its private key; None without a certificate.
        ca_file: file of certificates to verify the API server with; None for the system's.
    """

    guards: InCluster
    certificate: str | None
    key: str | None
    ca_file: str | None


def front_of(given: Mapping[str, Any]) -> Front:
    """Return what somebody wrote on the command line.

    Raises:
        InvalidInput: an address of a proxy is no network.
    """
    return Front(
        guards=InCluster(
            frozenset(given["public_hosts"]),
            tuple(_network(text) for text in given["proxies"]),
            given["token_header"] or AUTHORIZATION,
        ),
        certificate=given["tls_cert"],
        key=given["tls_key"],
        ca_file=given["ca_file"],
    )


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise InvalidInput("--proxy", text, "Write a network as a CIDR, e.g. 10.244.0.0/16.") from error


def serve_in_cluster(settings: ConsoleSettings, front: Front) -> None:
    """Serve until the process gets a signal to end."""
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_serve_in_cluster(settings, front))


async def _serve_in_cluster(settings: ConsoleSettings, front: Front) -> None:
    sessions = PeopleSessions(server_of_pod(os.environ), front.ca_file, settings.namespaces, settings.operator)
    async with served(sessions, settings, front):
        await until_stopped()


@contextlib.asynccontextmanager
async def served(sessions: PeopleSessions, settings: ConsoleSettings, front: Front) -> AsyncIterator[web.AppRunner]:
    """Serve on all addresses as long as the context lasts."""
    app = make_app(sessions, settings, front.guards)
    app.middlewares.append(sessions.with_session)
    serving = runner(app)
    tls = _tls(front)
    renewing = asyncio.create_task(_renew(tls, front))
    await serving.setup()
    try:
        await web.TCPSite(serving, None, settings.port, ssl_context=tls).start()
        yield serving
    finally:
        renewing.cancel()
        await serving.cleanup()


def _tls(front: Front) -> ssl.SSLContext | None:
    if front.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(front.certificate, front.key)
    return context


async def _renew(context: ssl.SSLContext | None, front: Front) -> None:
    """Read the certificate again and again; connections that begin later get the new one."""
    while context is not None and front.certificate is not None:
        await asyncio.sleep(RENEWAL_SECONDS)
        try:
            context.load_cert_chain(front.certificate, front.key)
        except OSError:
            logger.exception("%s cannot be read: the certificate of before stays in use", front.certificate)
