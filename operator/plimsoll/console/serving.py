"""Runs the local console until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

import click
from aiohttp import web

from plimsoll.console.seats import OneSeat
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.web import make_app
from plimsoll.domain.errors import InvalidInput


def serve(settings: ConsoleSettings, fallback: str) -> None:
    """Serve pages on loopback, and print the address to open. Ctrl-C ends it."""
    logging.basicConfig(level=logging.WARNING)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(settings, fallback))


async def _serve(settings: ConsoleSettings, fallback: str) -> None:
    runner = web.AppRunner(make_app(OneSeat(settings, fallback), settings), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port)
        await _start(site, settings)
        port = runner.addresses[0][1]
        click.echo(f"Plimsoll's console: http://{settings.host}:{port}/")
        await ended()
    finally:
        await runner.cleanup()


async def _start(site: web.TCPSite, settings: ConsoleSettings) -> None:
    try:
        await site.start()
    except OSError as error:
        raise InvalidInput(
            "--port", settings.port, f"Choose another port, or 0 for any free one ({error.strerror})."
        ) from error


async def ended() -> None:
    """Wait for Ctrl-C or a request to end."""
    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    await ended.wait()
