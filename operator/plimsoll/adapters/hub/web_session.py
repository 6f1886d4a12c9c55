"""GET requests to a hub or a registry, each with limits on time, bytes and redirects.

The requests run on an event loop in a separate thread, because only there can a request be cancelled at any point:
during name resolution, while connecting, or while headers arrive slowly. Callers block, also with a time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from ipaddress import ip_address
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

import plimsoll
from plimsoll.adapters.hub.circuit_breaker import CircuitBreaker, NotAsked, Unconnected, Unreached
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.units import KIB

T = TypeVar("T")

MOST_HOPS = 5
"""Most redirects of one request. The public hub needs two: to the file's commit, and from there to its storage."""

AT_ONCE = 4
"""Requests of one look-up at the same time. The callers' threads limit the number of look-ups."""

_PIECE_BYTES = 64 * KIB
_GRACE_SECONDS = 0.5
"""Extra time for the loop's thread to end a request after its time limit."""

_MOST_BREAKERS = 4096

_SECONDS = re.compile(r"(\d{1,6})", re.ASCII)
_RESET = re.compile(r";\s*t=(\d{1,6})(?!\d)", re.ASCII)

_NOT_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout)
_NOT_THERE = (httpx2.codes.BAD_GATEWAY, httpx2.codes.SERVICE_UNAVAILABLE, httpx2.codes.GATEWAY_TIMEOUT)
"""The gateway answers, but no hub behind it. 500 is not in the list, because it may be about one model, and 429 is not,
because it may be about one token."""

_TRANSPORT_FAILURES = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ValueError)

Sink = Callable[[bytes], object]


class ResponseTooLarge(SourceUnavailable):
    """An answer has more bytes than the limit."""


@dataclass(frozen=True, slots=True)
class WebResponse:
    """An answer: ``error_code`` is the hub's code for a refusal; ``body`` is empty unless the status is 2xx.

    ``pause_seconds`` is the pause that a refusal asks for; None if it asks for none. ``challenge`` says where a
    token is to be had, in the words of the header ``WWW-Authenticate``.
    """

    status: int
    error_code: str
    body: bytes = b""
    pause_seconds: int | None = None
    challenge: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the server sent the requested content."""
        return httpx2.codes.is_success(self.status)


class WebSession:
    """One endpoint, its circuit breakers, and the limits of each answer.

    If no connection to the endpoint is possible, requests of all askers pause. No answer, or a gateway's error, may be
    about the models of one asker (a mirror that hangs on models it does not have). So these open the breaker of that
    asker only.

    Args:
        endpoint: its address, which an admin sets or allows.
        setting: the setting that the address is from, for the error texts.
        kind: what is there, for the error texts: ``hub``.
        timeout_seconds: time limit for each whole answer, from name resolution to the last byte, including redirects.
        refusal: why nothing may be asked now; empty if it may.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        setting: str,
        kind: str,
        timeout_seconds: float,
        refusal: Callable[[], str] = lambda: "",
    ) -> None:
        self.endpoint = endpoint
        self.timeout_seconds = timeout_seconds
        self.name = f"the {kind} at {_origin_text(endpoint, setting)}"
        self.refusal = refusal
        self._setting = setting
        self._connection = CircuitBreaker(self.name, failure=Unconnected)
        self._askers: dict[str, CircuitBreaker] = {}
        self._running: set[Future[Any]] = set()
        self._is_closed = False

    def visit(self, token: str | None, *, asker: str, seconds: float) -> WebVisit:
        """Return a context for the requests of one look-up, which share connections, a token and a deadline.

        Only the endpoint gets the token.
        """
        _tls()  # reading certificates takes a third of a second: too long for the loop's thread
        try:
            home = httpx2.URL(self.endpoint)
        except httpx2.InvalidURL as error:
            raise SourceUnavailable(f"{self._setting}: {self.endpoint!r} is no web address") from error
        return WebVisit(self, home, token, asker=asker, seconds=seconds)

    @contextlib.contextmanager
    def attempt(self, asker: str) -> Iterator[None]:
        """Return a context for one request. Raises SourceUnavailable while the endpoint, or this asker, must wait."""
        if len(self._askers) > _MOST_BREAKERS:
            self._askers.clear()
        with self._askers.setdefault(asker, CircuitBreaker(self.name)).attempt(), self._connection.attempt():
            yield

    def close(self) -> None:
        """Cancel every running request; its caller gets an error at once."""
        self._is_closed = True
        for future in tuple(self._running):
            future.cancel()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a request on the loop's thread."""
        if self._is_closed:
            work.close()
            raise NotAsked("the operator is stopping")
        future = asyncio.run_coroutine_threadsafe(work, _loop())
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future


class WebVisit:
    """The requests of one look-up. For one thread at a time."""

    def __init__(self, session: WebSession, home: httpx2.URL, token: str | None, *, asker: str, seconds: float) -> None:
        self._session = session
        self._asker = asker
        self.token = token
        self._deadline = time.monotonic() + seconds
        self._home = home
        self._client: httpx2.AsyncClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(self._client.aclose(), _loop()).result(_GRACE_SECONDS)

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline of the look-up."""
        return self._deadline - time.monotonic()

    def get(self, url: str, *, most: int, sink: Sink | None = None, accept: str = "*/*") -> WebResponse:
        """Send a request and return the whole answer.

        Args:
            url: an address at the endpoint, or one that the endpoint has named, which is checked like a redirect.
            most: most bytes of the body, after decompression.
            sink: receives the body piece by piece; without a sink the body is in the answer.
            accept: the media types of the answer.

        Raises:
            Unreached: no connection, no whole answer in time, or a gateway without a hub behind it.
            ResponseTooLarge: the body has more than ``most`` bytes.
            SourceUnavailable: the answer cannot be used, or the endpoint has not answered for some time.
        """
        with self._session.attempt(self._asker):
            return self._wait(self._start(url, most, {"Accept": accept}, sink))

    def heads(self, urls: Iterable[str], *, most: int) -> Iterator[WebResponse]:
        """Yield the first ``most`` bytes of each file in order, a few requests at a time. Raises like :meth:`get`."""
        asked = {"Range": f"bytes=0-{most - 1}"}
        todo = iter(urls)
        waiting: list[Future[WebResponse]] = []
        try:
            while True:
                with self._session.attempt(self._asker):
                    waiting += [
                        self._start(url, most, asked, None) for url in itertools.islice(todo, AT_ONCE - len(waiting))
                    ]
                    if not waiting:
                        return
                    answer = self._wait(waiting.pop(0))
                yield answer
        finally:
            for future in waiting:
                future.cancel()

    def _start(self, url: str, most: int, asked: dict[str, str], sink: Sink | None) -> Future[WebResponse]:
        refusal = self._session.refusal()
        if refusal:
            raise NotAsked(refusal)
        seconds = min(self._session.timeout_seconds, self.remaining_seconds)
        if seconds <= 0:
            raise NotAsked(f"{self._session.name} is too slow")
        return self._session.start(self._bounded(url, most, asked, sink, seconds))

    def _wait(self, future: Future[WebResponse]) -> WebResponse:
        try:
            return future.result(self._session.timeout_seconds + _GRACE_SECONDS)
        except TimeoutError as error:
            future.cancel()
            raise self._unreached(f"gave no whole answer within {self._session.timeout_seconds:g} s") from error
        except CancelledError as error:
            raise NotAsked("the operator is stopping") from error

    async def _bounded(
        self, url: str, most: int, asked: dict[str, str], sink: Sink | None, seconds: float
    ) -> WebResponse:
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(await self._first(url), most, asked, sink)
        except TimeoutError as error:
            raise self._unreached(f"gave no whole answer within {self._session.timeout_seconds:g} s") from error
        except _TRANSPORT_FAILURES as error:
            raise self._unreached(f"cannot be reached ({type(error).__name__})") from error

    async def _follow(self, url: httpx2.URL, most: int, asked: dict[str, str], sink: Sink | None) -> WebResponse:
        for _ in range(MOST_HOPS + 1):
            headers = {**asked, **self._headers_for(url)}
            try:
                async with self._http().stream("GET", url, headers=headers) as response:
                    if not response.has_redirect_location:
                        return await self._read(response, most, sink, cut="Range" in asked)
                    target = await self._next(url, response.headers["Location"])
            except _NOT_CONNECTED as error:
                if _origin(url) != _origin(self._home):
                    raise
                raise Unconnected(f"{self._session.name} cannot be reached ({type(error).__name__})") from error
            url = target
        raise self._unusable(f"redirects more than {MOST_HOPS} times")

    async def _first(self, url: str) -> httpx2.URL:
        """Return an address to begin with. One that is not at the endpoint is from the endpoint's own words."""
        first = httpx2.URL(url)
        return first if _origin(first) == _origin(self._home) else await self._next(self._home, url)

    async def _next(self, url: httpx2.URL, location: str) -> httpx2.URL:
        target = url.join(location)
        if target.scheme not in ("http", "https") or not target.host:
            raise self._unusable("leads to what is no web address")
        if url.scheme == "https" and target.scheme != "https":
            raise self._unusable("leads from https to http")
        if _origin(target) != _origin(self._home) and await _reach(target) > await _reach(self._home):
            raise self._unusable("leads to an address of a network that it is not in itself")
        return target

    def _headers_for(self, url: httpx2.URL) -> dict[str, str]:
        """Return the headers for an address. Only the endpoint gets the token, also after redirects."""
        headers = {"User-Agent": f"plimsoll/{plimsoll.__version__}", "Accept-Encoding": "identity"}
        if self.token and _origin(url) == _origin(self._home):
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    async def _read(self, response: httpx2.Response, most: int, sink: Sink | None, *, cut: bool) -> WebResponse:
        code = response.headers.get("X-Error-Code", "")
        if response.status_code in _NOT_THERE:
            raise self._unreached(f"answered HTTP {response.status_code}")
        if not response.is_success:
            challenge = response.headers.get("WWW-Authenticate", "")
            return WebResponse(response.status_code, code, pause_seconds=_pause(response.headers), challenge=challenge)
        if not cut and _declared_bytes(response) > most:
            raise ResponseTooLarge(f"more than {most} bytes")
        body = bytearray()
        take = body.extend if sink is None else sink
        left = most
        async for piece in self._pieces(response, most):
            if len(piece) > left and not cut:
                raise ResponseTooLarge(f"more than {most} bytes")
            take(piece[:left])
            left -= len(piece)
            if left <= 0 and cut:
                break
        return WebResponse(response.status_code, code, bytes(body))

    async def _pieces(self, response: httpx2.Response, most: int) -> AsyncIterator[bytes]:
        """Yield the decoded body. The only encoding allowed is gzip, once: several in a row can use too much CPU."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip", "x-gzip"):
            raise self._unusable("answers in an encoding that was not asked for")
        gzip = None if encoding in ("identity", "") else zlib.decompressobj(zlib.MAX_WBITS | 16)
        received = 0
        async for raw in response.aiter_raw():
            if gzip is None:
                yield raw
                continue
            received += len(raw)
            if received > most + _PIECE_BYTES:  # the compressed body alone exceeds the limit
                raise ResponseTooLarge(f"more than {most} bytes")
            rest = raw
            try:
                while piece := gzip.decompress(rest, _PIECE_BYTES):
                    yield piece
                    rest = gzip.unconsumed_tail
            except zlib.error as error:
                raise self._unusable("answers with broken gzip") from error

    def _http(self) -> httpx2.AsyncClient:
        """Return the client of this look-up. Look-ups share no client, so tenants share no cookies and no answers."""
        if self._client is None:
            limits = httpx2.Limits(max_connections=AT_ONCE + 1)
            whole = self._session.timeout_seconds
            timeout = httpx2.Timeout(whole, connect=whole / 2)
            self._client = httpx2.AsyncClient(verify=_tls(), timeout=timeout, limits=limits)
        return self._client

    def _unreached(self, what: str) -> Unreached:
        return Unreached(f"{self._session.name} {what}")

    def _unusable(self, what: str) -> SourceUnavailable:
        return SourceUnavailable(f"{self._session.name} {what}")


def _pause(headers: httpx2.Headers) -> int | None:
    """Return the pause in ``Retry-After``, or in the public hub's ``RateLimit`` (``"api";r=0;t=55``), in seconds."""
    found = _SECONDS.fullmatch(headers.get("Retry-After", "").strip()) or _RESET.search(headers.get("RateLimit", ""))
    return None if found is None else int(found[1])


def _declared_bytes(response: httpx2.Response) -> int:
    declared = response.headers.get("Content-Length", "")
    return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 20 else 0  # noqa: PLR2004


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme, 0)


class Reach(IntEnum):
    """From where an address can be reached: the higher, the nearer to the operator."""

    ANYWHERE = 0
    NETWORK = 1
    HOST = 2
    """The machine itself, and what answers for its link, such as a cloud's metadata."""


async def _reach(url: httpx2.URL) -> Reach:
    """Return the nearest reach of a host's addresses. One without addresses cannot be asked, or a proxy knows it."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(str(url.host), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return Reach.ANYWHERE
    return max((_reach_of(str(address[0])) for *_, address in found), default=Reach.ANYWHERE)


def _reach_of(address: str) -> Reach:
    read = ip_address(address)
    read = getattr(read, "ipv4_mapped", None) or read
    if read.is_loopback or read.is_link_local or read.is_unspecified or read.is_multicast:
        return Reach.HOST
    return Reach.ANYWHERE if read.is_global else Reach.NETWORK


def _origin_text(endpoint: str, setting: str) -> str:
    """Return the origin of an address as text, without user or password."""
    try:
        url = httpx2.URL(endpoint)
    except httpx2.InvalidURL:
        return setting
    return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")


@cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        return _running_loop()


@cache
def _running_loop() -> asyncio.AbstractEventLoop:
    """Start the one event loop of the process. It needs threads only to resolve names."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(2 * AT_ONCE, thread_name_prefix="web-names"))
    threading.Thread(target=loop.run_forever, name="web", daemon=True).start()
    return loop
