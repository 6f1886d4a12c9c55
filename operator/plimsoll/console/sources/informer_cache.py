"""One kind of objects in one scope, kept current by lists and watches with the person's own rights."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from plimsoll.adapters.cluster.api_errors import GONE, ClusterRefused
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.cluster.kinds import ObjectKind
from plimsoll.console.views.rows import Body, key_of
from plimsoll.console.views.world import GapKind, KindGap
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey

WATCH_SECONDS = 10
"""How long one watch lasts. The API server checks rights when a watch begins, so a right that is taken away ends the
view after this time at the latest."""

PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before the next try after a failure; the last one is repeated."""

FORBIDDEN_PAUSE = 20.0
"""Seconds before a forbidden list is tried again: a right may be given while the page is open."""

DOUBTS = 10
"""Refusals right after an outage that do not count: an API server that starts refuses everybody until it has read the
roles, which takes seconds. The last state stays on the page meanwhile."""

DOUBT_PAUSE = 1.0
"""Seconds before the next try after such a refusal."""

_UNAUTHORIZED, _FORBIDDEN, _EXPIRED = 401, 403, 410

logger = logging.getLogger("plimsoll.console")


@dataclass
class ScopedInformer:
    """The objects of one kind in one scope.

    Args:
        cluster: the API server, with the person's credentials.
        kind: the kind.
        keep: reduces an object to what pages show; None leaves it out.
        on_change: called after every change.
        namespace: the scope; None for the whole cluster.
    """

    cluster: Cluster
    kind: ObjectKind
    keep: Callable[[Body], Any]
    on_change: Callable[[], None]
    namespace: str | None = None
    objects: dict[ObjectKey, Any] = field(default_factory=dict)
    gap: KindGap | None = None
    heard: float = 0.0
    changes: int = 0
    is_forbidden: asyncio.Event = field(default_factory=asyncio.Event)
    _failures: int = 0
    _doubts: int = 0

    def __post_init__(self) -> None:
        self.gap = self._gap(GapKind.LOADING)

    async def run(self) -> None:
        """List and watch until cancelled. Nothing that a cluster answers ends it."""
        while True:
            try:
                await self._follow()
            except ClusterRefused as refusal:
                await self._refused(refusal)
            except PlimsollError as error:
                await self._failed(error)
            except Exception as error:
                logger.exception("reading %s failed", self.kind.plural)
                await self._failed(error)

    async def _follow(self) -> None:
        version = await self._list()
        while version:
            version = await self._watch(version)

    async def _list(self) -> str:
        found: dict[ObjectKey, Any] = {}

        def put(body: Body) -> dict[str, Any]:
            kept = self._kept(body)
            if kept is not None:
                found[key_of(body)] = kept
            return {"metadata": {}}

        listing = await self.cluster.list(self.kind, namespace=self.namespace, keep=put)
        self.objects = found
        self._answered(changed=True)
        return str(listing.version)

    async def _watch(self, version: str) -> str:
        """Follow one watch to its end, and return the version to go on from; empty if it must be listed again."""
        seconds = WATCH_SECONDS
        async for kind, body in self.cluster.watch(self.kind, version, namespace=self.namespace, seconds=seconds):
            version = str(body["metadata"].get("resourceVersion") or version)
            self._observe(kind, body)
        self._answered()
        return version

    def _observe(self, event: str, body: Body) -> None:
        if event == "BOOKMARK":
            self._answered()
            return
        key = key_of(body)
        kept = None if event == "DELETED" else self._kept(body)
        before = self.objects.get(key)
        if kept is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = kept
        self._answered(changed=kept != before)

    def _kept(self, body: Body) -> Any:
        """Return the reduced object. One that cannot be read is left out and does not hide the others."""
        try:
            return self.keep(body)
        except Exception:
            logger.exception("%s %s cannot be read", self.kind.kind, key_of(body))
            return None

    def _answered(self, *, changed: bool = False) -> None:
        self.heard, self._failures, self._doubts = time.time(), 0, 0
        self.is_forbidden.clear()
        changed = changed or self.gap is not None
        self.gap = None
        if changed:
            self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self.on_change()

    async def _refused(self, refusal: ClusterRefused) -> None:
        if refusal.status == _EXPIRED:
            return
        if self._is_doubtful(refusal):
            self._doubts += 1
            await asyncio.sleep(DOUBT_PAUSE)
            return
        if refusal.status in (_FORBIDDEN, _UNAUTHORIZED, GONE):
            self._forget(GapKind.ABSENT if refusal.status == GONE else GapKind.FORBIDDEN, refusal.message)
            await asyncio.sleep(FORBIDDEN_PAUSE)
            return
        await self._failed(refusal)

    def _is_doubtful(self, refusal: ClusterRefused) -> bool:
        """Whether the API server may only have started a moment ago."""
        return refusal.status == _FORBIDDEN and self._failures > 0 and self._doubts < DOUBTS

    def _forget(self, reason: GapKind, message: str) -> None:
        """Drop every object: the person must not see any more what they may not see any more."""
        gap = self._gap(reason, message)
        is_new = self.gap is None or self.gap.reason is not reason
        self.objects, self.gap, self._failures, self._doubts = {}, gap if is_new else self.gap, 0, 0
        self.is_forbidden.set()
        if is_new:
            self._changed()

    async def _failed(self, error: Exception) -> None:
        if self.gap is None or self.gap.reason is not GapKind.UNREACHABLE:
            reason = GapKind.UNREACHABLE if self.heard else GapKind.LOADING
            self.gap = self._gap(reason, str(error))
            self._changed()
        pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1
        await asyncio.sleep(pause)

    def _gap(self, reason: GapKind, message: str = "") -> KindGap:
        return KindGap(self.kind.plural, reason, time.time(), self.namespace or "", message, self.kind.group)
