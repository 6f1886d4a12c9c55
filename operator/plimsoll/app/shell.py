"""The whole process: its parts and their connections, the order of start and stop, and its health."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from plimsoll import __version__
from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import (
    APPROVALS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    PROPOSALS,
    RESOURCE_QUOTAS,
    SERVICES,
    Cluster,
    ObjectKind,
)
from plimsoll.adapters.cluster.kinds import (
    GATEWAYS,
    HTTP_ROUTES,
    INFERENCE_POOLS,
    JOBS,
    LIMIT_RANGES,
    OF_GATEWAYS,
    OF_ROUTERS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from plimsoll.adapters.cluster.secrets import SecretUnreadable, read_entry
from plimsoll.adapters.garbage import give_back_free_memory
from plimsoll.adapters.highs import fleetwide
from plimsoll.adapters.hub.hub import HubModels
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.adapters.metrics import Metrics
from plimsoll.adapters.prometheus.pod_scrape import PodScrape
from plimsoll.api.checks.pod_policy import PodPolicy
from plimsoll.app.election.leadership import Elector, LeaseCandidate, LeaseHeld
from plimsoll.app.faults import Faults
from plimsoll.app.health import Beats, HealthServer, ProbeResult
from plimsoll.app.live.signal_watch import LiveSignals, reader_of
from plimsoll.app.lookups.claim_cache import ClaimCache
from plimsoll.app.lookups.image_cache import ImageCache
from plimsoll.app.lookups.model_cache import ModelCache
from plimsoll.app.lookups.weights_watch import WeightsWatch
from plimsoll.app.plan import planning_time
from plimsoll.app.plan.inbox import ProposalInbox
from plimsoll.app.plan.passes import Noticed, Passes
from plimsoll.app.plan.planning_time import PlanningTime
from plimsoll.app.planner import Planner
from plimsoll.app.reading.deployments import DeploymentReader
from plimsoll.app.settings import Settings
from plimsoll.app.watch import pruning
from plimsoll.app.watch.fleet_file import nodes_from
from plimsoll.app.watch.node_groups import NodeGroups, declared_in
from plimsoll.app.watch.prices import PriceList
from plimsoll.app.watch.relist import Relist, Source
from plimsoll.app.watch.sizes import SMALL_WORKLOAD_BYTES
from plimsoll.app.watch.store import Body, Bounds, HistoryLost, Store, key_of
from plimsoll.app.write.executor import Executor
from plimsoll.app.write.proposal_writer import ProposalWriter
from plimsoll.app.write.writers import Writers
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.other_devices import reduced_claim, reduced_slice
from plimsoll.render.names import DEPLOYMENT_LABEL, FIELD_MANAGER, MANAGED_BY

OWNED_SELECTOR = f"{MANAGED_BY}={FIELD_MANAGER}"

LIST_TROUBLE_SECONDS = 30.0
"""If a kind cannot be listed for this long, the process is not ready: it would decide on old data."""

DEAF_SECONDS = 60.0
"""If a watch has missed a change for this long, the process is not ready."""

HOPELESSLY_DEAF_SECONDS = 300.0
"""If a watch has missed a change for this long, the process is restarted: that opens the watches again."""

LISTED_ONLY_SECONDS = 30.0
"""How often kinds are listed if watches do not deliver all of their objects."""

QUOTA_SECONDS = 15.0
"""How often quotas, LimitRanges and PriorityClasses are read: what a namespace may take changes with every pod."""

SLICE_SECONDS = 60.0
"""How often ResourceSlices are read: they are named to people, and nothing is placed on them."""

ROUTER_SECONDS = 60.0
"""How often the rights, policies and InferencePools of routers are read. The operator knows at once what it writes."""

GATEWAY_SECONDS = 15.0
"""How often Gateways and HTTPRoutes are read: their controllers answer within seconds."""

INBOX_SECONDS = 5.0
"""How often proposals and approvals are read. The answer to an approval takes this long at most; a watch would end the
process if the kinds are missing."""

INBOX_SECONDS_PER_NAMESPACE = 0.5
"""If single namespaces are served, each one is listed on its own: at most four requests a second."""

FREE_MEMORY_SECONDS = 30.0
"""How often freed memory is given back to the system; it takes some milliseconds."""

EVENT_LOOP = "event loop"
_LOOP_BEAT_SECONDS = 1.0

PRUNERS: dict[ObjectKind, Callable[[Body], Body | None]] = {
    INFERENCE_DEPLOYMENTS: pruning.inference_deployment,
    NODES: pruning.node,
    PODS: pruning.pod,
    DEPLOYMENTS: pruning.workload,
    JOBS: pruning.owned,
    SERVICES: pruning.owned,
    DISRUPTION_BUDGETS: pruning.owned,
    RESOURCE_QUOTAS: pruning.quota,
    LIMIT_RANGES: pruning.limit_range,
    PRIORITY_CLASSES: pruning.priority_class,
    RESOURCE_SLICES: reduced_slice,
    RESOURCE_CLAIMS: reduced_claim,
    **dict.fromkeys((*OF_ROUTERS, HTTP_ROUTES), pruning.owned),
    GATEWAYS: pruning.gateway,
}

_OF_OWNED = Bounds(pruning.whole_size, pruning.outline, pruning.why_reduced, SMALL_WORKLOAD_BYTES)

BOUNDS = {
    INFERENCE_DEPLOYMENTS: Bounds(pruning.size, pruning.identity, pruning.why_reduced),
    **dict.fromkeys((DEPLOYMENTS, JOBS, SERVICES, DISRUPTION_BUDGETS, PROPOSALS, *OF_ROUTERS, HTTP_ROUTES), _OF_OWNED),
    APPROVALS: Bounds(pruning.whole_size, pruning.outline, pruning.why_reduced),
}

KEPT: dict[ObjectKind, str | None] = {
    **dict.fromkeys((INFERENCE_DEPLOYMENTS, NODES, PODS)),
    **dict.fromkeys((DEPLOYMENTS, JOBS, SERVICES, DISRUPTION_BUDGETS), OWNED_SELECTOR),
}
"""The kinds without which nothing is decided, each with its server-side label selector."""

LISTED_SELDOM = (PRIORITY_CLASSES, LIMIT_RANGES, RESOURCE_QUOTAS, RESOURCE_CLAIMS)
"""The kinds that no watch delivers, in the order in which they are listed."""

DONE_WITHOUT = {
    PRIORITY_CLASSES: "every deployment counts as one without a PriorityClass.",
    LIMIT_RANGES: "pods are placed as if no namespace had one, and the API server may refuse them.",
    RESOURCE_CLAIMS: "GPUs that only ResourceClaims hold count as free.",
}
"""The consequence if a kind may not be read. An older chart does not grant all of them."""

INBOX: dict[ObjectKind, Callable[[Body], Body | None]] = {PROPOSALS: pruning.whole, APPROVALS: pruning.whole}
"""The kinds of proposals and of people's answers."""

WITHOUT_ROUTERS = "spec.routing is not followed, and the Services of such deployments lead to their replicas."

WITHOUT_GATEWAYS = {
    HTTP_ROUTES: "spec.routing.mode Gateway is not followed, and clients of such deployments call their Services.",
    GATEWAYS: "the status cannot say whether a Gateway exists and at which address.",
}

_WITHOUT_INBOX = "proposals are in the status only, and nobody can approve them. Upgrade the chart with its CRDs."

logger = logging.getLogger("plimsoll.shell")


def listed_only(settings: Settings) -> set[ObjectKind]:
    """Return the kinds that watches deliver in part or not at all: nodes from a file, pods of unwatched namespaces."""
    nodes = {NODES} if settings.fleet_file is not None else set()
    return nodes | ({PODS} if settings.watch_namespaces and settings.read_all_pods else set())


def watched(settings: Settings) -> dict[ObjectKind, str | None]:
    """Return the kinds to watch. Nodes are not watched if a fleet file lists them."""
    return {kind: label for kind, label in KEPT.items() if kind is not NODES or settings.fleet_file is None}


def inbox_lists(cluster: Cluster, store: Store, settings: Settings) -> Relist:
    """Return the loop that lists proposals and approvals. An older chart has neither kind."""
    kinds: dict[ObjectKind, str | None] = {PROPOSALS: OWNED_SELECTOR, APPROVALS: None}
    dispensable = dict.fromkeys(kinds, _WITHOUT_INBOX)
    namespaces = settings.watch_namespaces
    pause = max(INBOX_SECONDS, INBOX_SECONDS_PER_NAMESPACE * len(namespaces))
    return Relist(cluster, store, kinds, pause, asyncio.Event(), namespaces, dispensable=dispensable)


def slice_lists(cluster: Cluster, store: Store) -> Relist:
    """Return the loop that lists ResourceSlices, which Kubernetes has since 1.34, and which older roles do not read."""
    dispensable = {RESOURCE_SLICES: "GPUs that only a DRA driver publishes are not named."}
    return Relist(cluster, store, {RESOURCE_SLICES: None}, SLICE_SECONDS, asyncio.Event(), dispensable=dispensable)


def router_lists(cluster: Cluster, store: Store, settings: Settings) -> Relist:
    """Return the loop that lists the kinds that only routers have. They may be missing, or may not be read.

    All InferencePools are listed, because people name pools of their own, too.
    """
    kinds: dict[ObjectKind, str | None] = {**dict.fromkeys(OF_ROUTERS, OWNED_SELECTOR), INFERENCE_POOLS: None}
    dispensable = dict.fromkeys(OF_ROUTERS, WITHOUT_ROUTERS)
    return Relist(
        cluster, store, kinds, ROUTER_SECONDS, asyncio.Event(), settings.watch_namespaces, dispensable=dispensable
    )


def gateway_lists(cluster: Cluster, store: Store, settings: Settings) -> Relist:
    """Return the loop that lists HTTPRoutes and Gateways. Gateways mostly are in a namespace of their admins."""
    return Relist(
        cluster,
        store,
        {HTTP_ROUTES: OWNED_SELECTOR, GATEWAYS: None},
        GATEWAY_SECONDS,
        asyncio.Event(),
        settings.watch_namespaces,
        everywhere={GATEWAYS},
        dispensable=WITHOUT_GATEWAYS,
    )


def new_reader(
    cluster: Cluster, settings: Settings, cache: Path, on_change: Callable[[], None], *, token: str | None = None
) -> DeploymentReader:
    """Return a reader of InferenceDeployments, with the look-ups that it needs.

    Args:
        cluster: where Secrets, claims and classes are read.
        settings: the admin's settings.
        cache: the folder for the hub's answers.
        on_change: called on the event loop when a look-up has another answer.
        token: for the hub, used if the Secret that a spec names may not be read.
    """

    async def read_token(namespace: str, name: str, key: str) -> str:
        try:
            return await read_entry(cluster.get, ObjectKey(namespace, name), key)
        except SecretUnreadable:
            if token is None:
                raise
            return token

    return DeploymentReader(
        settings,
        ModelCache(ModelSources(hub=HubModels(cache)), read_token, on_change),
        load_gpu_types(),
        PodPolicy.from_json(settings.pod_policy or "{}"),
        ClaimCache(cluster.get, on_change),
        ImageCache.asking(settings.image_registries, on_change),
        WeightsWatch(cluster.list, on_change),
    )


@dataclass(slots=True)
class Shell:
    """The process: made before Kopf starts, filled in when its event loop runs.

    Args:
        settings: the admin's settings.
        stop_kopf: asks Kopf to end.
    """

    settings: Settings
    stop_kopf: Callable[[], None] = lambda: None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    beats: Beats = field(default_factory=Beats)
    ending: str = ""
    store: Store | None = None
    planner: Planner | None = None
    elector: Elector | None = None
    relist: Relist | None = None
    node_groups: NodeGroups = field(default_factory=NodeGroups)

    async def start(self) -> None:
        """Answer probes, connect, keep the store up to date, and start to write when this process gets the lease."""
        health = HealthServer(self.settings.health_port, {"/healthz": self.alive, "/readyz": self.ready})
        self.stack.callback(health.close)
        cluster = await self.stack.enter_async_context(Cluster())
        metrics = Metrics()
        metrics.serve(self.settings.metrics_port)
        wake = asyncio.Event()
        self.store = Store(
            {**PRUNERS, **(INBOX if self.settings.approvals else {})},
            wake.set,
            optional={RESOURCE_QUOTAS, RESOURCE_SLICES},
            unwatched={*LISTED_SELDOM, *OF_ROUTERS, *OF_GATEWAYS, RESOURCE_SLICES, *INBOX, *listed_only(self.settings)},
            is_quiet=pruning.is_plain,
            bounds=BOUNDS,
        )
        self.elector = self._elector(cluster)
        cluster.fence = self.elector.fence
        self.relist = self._relist(cluster, self.store)
        key = ObjectKey(self.settings.namespace, self.settings.prices_configmap)
        prices = PriceList(cluster, key, wake.set, load_gpu_types())
        self.node_groups.declared = declared_in(self.settings.node_groups, load_gpu_types())
        live = self._live(wake)
        self._show_process(metrics, self.store, self.elector, live)
        reader = new_reader(cluster, self.settings, self.settings.cache_dir / "hub", wake.set)
        self.planner = self._planner(Executor(cluster, self.store), metrics, wake, reader, prices, live)
        self.stack.push_async_callback(reader.close)
        self.tasks = [
            asyncio.create_task(self._beat()),
            asyncio.create_task(_give_back_memory()),
            asyncio.create_task(self._list_again(self.relist)),
            asyncio.create_task(self._unwatched(cluster, self.store).run()),
            asyncio.create_task(router_lists(cluster, self.store, self.settings).run()),
            asyncio.create_task(gateway_lists(cluster, self.store, self.settings).run()),
            asyncio.create_task(prices.run()),
            asyncio.create_task(self._lead(self.elector, self.planner)),
        ]
        if self.settings.approvals:
            self.tasks.append(asyncio.create_task(inbox_lists(cluster, self.store, self.settings).run()))
        if self.settings.fleet_file is None:
            self.tasks.append(asyncio.create_task(slice_lists(cluster, self.store).run()))
        if self.settings.read_node_pools:
            self.tasks.append(asyncio.create_task(self.node_groups.run(cluster, wake.set)))
        self.listen(live)

    def listen(self, live: LiveSignals) -> None:
        """Read live signals in the background, if there is a source of them."""
        if self.settings.rebalancing_suspended:
            logger.warning("rebalancing is suspended for all deployments: PLIMSOLL_REBALANCING_SUSPENDED is true")
        if live.reader is not None:
            self.tasks.append(asyncio.create_task(live.run(self.settings.signals_seconds)))

    def _elector(self, cluster: Cluster) -> Elector:
        settings = self.settings
        return Elector(
            cluster,
            ObjectKey(settings.namespace, settings.lease_name),
            LeaseCandidate(settings.identity, __version__, settings.digest()),
            waits=settings.standby,
            times=settings.lease_times,
            last_pass=lambda: None if self.planner is None else self.planner.record.succeeded_at,
        )

    def _relist(self, cluster: Cluster, store: Store) -> Relist:
        file = self.settings.fleet_file
        instead: dict[ObjectKind, Source] = {} if file is None else {NODES: lambda: nodes_from(file)}
        return Relist(
            cluster,
            store,
            KEPT,
            min(self.settings.relist_seconds, LISTED_ONLY_SECONDS)
            if listed_only(self.settings)
            else self.settings.relist_seconds,
            self.broken,
            self.settings.watch_namespaces,
            instead,
            everywhere={PODS} if self.settings.read_all_pods else (),
        )

    def _unwatched(self, cluster: Cluster, store: Store) -> Relist:
        """Return the loop that lists what changes seldom, and ResourceClaims, which hold GPUs as pods do.

        A watch would end the process if the right to watch them is missing.
        """
        kinds = dict[ObjectKind, str | None].fromkeys(LISTED_SELDOM)
        return Relist(
            cluster,
            store,
            kinds,
            QUOTA_SECONDS,
            asyncio.Event(),
            self.settings.watch_namespaces,
            everywhere={RESOURCE_CLAIMS} if self.settings.read_all_pods else (),
            dispensable=DONE_WITHOUT,
        )

    def _live(self, wake: asyncio.Event) -> LiveSignals:
        reader = reader_of(self.settings)
        if isinstance(reader, PodScrape):
            self.stack.callback(reader.close)
        live = LiveSignals(reader, wake.set)
        self.stack.callback(live.routers.close)
        return live

    def _planner(
        self,
        executor: Executor,
        metrics: Metrics,
        wake: asyncio.Event,
        reader: DeploymentReader,
        prices: PriceList,
        live: LiveSignals,
    ) -> Planner:
        cluster, store = executor.cluster, executor.store
        faults, news = Faults(metrics.fault), asyncio.Event()
        passes = Passes(
            reader=reader,
            live=live,
            prices=prices,
            metrics=metrics,
            faults=faults,
            noticed=Noticed(contests=executor.contests),
            node_groups=self.node_groups,
            beats=self.beats,
            solver=fleetwide(self.settings.overload),
            inbox=ProposalInbox(self._inbox_is_served) if self.settings.approvals else None,
            time=PlanningTime(planning_time.SECONDS, planning_time.RECORDED_SECONDS, is_hurried=news.is_set),
        )
        writers = Writers(executor, faults, passes.noticed.refusals, metrics, wake, beats=self.beats)
        writers.proposal_writer = ProposalWriter(cluster, store) if self.settings.approvals else None
        return Planner(store, passes, writers, metrics, beats=self.beats, wake=wake, news=news)

    def _inbox_is_served(self) -> bool:
        return self.store is not None and all(map(self.store.was_listed, INBOX))

    def _show_process(self, metrics: Metrics, store: Store, elector: Elector, live: LiveSignals) -> None:
        kinds = {kind.plural: kind for kind in store.kinds}
        metrics.watch_process(
            tuple(kinds),
            age_of=lambda plural: store.list_age_seconds(kinds[plural]) or 0.0,
            silent_of=lambda plural: store.deaf_seconds(kinds[plural]),
            is_leading=lambda: elector.is_leading,
            late_of=live.late_seconds,
        )

    async def _beat(self) -> None:
        while True:
            self.beats.beat(EVENT_LOOP, "going round")
            await asyncio.sleep(_LOOP_BEAT_SECONDS)

    async def _list_again(self, relist: Relist) -> None:
        """List until cancelled. If the API server's data went back in time, the store is useless: end the process."""
        try:
            await relist.run()
        except HistoryLost as lost:
            _end_at_once(f"the API server's data went back in time: {lost}")

    async def _lead(self, elector: Elector, planner: Planner) -> None:
        """Wait for the lease, plan while this process holds it, and end the process when it is lost."""
        try:
            await elector.acquire()
        except LeaseHeld as held:
            self.ending = str(held)
            self.stop_kopf()
            return
        planning, holding = asyncio.create_task(planner.run()), asyncio.create_task(elector.hold())
        try:
            await asyncio.wait({planning, holding}, return_when=asyncio.FIRST_COMPLETED)
            _end_at_once("planning ended" if planning.done() else "the lease is lost")
        finally:
            for task in (planning, holding):
                task.cancel()
            await asyncio.gather(planning, holding, return_exceptions=True)
            await planner.writers.close()
            planner.close()
            await elector.release()

    def began(self, kind: ObjectKind) -> None:
        """A watch of a kind is new or restarted. Its objects are listed again: this list may be newer than our last."""
        if self.store is not None:
            self.store.begin_watch(kind)
            self.broken.set()

    def seen(self, kind: ObjectKind, event: str, body: Body) -> None:
        """Store one watch event."""
        if self.store is None:
            return
        try:
            before = self.store.get(kind, key_of(body))
            self.store.observe(kind, event, body)
            if self.planner is not None and _is_news(self.planner, kind, before, body):
                self.planner.news.set()
        except Exception as error:  # noqa: BLE001 - one object must not end the watch of all
            logger.warning("a watch of %s brought no object: %s %s", kind.plural, type(error).__name__, error)

    async def stop(self) -> None:
        """Stop the loops; the lease is released last. A running write is cancelled; the next start repairs it."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.stack.aclose()
        self.stop_kopf()  # a Kopf thread waits for this flag, and the process waits for that thread

    def alive(self) -> ProbeResult:
        """Liveness: the problems that a restart can solve."""
        problems = self.beats.stalled()
        dead = [task.get_name() for task in self.tasks if task.done() and not task.cancelled()]
        if dead and not self.ending:
            problems.append(f"{len(dead)} background tasks ended")
        if self.planner is not None and self.planner.record.is_hopeless():
            problems.append(f"passes have failed for ten minutes: {self.planner.record.last_error}")
        problems += self._deaf(HOPELESSLY_DEAF_SECONDS)
        return ProbeResult(tuple(problems))

    def ready(self) -> ProbeResult:
        """Readiness: whether this process decides on current data and may write, or is a working standby."""
        store, elector, relist, planner = self.store, self.elector, self.relist, self.planner
        if store is None or elector is None or relist is None or planner is None:
            return ProbeResult(("starting",))
        problems = relist.failing(LIST_TROUBLE_SECONDS)
        if not store.is_complete():
            problems.append("not every kind has been listed yet")
        problems += [*self._deaf(DEAF_SECONDS), *self._old(store)]
        if not planner.record.is_ready():
            problems.append(f"{planner.record.failures} passes in a row failed: {planner.record.last_error}")
        if elector.is_leading:
            return ProbeResult(tuple(problems), ("leading",))
        if elector.trouble:
            problems.append(elector.trouble)
        return ProbeResult(tuple(problems), (f"standby: {elector.holder or 'nobody yet'} holds the lease",))

    def _deaf(self, longest_seconds: float) -> list[str]:
        if self.store is None:
            return []
        ages = {kind.plural: self.store.deaf_seconds(kind) for kind in self.store.kinds}
        return [
            f"the watch of {kind} has been silent about a change for {age:.0f} s"
            for kind, age in ages.items()
            if age > longest_seconds
        ]

    def _old(self, store: Store) -> list[str]:
        """Return a sentence for each kind whose last list is older than two rounds may take."""
        bound = 2 * self.settings.relist_seconds + LIST_TROUBLE_SECONDS
        ages = {kind.plural: store.list_age_seconds(kind) for kind in KEPT}
        return [f"{kind} were listed {age:.0f} s ago" for kind, age in ages.items() if age is not None and age > bound]


def _is_news(planner: Planner, kind: ObjectKind, before: Body | None, body: Body) -> bool:
    """Whether a spec is new or has changed, or a pod of ours has another node or condition, e.g. begins to be ready.

    It is no news if the namespace took much planning time lately.
    """
    if kind not in (INFERENCE_DEPLOYMENTS, PODS) or not planner.passes.time.took_little(key_of(body).namespace):
        return False
    if kind == INFERENCE_DEPLOYMENTS:
        return before is None or before["metadata"].get("generation") != body["metadata"].get("generation")
    is_ours = before is not None and DEPLOYMENT_LABEL in (before["metadata"].get("labels") or {})
    return before is not None and is_ours and _step(before) != _step(body)


def _step(pod: Body) -> tuple[object, ...]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return (pod.get("spec") or {}).get("nodeName"), *((each["type"], each["status"]) for each in conditions)


async def _give_back_memory() -> None:
    while True:
        await asyncio.sleep(FREE_MEMORY_SECONDS)
        give_back_free_memory()


def _end_at_once(reason: str) -> None:
    """End the process without another write; Kubernetes starts a new one."""
    logger.critical("this process ends: %s", reason)
    logging.shutdown()
    os._exit(1)
