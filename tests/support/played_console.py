"""The console's own application on loopback, without a cluster: person, cluster, live use and commands are played."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from aiohttp import web

from plimsoll.adapters.cluster.client import Cluster
from plimsoll.console.guards import Local, runner
from plimsoll.console.sessions import Session
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.commands import Commands
from plimsoll.console.sources.reader import Listener, Reader
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import Tools
from plimsoll.console.web import make_app
from tests.support.long_names import ByName, PlayedCommands, PlayedLive, world

_TOKEN = "token-of-a-test"  # noqa: S105 - it opens nothing


@dataclass
class GivenReader:
    """A reader whose view never changes; the API server has just answered."""

    given: ClusterView
    revision: int = 1

    @property
    def world(self) -> ClusterView:
        return replace(self.given, heard=time.time())

    def listen(self) -> Listener:
        return Listener(set())

    def caches_of(self, _: object) -> list[Any]:
        return []


@dataclass
class GivenSession:
    """Everybody is the same person."""

    person: str
    cluster: object
    reader: GivenReader

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing was opened."""

    async def of(self, _: web.Request) -> Session:
        return Session(self.person, cast("Cluster", self.cluster), cast("Reader", self.reader))


@dataclass(frozen=True, slots=True)
class PlayedConsole:
    """``entry`` is the address to open first."""

    origin: str
    entry: str


@contextmanager
def played_console(commands: Commands | None = None) -> Iterator[PlayedConsole]:
    """Serve the cluster of :mod:`tests.support.long_names` from a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def do(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        serving, console = do(serving_at(commands or PlayedCommands()))
        yield console
        do(serving.cleanup())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def serving_at(commands: Commands) -> tuple[web.AppRunner, PlayedConsole]:
    """Serve it from this event loop, with these commands behind What if and the simulator."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    settings = ConsoleSettings(allow_approvals=True, grafana_url="https://grafana.example.org")
    person = "system:serviceaccount:platform-engineering:console-reader-of-everything"
    session = GivenSession(person, ByName(), GivenReader(world()))
    app = make_app(session, settings, Local(port, _TOKEN), Tools(settings, commands, PlayedLive()))
    served = runner(app)
    await served.setup()
    await web.SockSite(served, listening).start()
    origin = f"http://127.0.0.1:{port}"
    return served, PlayedConsole(origin, f"{origin}/?token={_TOKEN}")
