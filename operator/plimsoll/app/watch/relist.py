"""Lists every kind, at the start and from time to time, and replaces the stored objects by the lists."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, GONE, ClusterRefused
from plimsoll.adapters.cluster.client import Cluster, Listing, ObjectKind
from plimsoll.app.watch.store import Store, is_stored, key_of
from plimsoll.domain.errors import PlimsollError

RETRY_SECONDS = 5.0
"""The pause after a list that failed or was not trusted."""

SETTLE_SECONDS = 1.0
"""The wait after a watch broke: watches break together, and one list for all of them is enough."""

MOST_READ_ONE_BY_ONE = 20
"""If a list shows more unknown objects than this, whole objects are listed: that takes fewer requests."""

Source = Callable[[], Awaitable[Listing]]
"""Lists the objects of a kind from another source than the API server."""

logger = logging.getLogger("plimsoll.relist")


@dataclass(slots=True)
class Relist:
    """Lists kinds repeatedly.

    Args:
        cluster: the API server.
        store: what the lists replace.
        kinds: each with its label selector.
        pause_seconds: between two rounds; it varies by a tenth so that operators do not all list at once.
        broken: ends the pause. A watch was restarted, and it never reports what was deleted in between.
        namespaces: where namespaced kinds are listed; empty for everywhere.
        instead: sources that replace the API server for a kind.
        everywhere: namespaced kinds that are listed in all namespaces in any case.
        dispensable: kinds that are done without if they may not be read or do not exist, each with what that means.
    """

    cluster: Cluster
    store: Store
    kinds: Mapping[ObjectKind, str | None]
    pause_seconds: float
    broken: asyncio.Event
    namespaces: Iterable[str] = ()
    instead: Mapping[ObjectKind, Source] = field(default_factory=dict)
    everywhere: Collection[ObjectKind] = ()
    dispensable: Mapping[ObjectKind, str] = field(default_factory=dict)
    trouble: dict[ObjectKind, tuple[float, str]] = field(default_factory=dict)

    async def run(self) -> None:
        """List all kinds, wait and repeat, until cancelled. Raises :class:`~plimsoll.app.watch.store.HistoryLost`."""
        while True:
            self.broken.clear()
            complete = await self.once()
            spread = self.pause_seconds * (0.9 + 0.2 * random.random())  # noqa: S311 - spreads load, guards no secret
            with suppress(TimeoutError):
                await asyncio.wait_for(self.broken.wait() if complete else asyncio.sleep(RETRY_SECONDS), spread)
                await asyncio.sleep(SETTLE_SECONDS)

    async def once(self) -> bool:
        """List every kind. Whether all lists were read and trusted."""
        return all([await self._one(kind, selector) for kind, selector in self.kinds.items()])

    def failing(self, longer_than_seconds: float) -> list[str]:
        """Return a sentence for every kind that has failed to list for longer than this."""
        now = time.monotonic()
        troubles = list(self.trouble.values())
        return [f"{text} (for {now - since:.0f} s)" for since, text in troubles if now - since > longer_than_seconds]

    async def _one(self, kind: ObjectKind, selector: str | None) -> bool:
        known = self.store.uids(kind)
        try:
            listing = await self._list(kind, selector)
            complete = self.store.replace(kind, listing.items, known, list_version=listing.version)
        except PlimsollError as error:
            since, earlier = self.trouble.get(kind, (time.monotonic(), ""))
            self.trouble[kind] = (since, str(error))
            is_refused = isinstance(error, ClusterRefused) and error.status in (FORBIDDEN, GONE)
            if is_refused and kind in self.dispensable and not self.store.was_listed(kind):
                self.store.excuse(kind)
                self._say(earlier, error, kind)
                return True
            if earlier != str(error):
                logger.warning("%s; again in %.0f s", error, RETRY_SECONDS)
            return False
        self.trouble.pop(kind, None)
        return complete

    def _say(self, earlier: str, error: PlimsollError, kind: ObjectKind) -> None:
        """Say once that a kind is done without, and what that means."""
        if earlier != str(error):
            why = "do not exist" if isinstance(error, ClusterRefused) and error.status == GONE else "may not be read"
            logger.warning("%s %s: %s", kind.plural, why, self.dispensable[kind])

    async def _list(self, kind: ObjectKind, selector: str | None) -> Listing:
        if kind in self.instead:
            return await self.instead[kind]()
        namespaces = list(self.namespaces) if kind.namespaced and kind not in self.everywhere else []
        if not namespaces:
            return await self._listed(kind, selector)
        pages = [await self._listed(kind, selector, namespace) for namespace in namespaces]
        return Listing([body for page in pages for body in page.items], min(page.version for page in pages))

    async def _listed(self, kind: ObjectKind, selector: str | None, namespace: str | None = None) -> Listing:
        """List metadata, and read whole only the objects that are not stored in this version already.

        Nearly all are stored: the list is a second opinion on the watch. Without this, a list of thousands of objects
        takes seconds of CPU here and in the API server.
        """
        keep = partial(self.store.take, kind)
        if self.store.was_listed(kind):
            new = partial(self.store.only_if_new, kind)
            heads = await self.cluster.list(kind, labels=selector, namespace=namespace, metadata_only=True, keep=new)
            unknown = [key_of(body) for body in heads.items if not is_stored(body)]
            if len(unknown) <= MOST_READ_ONE_BY_ONE:
                items = [body for body in heads.items if is_stored(body)]
                for key in unknown:
                    found = await self.cluster.list(
                        kind, labels=selector, namespace=key.namespace or None, name=key.name, keep=keep
                    )
                    items += found.items  # none if it was deleted meanwhile
                return Listing(items, heads.version)
        return await self.cluster.list(kind, labels=selector, namespace=namespace, keep=keep)
