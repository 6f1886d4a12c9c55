"""A small application behind the guards, on a real loopback socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network

from aiohttp import ClientSession, web
from aiohttp.test_utils import get_unused_port_socket

from plimsoll.console.guards import InCluster, Local, guard, runner
from plimsoll.console.guards.person import PERSON

TOKEN = "the-secret-of-this-test"  # noqa: S105 - no secret
KEPT = "public, max-age=31536000, immutable"
PUBLIC = "console.example.org"
LOOPBACK = (ip_network("127.0.0.0/8"),)
ELSEWHERE = (ip_network("192.0.2.0/24"),)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True)
class Served:
    port: int
    changes: list[str]

    async def ask(
        self, path: str = "/", method: str = "GET", body: str | None = None, cookie: str = "", **headers: str
    ) -> Answer:
        """Send a request; ``Sec_Fetch_Site="..."`` is a header. Redirects are not followed."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if cookie:
            given["Cookie"] = cookie
        if body is not None:
            given.setdefault("Content-Type", "application/x-www-form-urlencoded")
        url = f"http://127.0.0.1:{self.port}{path}"
        async with (
            ClientSession() as session,
            session.request(method, url, data=body, headers=given, allow_redirects=False) as answer,
        ):
            return Answer(answer.status, dict(answer.headers), await answer.text())

    async def say(self, *lines: str) -> str:
        """Send these lines as they are and return the first line of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            return (await reader.readline()).decode().strip()
        finally:
            writer.close()
            await writer.wait_closed()

    async def enter(self) -> str:
        """Open the printed URL and return the session cookie as a browser sends it."""
        answer = await self.ask(f"/?token={TOKEN}")
        return answer.headers["Set-Cookie"].partition(";")[0]


@asynccontextmanager
async def one_person() -> AsyncIterator[Served]:
    """The console of one person."""
    with get_unused_port_socket("127.0.0.1") as socket:
        port = socket.getsockname()[1]
        async with _served(Local(port=port, token=TOKEN), port, socket) as served:
            yield served


@asynccontextmanager
async def many_people(settings: InCluster) -> AsyncIterator[Served]:
    """The console behind a proxy."""
    with get_unused_port_socket("127.0.0.1") as socket:
        async with _served(settings, socket.getsockname()[1], socket) as served:
            yield served


@asynccontextmanager
async def _served(settings: Local | InCluster, port: int, socket: object) -> AsyncIterator[Served]:
    served = Served(port, [])
    app = web.Application()
    guard(app, settings)
    app.router.add_get("/", _page)
    app.router.add_get("/healthz", _healthy)
    app.router.add_get("/static/console.css", _static)
    app.router.add_get("/careless", _careless)
    app.router.add_get("/broken", _broken)
    app.router.add_get("/stream", _stream)

    async def change(request: web.Request) -> web.Response:
        served.changes.append(str((await request.post()).get("decision")))
        return web.Response(text="changed")

    app.router.add_post("/change", change)
    server = runner(app)
    await server.setup()
    await web.SockSite(server, socket).start()  # type: ignore[arg-type]
    try:
        yield served
    finally:
        await server.cleanup()


async def _page(request: web.Request) -> web.Response:
    return web.Response(text=f"the page of {request[PERSON].token}" if PERSON in request else "the page")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _static(_: web.Request) -> web.Response:
    return web.Response(text="body {}", content_type="text/css", headers={"Cache-Control": KEPT})


async def _careless(_: web.Request) -> web.Response:
    return web.Response(text="the page", headers={"Cache-Control": KEPT})


async def _broken(request: web.Request) -> web.Response:
    given = request[PERSON].token if PERSON in request else TOKEN
    raise RuntimeError(f"the secret is {given}")


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b": open\n\n")
    return response
