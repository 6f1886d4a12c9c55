"""A proxy between a client and the API server that plays faults: which ones can be changed while it runs.

Plain HTTP on loopback in, HTTPS to the API server out. Everything runs on one event loop in a thread of its own, so
that hundreds of open watches cost nothing; rules are switched from any thread.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from testbed.faults import (
    EVERY_VERB,
    OF_STREAMS,
    Answer,
    Cut,
    CutStream,
    Delay,
    EmptyList,
    Fault,
    Hang,
    Lines,
    Rule,
    Silence,
    Truncate,
    Verb,
)
from testbed.last_writes import Fate, LastWrite

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "accept-encoding", "keep-alive"})
_NO_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=10)
_START_SECONDS = 60.0


@dataclass(slots=True)
class Exchange:
    """One request and what became of it.

    Attributes:
        method: HTTP method.
        path: with the query.
        verb: how it behaves.
        at: when it came, on the monotonic clock.
        done: ``passed``, ``open``, or the name of the fault.
        status: what the client was answered, 0 for nothing.
        seconds: how long it took; 0 while it is open.
    """

    method: str
    path: str
    verb: Verb
    at: float = field(default_factory=time.monotonic)
    done: str = "open"
    status: int = 0
    seconds: float = 0.0


class FaultProxy:
    """See the module. Use as a context manager.

    Args:
        server: the API server's base URL.
        authority: PEM text of its CA; None trusts what the system trusts.
    """

    def __init__(self, server: str, authority: str | None = None) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cadata=authority)
        self._rules: tuple[Rule, ...] = ()
        self._last_writes: tuple[LastWrite, ...] = ()
        self._lock = threading.Lock()
        self._kill: Callable[[], None] | None = None
        self._last = re.compile("")
        self._client_is_dead = False
        self._one_write = asyncio.Lock()
        self._streams: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self.url = ""
        self.killed_at: list[str] = []
        """Method and path of every write that was a client's last."""
        self.exchanges: list[Exchange] = []
        """Every request, in the order in which they came."""

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_START_SECONDS)
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
        self.let_go()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()

    async def _open(self) -> int:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=_NO_LIMIT)
        self._web = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(self._web, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _close(self) -> None:
        for connection in self._web.connections:
            connection.force_close()
        await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    # -- what a test says ---------------------------------------------------------------------------------------------

    def add(
        self,
        fault: Fault,
        *,
        verbs: Collection[Verb] = EVERY_VERB,
        path: str = "",
        nth: int | None = None,
        times: int | None = None,
        share: float = 1.0,
        seed: int = 0,
    ) -> Rule:
        """From now on hit matching requests; see :class:`Rule`. The first rule that strikes decides."""
        rule = Rule(fault, frozenset(verbs), path, nth, times, share, seed)
        with self._lock:
            self._rules = (*self._rules, rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule away; what hangs by it is reset."""
        with self._lock:
            self._rules = tuple(other for other in self._rules if other is not rule)
        self._loop.call_soon_threadsafe(rule.gone.set)

    def clear(self) -> None:
        """Take every rule away."""
        for rule in self._rules:
            self.remove(rule)

    @contextmanager
    def fault(self, fault: Fault, **which: Any) -> Iterator[Rule]:
        """A rule for the length of a block; ``which`` as for :meth:`add`."""
        rule = self.add(fault, **which)
        try:
            yield rule
        finally:
            self.remove(rule)

    @contextmanager
    def partition(self) -> Iterator[None]:
        """Nobody gets through for the length of a block, and what was open is reset."""
        with self.fault(Cut()):
            self.cut_streams()
            yield

    def cut_streams(self) -> None:
        """Reset every watch that is open now."""
        self._loop.call_soon_threadsafe(self._abort, self._streams)

    def arm(self, kill: Callable[[], None], *, at: str = "") -> None:
        """Let ``kill`` end the client when its next write has been applied; nothing after that write gets through.

        ``at`` is a regular expression: only a write with such a path is the last one, others pass before it.
        """
        self._client_is_dead = False
        self._last = re.compile(at)
        self._kill = kill

    def disarm(self) -> None:
        """Take :meth:`arm` back, and let a client that was killed and started again through."""
        self._kill = None
        self._client_is_dead = False

    def hold(self, last: LastWrite) -> LastWrite:
        """From now on hold this write and all later ones about the same; see :class:`LastWrite`."""
        with self._lock:
            self._last_writes = (*self._last_writes, last)
        return last

    def let_go(self) -> None:
        """End every :meth:`hold`. What is held is reset, and never reaches the API server."""
        with self._lock:
            ended, self._last_writes = self._last_writes, ()
        for last in ended:
            self._loop.call_soon_threadsafe(last.gone.set)

    def writes(self, path: str = "") -> list[Exchange]:
        """Writes so far whose path holds ``path``."""
        return [seen for seen in tuple(self.exchanges) if seen.verb is Verb.WRITE and path in seen.path]

    # -- one request --------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path
        seen = Exchange(request.method, path, _verb(request.method, path))
        self.exchanges.append(seen)
        try:
            return await self._answer(request, seen)
        except (OSError, aiohttp.ClientError):
            seen.done = "broken"  # the API server is away, or the client is
            return _reset(request)
        finally:
            seen.seconds = time.monotonic() - seen.at

    async def _answer(self, request: web.BaseRequest, seen: Exchange) -> web.StreamResponse:
        body = await request.content.read()
        rule = await self._next_fault(seen)
        if rule is not None:
            return await self._play(request, body, rule, seen)
        if seen.verb is Verb.WATCH:
            return await self._stream(request, seen)
        if seen.verb is Verb.WRITE and (self._kill is not None or self._client_is_dead):
            return await self._last_write(request, body, seen)
        if seen.verb is Verb.WRITE:
            for last in self._last_writes:
                if (fate := last.fate(seen.method, seen.path)) is not Fate.PASSES:
                    return await self._hold(request, body, last, fate, seen)
        return await self._pass(request, body, seen)

    async def _next_fault(self, seen: Exchange) -> Rule | None:
        """Sit out every delay, then find the first other fault."""
        found: Rule | None = None
        for rule in self._rules:
            if isinstance(rule.fault, OF_STREAMS) or (found is not None and not isinstance(rule.fault, Delay)):
                continue
            if not rule.strikes(seen.verb, seen.path):
                continue
            if isinstance(rule.fault, Delay):
                await asyncio.sleep(rule.fault.seconds)
            else:
                found = rule
        return found

    async def _play(self, request: web.BaseRequest, body: bytes, rule: Rule, seen: Exchange) -> web.StreamResponse:
        fault = rule.fault
        seen.done = type(fault).__name__
        if isinstance(fault, Hang):
            await rule.gone.wait()
            return _reset(request)
        if isinstance(fault, Cut | Answer) and fault.applied:
            async with self._upstream(request, body) as answer:
                await answer.read()
        if isinstance(fault, Answer):
            seen.status = fault.status
            headers = {"Content-Type": fault.content_type, **fault.headers}
            return web.Response(status=fault.status, body=fault.body.encode(), headers=headers)
        if isinstance(fault, Truncate | EmptyList):
            async with self._upstream(request, body) as answer:
                content = await answer.read()
                seen.status = answer.status
                changed = _without_items(content) if isinstance(fault, EmptyList) else content[: len(content) // 2]
                return web.Response(status=answer.status, body=changed, headers=_headers(answer.headers))
        return _reset(request)

    async def _pass(self, request: web.BaseRequest, body: bytes, seen: Exchange) -> web.StreamResponse:
        async with self._upstream(request, body) as answer:
            content = await answer.read()
            seen.done, seen.status = "passed", answer.status
            return web.Response(status=answer.status, body=content, headers=_headers(answer.headers))

    async def _last_write(self, request: web.BaseRequest, body: bytes, seen: Exchange) -> web.StreamResponse:
        """One write at a time: while the client dies, no second one of its gets through."""
        async with self._one_write:
            if self._client_is_dead:
                seen.done = "after death"
                return _reset(request)
            async with self._upstream(request, body) as answer:
                content = await answer.read()
            kill = self._kill
            if kill is None or self._last.search(seen.path) is None:
                seen.done, seen.status = "passed", answer.status
                return web.Response(status=answer.status, body=content, headers=_headers(answer.headers))
            self._kill, self._client_is_dead = None, True
            kill()  # blocks the loop, on purpose
            seen.done = "killed"
            self.killed_at.append(f"{request.method} {seen.path}")
            return _reset(request)

    async def _hold(
        self, request: web.BaseRequest, body: bytes, last: LastWrite, fate: Fate, seen: Exchange
    ) -> web.StreamResponse:
        seen.done = fate.value
        if fate is Fate.APPLIED:
            async with self._upstream(request, body) as answer:
                await answer.read()
                last.status = answer.status
        await last.gone.wait()
        return _reset(request)

    async def _stream(self, request: web.BaseRequest, seen: Exchange) -> web.StreamResponse:
        async with self._upstream(request, b"") as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers(answer.headers))
            response.enable_chunked_encoding()
            await response.prepare(request)
            seen.status = answer.status
            transport = request.transport
            if transport is None:
                return response
            self._streams.add(transport)
            try:
                await self._copy_lines(answer, response, seen)
            finally:
                self._streams.discard(transport)
            if seen.done == "open":
                seen.done = "passed"
                await response.write_eof()
                return response
            return _reset(request)

    async def _copy_lines(self, answer: aiohttp.ClientResponse, response: web.StreamResponse, seen: Exchange) -> None:
        """Line by line, so that faults can hit single events."""
        sent, rest = 0, b""
        if self._is_cut(seen, sent):
            return
        async for piece in answer.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if self._strikes(Silence, seen):
                    seen.done = "Silence"
                    await asyncio.Event().wait()
                for _ in range(self._copies(line, seen)):
                    await response.write(line + b"\n")
                sent += 1
                if self._is_cut(seen, sent):
                    return

    def _strikes(self, kind: type[Silence], seen: Exchange) -> bool:
        return any(isinstance(rule.fault, kind) and rule.strikes(seen.verb, seen.path) for rule in self._rules)

    def _copies(self, line: bytes, seen: Exchange) -> int:
        copies = 1
        for rule in self._rules:
            if (
                isinstance(rule.fault, Lines)
                and _type_of(line) in rule.fault.types
                and rule.strikes(seen.verb, seen.path)
            ):
                copies *= rule.fault.copies
        return copies

    def _is_cut(self, seen: Exchange, sent: int) -> bool:
        for rule in self._rules:
            is_due = isinstance(rule.fault, CutStream) and sent >= rule.fault.after_lines
            if is_due and rule.strikes(seen.verb, seen.path):
                seen.done = "CutStream"
                return True
        return False

    def _upstream(self, request: web.BaseRequest, body: bytes) -> Any:
        """The same request to the API server; an asynchronous context manager with its answer."""
        if self._session is None:
            raise RuntimeError("the proxy is not running; use it in a `with` statement")
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP]
        return self._session.request(
            request.method,
            URL(self._server + request.raw_path, encoded=True),
            headers=headers,
            data=body or None,
            allow_redirects=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )

    def _abort(self, transports: set[asyncio.Transport]) -> None:
        for transport in tuple(transports):
            transport.abort()


def _verb(method: str, path: str) -> Verb:
    if method in _WRITES:
        return Verb.WRITE
    watch = parse_qs(urlsplit(path).query).get("watch", [""])[0]
    return Verb.WATCH if watch in ("true", "1") else Verb.READ


def _reset(request: web.BaseRequest) -> web.Response:
    """Break the connection; the answer that aiohttp wants is for nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _headers(given: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in given.items() if name.lower() not in _HOP_BY_HOP]


def _without_items(content: bytes) -> bytes:
    body = json.loads(content)
    body["items"] = []
    body.get("metadata", {}).pop("continue", None)
    return json.dumps(body).encode()


def _type_of(line: bytes) -> str:
    """The type of a watch event, e.g. ``DELETED``, without decoding the object."""
    return line[:40].partition(b'"type":"')[2].partition(b'"')[0].decode()
