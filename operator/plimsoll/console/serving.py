"""Runs the local console until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket

import click
from aiohttp import web

from plimsoll.console.guards import Local, runner
from plimsoll.console.guards.door import TOKEN_FIELD, new_token
from plimsoll.console.sessions import OneSession
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.web import make_app
from plimsoll.domain.errors import InvalidInput


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
            click.echo(f"Plimsoll's console: http://{settings.host}:{port}/?{TOKEN_FIELD}={token}")
            await until_stopped()
        finally:
            await served.cleanup()


def _socket(settings: ConsoleSettings) -> socket.socket:
    """Return a listening socket: the guards need the port before the first request comes."""
    try:
        return socket.create_server((settings.host, settings.port))
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
