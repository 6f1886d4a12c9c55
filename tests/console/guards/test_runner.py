"""The server of an application: long addresses are read, endless ones are not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from plimsoll.console.guards import LONGEST_ADDRESS, runner


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """A server that says how long a parameter is."""
    app = web.Application()

    async def length(request: web.Request) -> web.Response:
        return web.Response(text=str(len(request.query["config"])))

    app.router.add_get("/", length)
    serving = runner(app)
    await serving.setup()
    try:
        site = web.TCPSite(serving, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{serving.addresses[0][1]}/"
    finally:
        await serving.cleanup()


@pytest.mark.parametrize(("size", "status"), [(20_000, 200), (LONGEST_ADDRESS + 1_000, 400)])
async def test_an_address_may_hold_a_configuration_and_no_more(size: int, status: int) -> None:
    async with served() as url, aiohttp.ClientSession() as session, session.get(f"{url}?config={'x' * size}") as answer:
        assert answer.status == status
        assert (await answer.text() == str(size)) is (status == 200)
