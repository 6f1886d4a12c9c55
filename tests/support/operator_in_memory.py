"""The operator's own loop on an API server in memory: it can be disturbed, killed at any request, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

from benchmarks.planning.passes import new_passes
from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import (
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    Cluster,
    Listing,
    ObjectKind,
)
from plimsoll.adapters.cluster.kinds import (
    GATEWAYS,
    INFERENCE_POOLS,
    LIMIT_RANGES,
    OF_GATEWAYS,
    OF_ROUTERS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from plimsoll.adapters.cluster.secrets import read_entry
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.api.v1alpha1 import ModelSpec
from plimsoll.app.lookups.claim_cache import ClaimCache
from plimsoll.app.lookups.model_cache import ModelCache
from plimsoll.app.plan.inbox import ProposalInbox
from plimsoll.app.plan.passes import Passes
from plimsoll.app.planner import Planner
from plimsoll.app.settings import Settings
from plimsoll.app.shell import BOUNDS, INBOX, KEPT, OWNED_SELECTOR, PRUNERS
from plimsoll.app.watch import pruning
from plimsoll.app.watch.prices import PriceList
from plimsoll.app.watch.relist import Relist
from plimsoll.app.watch.store import Store
from plimsoll.app.write.executor import Executor
from plimsoll.app.write.proposal_writer import ProposalWriter
from plimsoll.app.write.writers import Writers
from plimsoll.domain.cluster.node_rules import Mounted
from plimsoll.domain.errors import ModelNotFound, PlimsollError, SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.render.names import FIELD_MANAGER, MANAGED_BY
from testbed.operator_process import NAMESPACE, USER
from tests.support.api_in_memory import ApiInMemory
from tests.support.bodies import Body

T = TypeVar("T")

PRICES = ObjectKey(NAMESPACE, "plimsoll-prices")
_CONFLICT, _GONE = 409, 404


class Trouble(Enum):
    """What becomes of one request of the operator."""

    CONFLICT = 409
    INVALID = 422
    TOO_MANY = 429
    ERROR = 500
    LOST_REQUEST = "it does not arrive"
    LOST_ANSWER = "it is carried out, and nobody hears of it"
    KILLED_BEFORE = "the operator ends before it arrives"
    KILLED_AFTER = "it is carried out, and the operator ends before it hears of it"


KILLS = frozenset({Trouble.KILLED_BEFORE, Trouble.KILLED_AFTER})
_DONE = frozenset({Trouble.LOST_ANSWER, Trouble.KILLED_AFTER})


@dataclass
class Client:
    """The operator's way to the API server. ``trouble`` is asked about each write, ``refused`` about each kind read."""

    api: ApiInMemory
    trouble: Callable[[], Trouble | None]
    refused: Callable[[ObjectKind], PlimsollError | None] = lambda _: None
    is_dead: bool = False

    async def list(
        self,
        kind: ObjectKind,
        *,
        labels: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        metadata_only: bool = False,
        pages: int | None = None,
        keep: Callable[[Body], Body] = lambda body: body,
    ) -> Listing:
        """List as :meth:`plimsoll.adapters.cluster.client.Cluster.list` does, on one page."""
        assert pages in (None, 1)
        found = [
            keep({name: body[name] for name in ("apiVersion", "kind", "metadata")} if metadata_only else body)
            for body in self.api.all(kind, namespace)
            if (labels is None or is_labelled(body) != labels.startswith("!"))
            and name in (None, body["metadata"]["name"])
        ]
        return Listing(found, self.api.version)

    async def get(self, kind: ObjectKind, key: ObjectKey) -> Body | None:
        """Return one object; None if it does not exist."""
        await self._go_on()
        refusal = self.refused(kind)
        if refusal is not None:
            raise refusal
        return self.api.get(kind, key)

    async def apply(self, manifest: Body) -> Body:
        """Server-side apply."""
        return await self._write(lambda: self.api.apply(manifest, USER))

    async def put_status(self, kind: ObjectKind, known: Mapping[str, Any], status: Mapping[str, Any]) -> Body:
        """Replace the whole status of a version."""
        return await self._write(lambda: self.api.replace_status(kind, known, status, USER))

    async def scale(
        self, kind: ObjectKind, key: ObjectKey, uid: str, replicas: int, metadata: Mapping[str, Any] | None = None
    ) -> Body:
        """Set the number of replicas, and fields of the metadata."""
        patch = {"metadata": dict(metadata or {}), "spec": {"replicas": replicas}}
        return await self._write(lambda: self.api.patch(kind, key, uid, patch, USER))

    async def delete(self, kind: ObjectKind, key: ObjectKey, uid: str) -> None:
        """Delete exactly this object; it is no error if it is gone."""
        try:
            await self._write(lambda: self.api.delete(kind, key, uid, USER))
        except ClusterRefused as refusal:
            if not refusal.says_gone:
                raise

    async def evict(self, key: ObjectKey) -> None:
        """End a pod; it is no error if it is gone."""
        try:
            await self._write(lambda: self.api.evict(key, USER))
        except ClusterRefused as refusal:
            if refusal.status != _GONE:
                raise

    async def create_event(self, event: Body) -> None:
        """Record an event; it is no error if it was recorded before."""
        try:
            await self._write(lambda: self.api.create_event(event, USER))
        except ClusterRefused as refusal:
            if refusal.status != _CONFLICT:
                raise

    async def _go_on(self) -> None:
        """Let other writers go on, unless the process has ended."""
        await asyncio.sleep(0)
        if self.is_dead:
            raise asyncio.CancelledError

    async def _write(self, do: Callable[[], T]) -> T:
        await self._go_on()
        trouble = self.trouble()
        if trouble is None:
            return do()
        if trouble in _DONE:
            do()
        if trouble in KILLS:
            self.is_dead = True
            raise asyncio.CancelledError
        if isinstance(trouble.value, int):
            raise ClusterRefused("write", trouble.value, trouble.name)
        raise SourceUnavailable(f"write: {trouble.value}")


class NoHub:
    """A hub without models."""

    def facts(self, name: str, revision: str | None, token: str | None, *, asker: str = "") -> ModelFacts:
        """Know no model."""
        raise ModelNotFound(f"{asker}: {name} {revision} {token is None}")

    def close(self) -> None:
        """End nothing."""


@dataclass
class OperatorInMemory:
    """One operator after the other on the same API server. Use within a running event loop, and close it.

    Args:
        api: the API server.
        cache: a folder.
        warm: namespaces with the models that are looked up at the start, so that no pass waits for them.
        warm_claims: the same for claims.
        trouble: is asked about each write.
        refused: the error of a read of a kind; None where it is answered.
    """

    api: ApiInMemory
    cache: Path
    warm: Sequence[tuple[str, str]] = ()
    warm_claims: Sequence[ObjectKey] = ()
    trouble: Callable[[], Trouble | None] = lambda: None
    refused: Callable[[ObjectKind], PlimsollError | None] = lambda _: None
    settings: Settings = field(default_factory=Settings)
    client: Client = field(init=False)
    store: Store = field(init=False)
    passes: Passes = field(init=False)
    planner: Planner = field(init=False)
    prices: PriceList = field(init=False)
    relist: Relist = field(init=False)
    before_pass: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Start a process that knows nothing, and let it list everything."""
        client = self.client = Client(self.api, self.trouble, self.refused)
        cluster, wake = cast("Cluster", client), asyncio.Event()
        self.store = Store(
            {**PRUNERS, **INBOX},
            wake.set,
            optional={RESOURCE_QUOTAS, RESOURCE_SLICES},
            is_quiet=pruning.is_plain,
            bounds=BOUNDS,
        )
        executor = Executor(cluster, self.store)
        passes = self.passes = new_passes(self.cache)
        self.prices = PriceList(cluster, PRICES, wake.set, passes.reader.gpu_types)
        passes.reader.settings, passes.prices, passes.noticed.contests = self.settings, self.prices, executor.contests
        passes.inbox = ProposalInbox(lambda: all(map(self.store.was_listed, INBOX)))
        passes.reader.claims = ClaimCache(client.get, wake.set, clock=self.api.clock.read)
        passes.reader.models = ModelCache(ModelSources(NoHub()), self._read_token, wake.set)
        writers = Writers(executor, passes.faults, passes.noticed.refusals, passes.metrics, wake)
        writers.proposal_writer = ProposalWriter(cluster, self.store)
        self.planner = Planner(self.store, passes, writers, passes.metrics, wake=wake)
        self.relist = Relist(cluster, self.store, KEPT, 60.0, asyncio.Event())
        await self.list_again()
        for namespace, model in self.warm:
            passes.reader.models.look_up(namespace, ModelSpec(name=model))
        for key in self.warm_claims:
            passes.reader.claims.look_up(key.namespace, (Mounted(key.name),))
        await self._look_up()

    async def list_again(self) -> None:
        """List every kind, as at the start and after a watch was interrupted."""
        self.api.take_changes()
        assert await self.relist.once() or await self.relist.once()
        await self._list_the_unwatched()

    async def hear(self) -> None:
        """Deliver what the watches have, and list the kinds without a watch."""
        for kind, event, body in self.api.take_changes():
            selector = KEPT.get(kind, "unwatched")
            if selector is None:
                self.store.observe(kind, event, body)
            elif selector == OWNED_SELECTOR:
                self.store.observe(kind, event if is_labelled(body) else "DELETED", body)
        await self._list_the_unwatched()

    async def break_watches(self) -> None:
        """Lose what the watches had. Kopf lists again, and only names the objects that there are."""
        self.api.take_changes()
        for kind in KEPT:
            self.store.begin_watch(kind)
        await self.list_again()

    async def one_pass(self) -> None:
        """Make one pass with all its writes. A process that dies in it is replaced by another one."""
        await self.prices.refresh()
        self.before_pass()
        await self.planner.one_pass()
        await self._look_up()
        if self.client.is_dead:
            await self.restart()

    async def go_on(self, passes: int = 1, seconds: float = 1.0) -> None:
        """Make passes, each so long after the one before. Kubernetes' controllers run after each."""
        for _ in range(passes):
            self.api.clock.now += seconds
            await self.hear()
            await self.one_pass()
            self.api.run_controllers()

    async def restart(self) -> None:
        """End the process without a word, and start another one."""
        self.client.is_dead = True
        await self.close()
        await self.start()

    async def close(self) -> None:
        """End the process."""
        await self.planner.writers.close()
        await self.passes.reader.models.close()
        await self.passes.reader.claims.close()
        self.planner.close()

    async def _look_up(self) -> None:
        """Wait for the look-ups and answers that a pass began."""
        self.passes.reader.models.start_wanted()
        self.passes.reader.claims.start_wanted()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _list_the_unwatched(self) -> None:
        for kind in (PRIORITY_CLASSES, LIMIT_RANGES, RESOURCE_QUOTAS, RESOURCE_SLICES, RESOURCE_CLAIMS, *INBOX):
            listing = await self.client.list(kind)
            self.store.replace(kind, listing.items)
        for kind in (*OF_ROUTERS, *OF_GATEWAYS):
            if self.refused(kind) is None:
                listing = await self.client.list(
                    kind, labels=None if kind in (GATEWAYS, INFERENCE_POOLS) else OWNED_SELECTOR
                )
                self.store.replace(kind, listing.items)
            else:
                self.store.excuse(kind)

    async def _read_token(self, namespace: str, name: str, key: str) -> str:
        return await read_entry(self.client.get, ObjectKey(namespace, name), key)


def is_labelled(body: Mapping[str, Any]) -> bool:
    """Whether an object has the label of the operator's own objects."""
    labels = body["metadata"].get("labels") or {}
    return isinstance(labels, Mapping) and labels.get(MANAGED_BY) == FIELD_MANAGER
