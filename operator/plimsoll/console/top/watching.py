"""Keeps the picture of the terminal fresh."""

from __future__ import annotations

import asyncio
import contextlib
import time

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from plimsoll.adapters.cluster.client import Cluster
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.live import LiveSource, live_source
from plimsoll.console.sources.reader import Reader
from plimsoll.console.top.frame import picture
from plimsoll.console.views.load.live_use import LiveUse, uses_of
from plimsoll.console.views.load.pressure import asked_of, pods_of
from plimsoll.console.views.world import World
from plimsoll.domain.kubernetes_names import ObjectKey

OVERHEAD_LINES = 12
"""Lines of the terminal that are not deployments: the headline, the GPU types, titles and the legend."""

HOW_TO_END = Text("Ctrl-C ends", style="bright_black")
"""The last line of a picture that is kept fresh. A single picture ends by itself."""

FIRST_SECONDS = 60.0
"""How long a single picture waits until the cluster is read."""


def watch(screen: Console, settings: ConsoleSettings, fallback: str, *, seconds: float, is_once: bool) -> None:
    """Show the fleet until Ctrl-C, or once."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watch(screen, settings, fallback, seconds, is_once=is_once))


async def _watch(screen: Console, settings: ConsoleSettings, fallback: str, seconds: float, *, is_once: bool) -> None:
    live = live_source(settings.prometheus_url or "")
    fallbacks = (fallback,) if fallback else ()
    async with (
        Cluster(settings.kubeconfig, settings.context) as cluster,
        Reader(cluster, settings.namespaces, fallbacks, settings.operator) as reader,
    ):
        try:
            await _show(screen, reader, live, seconds, is_once=is_once)
        finally:
            live.close()


async def _show(screen: Console, reader: Reader, live: LiveSource, seconds: float, *, is_once: bool) -> None:
    if is_once:
        await _read(reader)
        world = reader.world
        screen.print(picture(world, await _uses(world, live), time.time(), len(world.rows)))
        return
    with Live(console=screen, screen=True, auto_refresh=False) as terminal, reader.listen() as listener:
        while True:
            world = reader.world
            rows = max(1, screen.height - OVERHEAD_LINES)
            shown = picture(world, await _uses(world, live), time.time(), rows)
            terminal.update(Group(shown, HOW_TO_END), refresh=True)
            await listener.wait(seconds)
            await asyncio.sleep(min(1.0, seconds))


async def _read(reader: Reader) -> None:
    """Wait until every kind was read once, or refused."""
    with contextlib.suppress(TimeoutError), reader.listen() as listener:
        async with asyncio.timeout(FIRST_SECONDS):
            while reader.world.is_loading:
                await listener.wait(FIRST_SECONDS)


async def _uses(world: World, live: LiveSource) -> dict[ObjectKey, LiveUse]:
    asked = asked_of(world.rows.values(), world.pods)
    return uses_of(asked, await live.last(pods_of(asked, asked)), time.time())
