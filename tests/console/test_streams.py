"""The event stream of a tab: it says that something has changed, and ends when there is nothing to see any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console import streams as module
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.sessions import Session
from plimsoll.console.sources.reader import Listener, Reader
from plimsoll.console.streams import OPEN, OpenStreams, stream
from plimsoll.console.views.world import GapKind, KindGap


@dataclass
class InformerCache:
    gap: KindGap | None = None


@dataclass
class Changing:
    """A reader whose revision a test changes."""

    revision: int = 1
    cache: InformerCache = field(default_factory=InformerCache)
    waiters: set[asyncio.Event] = field(default_factory=set)

    def caches_of(self, kind: object) -> list[InformerCache]:
        assert kind == INFERENCE_DEPLOYMENTS
        return [self.cache]

    def listen(self) -> Listener:
        return Listener(self.waiters)

    def change(self) -> None:
        self.revision += 1
        for waiter in self.waiters:
            waiter.set()


class One:
    """One person, for everybody."""

    def __init__(self, reader: Changing) -> None:
        self.session = Session("alex", cast("Any", None), cast("Reader", reader))

    async def of(self, _: web.Request) -> Session:
        return self.session


@asynccontextmanager
async def served(reader: Changing, streams: OpenStreams | None = None) -> AsyncIterator[TestClient[Any, Any]]:
    app = web.Application()
    app[OPEN] = streams or OpenStreams()

    async def follow(request: web.Request) -> web.StreamResponse:
        try:
            return await stream(request, cast("Any", One(reader)))
        except ConsoleRefusal as refusal:
            return web.Response(status=refusal.status, headers=dict(refusal.headers))

    app.router.add_get("/stream", follow)
    async with TestClient(TestServer(app)) as client:
        yield client


async def said(answer: ClientResponse) -> str:
    """The next event or comment, without its end; empty at the end of the stream."""
    async with asyncio.timeout(60):
        lines = []
        while (line := (await answer.content.readline()).decode()) not in ("", "\n"):
            lines.append(line)
    return "".join(lines).strip()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_PAUSE_SECONDS", 0.0)


async def test_a_change_is_said_with_the_revision() -> None:
    reader = Changing()
    async with served(reader) as client, client.get("/stream") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert await said(answer) == ": plimsoll"
        reader.change()
        assert await said(answer) == "event: changed\ndata: 2"
        reader.change()
        assert await said(answer) == "event: changed\ndata: 3"


async def test_a_comment_keeps_a_quiet_stream_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMENT_SECONDS", 0.01)
    reader = Changing()
    async with served(reader) as client, client.get("/stream") as answer:
        assert [await said(answer) for _ in range(3)] == [": plimsoll", ": still here", ": still here"]


async def test_the_stream_ends_when_the_right_is_gone_and_not_when_the_server_is_away() -> None:
    reader = Changing()
    async with served(reader) as client, client.get("/stream") as answer:
        await said(answer)
        reader.cache.gap = KindGap("inferencedeployments", GapKind.UNREACHABLE, 1.0)
        reader.change()
        assert await said(answer) == "event: changed\ndata: 2"
        reader.cache.gap = KindGap("inferencedeployments", GapKind.FORBIDDEN, 1.0)
        reader.change()
        assert await said(answer) == "event: changed\ndata: 3"
        assert await said(answer) == ""
    assert not reader.waiters


async def test_a_stream_beyond_the_budget_is_refused_and_a_closed_one_gives_its_place_back() -> None:
    reader, streams = Changing(), OpenStreams(most=1)
    async with served(reader, streams) as client:
        async with client.get("/stream") as first:
            await said(first)
            async with client.get("/stream") as second:
                assert (second.status, second.headers["Retry-After"]) == (503, "30")
            reader.cache.gap = KindGap("inferencedeployments", GapKind.FORBIDDEN, 1.0)
            reader.change()
            while await said(first):
                pass
        assert streams.open == 0
        reader.cache.gap = None
        async with client.get("/stream") as third:
            assert third.status == 200


async def test_all_streams_end_with_the_process() -> None:
    reader = Changing()
    async with served(reader) as client, client.get("/stream") as answer:
        await said(answer)
        await client.server.app[OPEN].end()  # type: ignore[attr-defined]
        assert await said(answer) == ""


def opened(streams: OpenStreams, *people: str) -> ExitStack:
    stack = ExitStack()
    for person in people:
        stack.enter_context(streams.place(person))
    return stack


async def test_the_total_is_bounded_and_a_closed_stream_makes_room() -> None:
    streams = OpenStreams(most=2, most_of_one=2)
    with opened(streams, "a", "b"):
        with pytest.raises(ConsoleRefusal) as refused, streams.place("c"):
            pass
        assert refused.value.status == 503
        assert int(refused.value.headers["Retry-After"]) > 0
    with opened(streams, "c"):
        assert streams.open == 1


async def test_one_person_cannot_take_the_places_of_others() -> None:
    streams = OpenStreams(most=3, most_of_one=2)
    with opened(streams, "a", "a"):
        with pytest.raises(ConsoleRefusal), streams.place("a"):
            pass
        with opened(streams, "b"):
            assert streams.open == 3
    assert streams.open == 0


async def test_a_stream_that_fails_gives_its_place_back() -> None:
    streams = OpenStreams(most=1)
    with pytest.raises(OSError, match="gone"), streams.place("a"):
        raise OSError("gone")
    assert streams.open == 0
    with opened(streams, "b"):
        assert streams.open == 1


async def test_refused_strangers_are_not_remembered() -> None:
    streams = OpenStreams(most=1)
    with opened(streams, "a"):
        for number in range(100):
            with pytest.raises(ConsoleRefusal), streams.place(f"stranger-{number}"):
                pass
        assert len(streams._open) == 1  # noqa: SLF001 - the map's size is the point
