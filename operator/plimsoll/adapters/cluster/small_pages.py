"""Lists of the API server whose answers stay small, however large single objects are.

The API server limits a page of a list by its number of objects only, and an object may have some MB of JSON. As
Python's dictionaries, JSON of short members takes 15 to 35 times its bytes (measured), so that 500 large objects would
fill any memory. Here a page that is too long is asked for again with fewer objects.

Lines of a stream, however long they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp

from plimsoll.domain.units import MIB

PAGE_BYTES = 2 * MIB
"""The longest page of several objects. As dictionaries it takes 70 MiB at most."""

LARGEST_BYTES = 64 * MIB
"""The longest page of one object. etcd stores 1.5 MiB of an object (https://etcd.io/docs/latest/dev-guide/limit/), and
as JSON an object of a built-in kind is some times longer."""

FIRST_OBJECTS = 50
"""The length of the first page of a collection, whose objects may all be large: the API server writes a page as a whole
before it sends it."""

FEWER = 4
"""How many times fewer objects are asked for after a page that is too long."""

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Asks for a list of objects without spec and status
(https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches)."""


class SmallResponse(aiohttp.ClientResponse):
    """An answer that is read as a whole only if it is short."""

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


class SmallPages:
    """A middleware for :class:`aiohttp.ClientSession` whose ``response_class`` is :class:`SmallResponse`.

    It remembers how many objects of each collection fitted last, and asks for more after a page that was short.
    """

    def __init__(self) -> None:
        self._fitting: dict[str, int] = {}

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request: a list with a limit again, with a smaller one, while its page is too long."""
        asked = request.url.query.get("limit", "")
        if request.method != "GET" or not asked.isdecimal() or "watch" in request.url.query:
            return await handler(request)
        most, collection = max(1, int(asked)), request.url.path
        limit = min(most, self._fitting.get(collection, FIRST_OBJECTS))
        while True:
            request.url = request.url.update_query(limit=str(limit))
            response = await handler(request)
            if not isinstance(response, SmallResponse):
                return response
            length = await response.length_within(PAGE_BYTES if limit > 1 else LARGEST_BYTES)
            if length is not None:
                if response.ok and length <= PAGE_BYTES // FEWER:
                    self._fitting[collection] = min(most, 2 * limit)
                return response
            if limit == 1:
                raise aiohttp.ClientPayloadError(f"one object has more than {LARGEST_BYTES} bytes")
            self._fitting[collection] = limit = max(1, limit // FEWER)  # for another try, too, if time is over


async def long_lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream without their ends.

    The reader's own iteration refuses lines beyond its buffer (128 KiB), and an object of Kubernetes may have 1.5 MiB
    (https://etcd.io/docs/latest/dev-guide/limit/).
    """
    rest = b""
    async for chunk in stream.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
    if rest.strip():
        yield rest
