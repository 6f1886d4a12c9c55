"""All that one person may see of a cluster, kept current by watches with the person's own rights."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS, LEASES, NODES, PODS, PROPOSALS, ObjectKind
from plimsoll.app.watch.pruning import node as pruned_node
from plimsoll.app.watch.pruning import whole
from plimsoll.console.sources.informer_cache import ScopedInformer
from plimsoll.console.views.rows import Body, row_of
from plimsoll.console.views.world import ClusterView, GapKind, OperatorSign, PodRow, pod_of, sign_of
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.fleet_reading import read_fleet

KEPT: Mapping[ObjectKind, Callable[[Body], Any]] = {
    INFERENCE_DEPLOYMENTS: row_of,
    PROPOSALS: whole,
    NODES: pruned_node,
    PODS: pod_of,
}
"""The kinds that pages are made from, each with the function that reduces its objects."""


FLEET_REST = 4
"""How many times as long as it took to make a fleet is used, however often pods change meanwhile."""


class _Read(NamedTuple):
    """A fleet, the versions of what it was made from, and the time (monotonic) until which it is used."""

    version: tuple[int, ...]
    fleet: Fleet | None
    rests_until: float


class Reader:
    """Use as an asynchronous context manager.

    Args:
        cluster: the API server, with the person's credentials.
        namespaces: the namespaces to show; empty for all.
        fallback: the namespaces to show of a kind that the person may not list in all namespaces.
        operator: the Lease of the operator's election; None to show nothing about the operator.

    Attributes:
        revision: grows with every change.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespaces: Sequence[str] = (),
        fallback: Sequence[str] = (),
        operator: ObjectKey | None = None,
    ) -> None:
        self._cluster = cluster
        self._namespaces = tuple(namespaces)
        self._fallback = tuple(fallback)
        self._heartbeat = None if operator is None else Heartbeat(cluster, operator, self._note)
        self._caches: list[ScopedInformer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.revision = 0
        self._world: ClusterView | None = None
        self._fleet: _Read | None = None
        self._waiters: set[asyncio.Event] = set()

    async def __aenter__(self) -> Self:
        for kind in KEPT:
            scopes: Sequence[str | None] = self._namespaces if kind.namespaced and self._namespaces else (None,)
            for scope in scopes:
                self._add(kind, scope)
        if self._heartbeat is not None:
            self._start(self._heartbeat.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add(self, kind: ObjectKind, namespace: str | None) -> None:
        cache = ScopedInformer(self._cluster, kind, KEPT[kind], self._note, namespace)
        self._caches.append(cache)
        self._start(cache.run())
        if kind.namespaced and namespace is None and self._fallback:
            self._start(self._narrow(cache))

    def _start(self, work: Any) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _narrow(self, cache: ScopedInformer) -> None:
        """Show single namespaces if the person may not list a kind in all of them."""
        await cache.is_forbidden.wait()
        for namespace in self._fallback:
            self._add(cache.kind, namespace)

    def _note(self) -> None:
        self.revision += 1
        self._world = None
        for waiter in self._waiters:
            waiter.set()

    def listen(self) -> Listener:
        """Return a listener for changes. Use it as a context manager."""
        return Listener(self._waiters)

    @property
    def world(self) -> ClusterView:
        """Everything as it is now. It is made once for each revision."""
        if self._world is None:
            self._world = self._made()
        return self._world

    def _made(self) -> ClusterView:
        return ClusterView(
            revision=self.revision,
            heard=self._heard(),
            rows=MappingProxyType(self._all(INFERENCE_DEPLOYMENTS)),
            pods=self._pods(),
            fleet=self._read_fleet(),
            proposals=tuple(self._all(PROPOSALS).values()),
            gaps=tuple(cache.gap for cache in self._caches if cache.gap is not None),
            namespaces=self._shown(),
            operator=None if self._heartbeat is None else self._heartbeat.sign,
        )

    def _heard(self) -> float:
        """When the API server last answered for every kind that it answers for, in POSIX seconds; 0 for never."""
        return min(
            (cache.heard for cache in self._caches if cache.heard and not cache.is_forbidden.is_set()), default=0.0
        )

    def _all(self, kind: ObjectKind) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for cache in self.caches_of(kind):
            found |= cache.objects
        return found

    def caches_of(self, kind: ObjectKind) -> list[ScopedInformer]:
        """Return the caches of a kind, one a scope."""
        return [cache for cache in self._caches if cache.kind == kind]

    def _pods(self) -> tuple[PodRow, ...]:
        return tuple(self._all(PODS).values())

    def _read_fleet(self) -> Fleet | None:
        """Return the GPU nodes, made anew if nodes or pods have changed.

        On a large cluster that takes half a second, and pods change all the time. So a fleet is used for at least
        :data:`FLEET_REST` times as long as it took. Nodes that could not be listed are looked for again at once.
        """
        version = tuple(cache.changes for kind in (NODES, PODS) for cache in self.caches_of(kind))
        if self._fleet is None or (self._fleet.version != version and time.monotonic() >= self._fleet.rests_until):
            began = time.monotonic()
            found = self._new_fleet()
            ended = time.monotonic()
            rest = 0.0 if found is None else FLEET_REST * (ended - began)
            self._fleet = _Read(version, found, ended + rest)
        return self._fleet.fleet

    def _new_fleet(self) -> Fleet | None:
        (nodes,) = self.caches_of(NODES)
        if nodes.gap is not None and nodes.gap.reason is not GapKind.UNREACHABLE:
            return None
        return read_fleet(nodes.objects.values(), map(_holding, self._pods()), load_gpu_types())

    def _shown(self) -> tuple[str, ...]:
        """The namespaces whose deployments are shown; empty for all."""
        if self._namespaces:
            return self._namespaces
        whole_cluster = next((each for each in self.caches_of(INFERENCE_DEPLOYMENTS) if each.namespace is None), None)
        forbidden = whole_cluster is not None and whole_cluster.is_forbidden.is_set()
        return self._fallback if forbidden else ()


class Listener:
    """Waits for changes of a reader."""

    def __init__(self, waiters: set[asyncio.Event]) -> None:
        self._waiters = waiters
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        self._waiters.add(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        self._waiters.discard(self._event)

    async def wait(self, seconds: float) -> bool:
        """Wait for a change, but not longer than this. Return whether there was one."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


def _holding(pod: PodRow) -> Body:
    """Return the parts of a pod that a fleet is read from."""
    return {
        "spec": {"nodeName": pod.node, "containers": [{"resources": {"requests": dict(pod.gpus)}}]},
        "status": {"phase": pod.phase},
    }


PAUSE_SECONDS = 15.0
"""A Lease changes every few seconds. A watch of it would make every open page fetch itself again each time."""

REFUSED_SECONDS = 120.0
"""Most people may not read the Lease. They do not learn whether the operator works, and it is seldom asked for."""

logger = logging.getLogger("plimsoll.console")


@dataclass(slots=True)
class Heartbeat:
    """The operator's last sign of life; ``sign`` is None until the Lease was read, and if it may not be.

    Args:
        cluster: the API server, with the person's credentials.
        lease: the Lease of the operator's election.
        on_change: called when the operator falls silent, is heard again, or may not be asked about any more.
        wall: the time of day in POSIX seconds.
    """

    cluster: Cluster
    lease: ObjectKey
    on_change: Callable[[], None]
    wall: Callable[[], float] = time.time
    sign: OperatorSign | None = None

    async def run(self) -> None:
        """Read until cancelled. Without an answer the last sign stays."""
        while True:
            pause = await self.look()
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Read once. Return the seconds until the next reading."""
        try:
            found = sign_of(self.lease, await self.cluster.get(LEASES, self.lease), self.wall())
        except ClusterRefused:
            self._put(None)
            return REFUSED_SECONDS
        except PlimsollError:
            return PAUSE_SECONDS
        except Exception:
            logger.exception("the Lease %s cannot be read", self.lease)
            return PAUSE_SECONDS
        self._put(found)
        return PAUSE_SECONDS

    def _put(self, found: OperatorSign | None) -> None:
        before, self.sign = self.sign, found
        if _state(before) != _state(found):
            self.on_change()


def _state(sign: OperatorSign | None) -> tuple[bool, bool, bool]:
    """Return what a page shows differently."""
    return sign is not None, sign is not None and sign.exists, sign is not None and sign.is_silent
