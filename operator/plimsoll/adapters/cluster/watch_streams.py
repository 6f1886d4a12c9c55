"""Watches that Kopf keeps going and that others read.

For each object of a list, and for each event of a watch, Kopf makes a task, a memory of the object and a dozen more
objects. That takes three times as long as to store the event (measured with 1,000 objects). So the events are taken
from the stream before Kopf reads them. Kopf gets their versions only: enough to go on after a break, to notice a
version that is too old, and to get other credentials.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from typing_extensions import override

from plimsoll.adapters.cluster.kinds import ObjectKind
from plimsoll.adapters.cluster.small_pages import METADATA_ONLY, long_lines
from plimsoll.adapters.garbage import read_json
from plimsoll.domain.requests.workload import Manifest

_COLLECTION = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/(?:namespaces/[^/]+/)?(?P<plural>[^/]+)")
"""The end of the path of a collection; an API server may be behind a path of its own."""

_OF_OBJECTS = ("ADDED", "MODIFIED", "DELETED")


@dataclass(frozen=True, slots=True)
class Follower:
    """Who reads the watches.

    Args:
        kinds: the kinds that it reads.
        began: called when a watch of a kind is about to begin: it delivers none of the changes before.
        seen: called with the kind, type and object of each event.
    """

    kinds: tuple[ObjectKind, ...]
    began: Callable[[ObjectKind], object]
    seen: Callable[[ObjectKind, str, Manifest], object]

    def kind_at(self, path: str) -> ObjectKind | None:
        """Return the kind of a collection by its path; None for any other path."""
        found = _COLLECTION.search(path)
        if found is None or found.end() != len(path):
            return None
        named = (found["group"] or "", found["version"], found["plural"])
        return next((kind for kind in self.kinds if (kind.group, kind.version, kind.plural) == named), None)


class NoObjects(aiohttp.ClientResponse):
    """An answer to Kopf, whose list is empty: :class:`WatchStreams` asks for its version only."""

    @override
    async def json(self, **options: Any) -> Any:
        """Read the answer as JSON. A list has no objects and no next page."""
        answer = await super().json(**options)
        if isinstance(answer, dict) and "items" in answer:
            version = (answer.get("metadata") or {}).get("resourceVersion")
            return answer | {"items": [], "metadata": {"resourceVersion": version}}
        return answer


class WatchStreams:
    """A middleware for the :class:`aiohttp.ClientSession` of Kopf, whose ``response_class`` is :class:`NoObjects`."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request. Of a list only the version is read, and the events of a watch are passed on to the reader."""
        kind = self._follower.kind_at(request.url.path)
        is_watch = "watch" in request.url.query
        if kind is None or request.method != "GET":
            return await handler(request)
        if not is_watch:
            request.url = request.url.update_query(limit="1")
            request.headers["Accept"] = METADATA_ONLY
        response = await handler(request)
        if is_watch:
            response.content = _Versions(response.content, self._follower, kind)  # type: ignore[assignment]
        elif response.ok:
            self._follower.began(kind)
        return response


class _Versions:
    """The stream of a watch, each of whose chunks is an event without its object."""

    def __init__(self, stream: aiohttp.StreamReader, follower: Follower, kind: ObjectKind) -> None:
        self._stream = stream
        self._follower = follower
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield one line after the other."""
        async for line in long_lines(self._stream):
            yield self._version(line) + b"\n"
            await asyncio.sleep(0)  # many events in one chunk keep nobody else waiting

    def _version(self, line: bytes) -> bytes:
        """Pass an event on, and return a bookmark of its version. Whatever is no object is left to Kopf."""
        event = read_json(line)
        body = event.get("object") if isinstance(event, dict) else None
        if not isinstance(body, dict) or event.get("type") not in _OF_OBJECTS:
            return line
        self._follower.seen(self._kind, event["type"], body)
        head = body.get("metadata")
        version = head.get("resourceVersion") if isinstance(head, dict) else None
        return json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}).encode()
