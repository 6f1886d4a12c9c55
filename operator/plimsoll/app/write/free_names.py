"""Which names no object has, before an object of that name is created.

The store has only objects with our label. So the API server is asked about the name of each object that is to be made.
If many are to be made in one namespace, it is asked once for the names of all objects without our label.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster, ObjectKind
from plimsoll.app.watch.store import Body
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.render.names import DEPLOYMENT_LABEL

FREE_SECONDS = 5.0
"""How long a name counts as free after no object of this name was found."""

FEW = 6
"""So many names of one kind and namespace are asked for one by one within :data:`FREE_SECONDS`."""

MOST_REMEMBERED = 10_000
"""The most free names to remember; forgetting one costs a request."""


@dataclass(slots=True)
class _Asked:
    """The names of one kind and namespace that were asked for lately, and those of all objects without our label."""

    since: float
    count: int = 0
    foreign: asyncio.Task[frozenset[str] | None] | None = None


@dataclass(slots=True)
class FreeNames:
    """Names that are free, each for :data:`FREE_SECONDS`; if many are asked for, for twice as long at most."""

    cluster: Cluster
    _until: dict[tuple[ObjectKind, ObjectKey], float] = field(default_factory=dict)
    _asked: dict[tuple[ObjectKind, str], _Asked] = field(default_factory=dict)

    def has(self, kind: ObjectKind, key: ObjectKey) -> bool:
        """Whether the name was free a moment ago."""
        return self._until.get((kind, key), float("-inf")) >= time.monotonic()

    def add(self, kind: ObjectKind, key: ObjectKey) -> None:
        """Note that no object has this name.

        So the name is checked once before the status is written, and not again before the object is created.
        """
        now = time.monotonic()
        self._until[kind, key] = now + FREE_SECONDS
        if len(self._until) > MOST_REMEMBERED:
            self._until = {name: until for name, until in self._until.items() if until > now}

    def remove(self, kind: ObjectKind, key: ObjectKey) -> None:
        """Note that an object of this name was made. If it is gone soon, somebody deleted it: its owner, perhaps."""
        self._until.pop((kind, key), None)

    async def find(self, kind: ObjectKind, key: ObjectKey) -> Body | None:
        """Return the object of this name; None if there is none.

        One with our label that the watch has not delivered yet may be missing if many names are asked for.
        """
        now = time.monotonic()
        asked = self._asked.get((kind, key.namespace))
        if asked is None or now - asked.since > FREE_SECONDS:
            self._asked = {place: each for place, each in self._asked.items() if now - each.since <= FREE_SECONDS}
            asked = self._asked[kind, key.namespace] = _Asked(now)
        asked.count += 1
        if asked.count > FEW:
            if asked.foreign is None:
                asked.foreign = asyncio.create_task(self._foreign(kind, key.namespace))
            names = await asyncio.shield(asked.foreign)
            if names is not None and key.name not in names:
                return None
        return await self.cluster.get(kind, key)

    async def _foreign(self, kind: ObjectKind, namespace: str) -> frozenset[str] | None:
        """Return the names of all objects without our label; None if they fill more than a page or cannot be listed."""
        label = f"!{DEPLOYMENT_LABEL}"
        try:
            found = await self.cluster.list(kind, labels=label, namespace=namespace, metadata_only=True, pages=1)
        except (ClusterRefused, SourceUnavailable):
            return None
        return frozenset(str(each["metadata"]["name"]) for each in found.items) if found.is_whole else None
