"""Lists and watches of the API server whose answers stay small, however large single objects are.

The API server limits a page of a list by its number of objects only, and an object may have some MB of JSON. As
Python's dictionaries, JSON of short members takes 15 to 35 times its bytes (measured), so that 500 large objects would
fill any memory. Here a page that is too long is asked for again with fewer objects.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from aiohttp.typedefs import DEFAULT_JSON_DECODER
from typing_extensions import override

from plimsoll.adapters.long_lines import long_lines
from plimsoll.domain.units import KIB, MIB
from plimsoll.domain.workload import Manifest

PAGE_BYTES = 2 * MIB
"""The longest page of several objects. As dictionaries it takes 70 MiB at most."""

LARGEST_BYTES = 64 * MIB
"""The longest page of one object. etcd stores 1.5 MiB of an object (https://etcd.io/docs/latest/dev-guide/limit/), and
as JSON an object of a built-in kind is some times longer."""

LONG_LINE_BYTES = 16 * KIB
"""Shorter events of a watch are passed on unread: an object so short cannot be too large."""

FEWER = 4
"""How many times fewer objects are asked for after a page that is too long."""

Reduce = Callable[[Manifest], Manifest]
"""Reduces an object as it was read; returns the same object if nothing is to be left out."""


class SmallResponse(aiohttp.ClientResponse):
    """An answer whose objects are reduced one by one, as soon as they are read.

    ``reduce`` is applied to the items of :meth:`json`, and to the objects of a watch, which are lines of ``content``.
    """

    reduce: Reduce | None = None

    async def length_within(self, most_bytes: int) -> int | None:
        """Read the whole answer and return its bytes. If there are more than this, close the connection; None."""
        chunks, length = list[bytes](), 0
        while chunk := await self.content.readany():
            chunks.append(chunk)
            length += len(chunk)
            if length > most_bytes:
                self.close()
                return None
        self._body = b"".join(chunks)  # what read() would keep
        return length

    @override
    async def json(
        self,
        *,
        encoding: str | None = None,
        loads: Callable[[str], Any] = DEFAULT_JSON_DECODER,
        content_type: str | None = "application/json",
    ) -> Any:
        """Read the answer as JSON, with its items reduced."""
        answer = await super().json(encoding=encoding, loads=loads, content_type=content_type)
        self._body = None if self.reduce is not None else self._body
        if self.reduce is not None and isinstance(answer, dict) and isinstance(answer.get("items"), list):
            head = {"kind": str(answer.get("kind") or "").removesuffix("List")}
            answer["items"] = [self.reduce(head | item) if isinstance(item, dict) else item for item in answer["items"]]
        return answer


class _ShortEvents:
    """The stream of a watch, each of whose chunks is a whole event with its object reduced."""

    def __init__(self, stream: aiohttp.StreamReader, reduce: Reduce) -> None:
        self._stream = stream
        self._reduce = reduce

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield one line after the other."""
        async for line in long_lines(self._stream):
            yield (line if len(line) < LONG_LINE_BYTES else self._reduced(line)) + b"\n"

    def _reduced(self, line: bytes) -> bytes:
        event = json.loads(line)
        body = event.get("object") if isinstance(event, dict) else None
        kept = self._reduce(body) if isinstance(body, dict) and isinstance(body.get("metadata"), dict) else body
        return line if kept is body else json.dumps(event | {"object": kept}).encode()


class SmallPages:
    """A middleware for :class:`aiohttp.ClientSession` whose ``response_class`` is :class:`SmallResponse`.

    It remembers how many objects of each collection fitted last, and asks for more after a page that was short.

    Args:
        reduce: reduces each object of a list or of a watch before the caller sees it; None to pass all on as they are.
    """

    def __init__(self, reduce: Reduce | None = None) -> None:
        self._reduce = reduce
        self._fitting: dict[str, int] = {}

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request: a list with a limit again, with a smaller one, while its page is too long."""
        asked = request.url.query.get("limit", "")
        if request.method != "GET" or not asked.isdecimal() or "watch" in request.url.query:
            return self._with_events(await handler(request))
        most, collection = max(1, int(asked)), request.url.path
        limit = min(most, self._fitting.get(collection, most))
        while True:
            request.url = request.url.update_query(limit=str(limit))
            response = await handler(request)
            if not isinstance(response, SmallResponse):
                return response
            response.reduce = self._reduce
            length = await response.length_within(PAGE_BYTES if limit > 1 else LARGEST_BYTES)
            if length is not None:
                more = 2 if length <= PAGE_BYTES // FEWER else 1
                self._fitting[collection] = min(most, more * limit)
                return response
            if limit == 1:
                raise aiohttp.ClientPayloadError(f"one object has more than {LARGEST_BYTES} bytes")
            limit = max(1, limit // FEWER)

    def _with_events(self, response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
        if self._reduce is not None and "watch" in response.url.query:
            response.content = _ShortEvents(response.content, self._reduce)  # type: ignore[assignment]
        return response
