"""Kopf, and nothing but Kopf: watches feed the store, background tasks run beside it, probes look at the heartbeat.

Only low-level event handlers are used: they put no annotation and no finalizer on anybody's objects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import kopf

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    SERVICES,
    Cluster,
    Kind,
)
from plimsoll.adapters.hub import HubModels
from plimsoll.adapters.metrics import Metrics
from plimsoll.adapters.models import ModelSources
from plimsoll.adapters.prometheus import PrometheusSignals
from plimsoll.app import pruning
from plimsoll.app.executor import Executor
from plimsoll.app.live import LiveSignals
from plimsoll.app.model_book import ModelBook
from plimsoll.app.planner import Planner
from plimsoll.app.prices import PriceList
from plimsoll.app.relist import relist_forever
from plimsoll.app.settings import Settings
from plimsoll.app.store import Body, Store
from plimsoll.domain.keys import ObjectKey
from plimsoll.render.names import FIELD_MANAGER, MANAGED_BY

HEARTBEAT_LIMIT_SECONDS = 60.0
"""A planner that has not come round for this long hangs: the probe fails and the pod is restarted."""

OWNED_SELECTOR = f"{MANAGED_BY}={FIELD_MANAGER}"

WATCHED: dict[Kind, str | None] = {
    INFERENCE_DEPLOYMENTS: None,
    NODES: None,
    PODS: None,
    DEPLOYMENTS: OWNED_SELECTOR,
    SERVICES: OWNED_SELECTOR,
    DISRUPTION_BUDGETS: OWNED_SELECTOR,
}
"""Kinds we watch, with the server-side label selector."""

logger = logging.getLogger("plimsoll.operator")


@dataclass(slots=True)
class Shell:
    """The process: made before Kopf starts, filled in when its event loop runs."""

    settings: Settings
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    store: Store | None = None
    planner: Planner | None = None

    async def start(self) -> None:
        """Connect, take the first complete picture, and start the loops."""
        cluster = await self.stack.enter_async_context(Cluster())
        wake = asyncio.Event()
        self.store = Store(_PRUNERS, wake.set)
        metrics = Metrics()
        metrics.serve(self.settings.metrics_port)
        models = ModelBook(
            ModelSources(hub=HubModels(self.settings.cache_dir / "hub")), _token_reader(cluster), wake.set
        )
        url = self.settings.prometheus_url
        live = LiveSignals(PrometheusSignals(url) if url else None, wake.set)
        gpu_types = load_gpu_types()
        prices = PriceList(
            cluster,
            ObjectKey(self.settings.namespace, self.settings.prices_configmap),
            wake.set,
            frozenset(gpu.name for gpu in gpu_types),
        )
        self.planner = Planner(
            settings=self.settings,
            store=self.store,
            executor=Executor(cluster, self.store),
            models=models,
            live=live,
            prices=prices,
            gpu_types=gpu_types,
            metrics=metrics,
            wake=wake,
        )
        self.stack.push_async_callback(models.close)
        self.tasks = [
            asyncio.create_task(
                relist_forever(cluster, self.store, WATCHED, self.settings.relist_seconds, self.broken)
            ),
            asyncio.create_task(prices.run()),
            asyncio.create_task(self.planner.run()),
        ]
        if url:
            self.tasks.append(asyncio.create_task(live.run(self.settings.signals_seconds)))

    def seen(self, kind: Kind, event: str | None, body: Body) -> None:
        """Take in one watch event. One without a type is of a watch's first list: the watch is new or starts over."""
        if self.store is not None:
            self.store.observe(kind, event, body)
            if event is None and self.store.is_complete():
                self.broken.set()

    async def stop(self) -> None:
        """End the loops; a write in flight is abandoned and repaired by the next start."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.stack.aclose()

    def check_alive(self) -> dict[str, float]:
        """Raise where a restart would help; answer with ages where all is well."""
        if self.planner is None or self.store is None:
            return {}
        dead = [task for task in self.tasks if task.done() and not task.cancelled()]
        silent = time.monotonic() - self.planner.heartbeat
        if dead or silent > HEARTBEAT_LIMIT_SECONDS:
            raise kopf.PermanentError(f"planner silent for {silent:.0f} s, {len(dead)} background tasks ended")
        return {"planner_silent_seconds": round(silent, 1)}


_PRUNERS = {
    INFERENCE_DEPLOYMENTS: pruning.inference_deployment,
    NODES: pruning.node,
    PODS: pruning.pod,
    DEPLOYMENTS: pruning.whole,
    SERVICES: pruning.whole,
    DISRUPTION_BUDGETS: pruning.whole,
}


def _token_reader(cluster: Cluster) -> Any:
    async def read(namespace: str, name: str, key: str) -> str | None:
        return await cluster.read_secret(ObjectKey(namespace, name), key)

    return read


def build_registry(shell: Shell) -> kopf.OperatorRegistry:
    """All handlers of the process."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: object) -> None:
        configure(settings)
        await shell.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: object) -> None:
        await shell.stop()

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.probe(registry=registry, id="planner")
    def alive(**_: object) -> dict[str, float]:
        return shell.check_alive()

    for kind in WATCHED:
        _watch(registry, shell, kind)
    return registry


def _watch(registry: kopf.OperatorRegistry, shell: Shell, kind: Kind) -> None:
    """One handler per kind: into the store, nothing else."""

    @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"watch-{kind.plural}")
    async def seen(event: kopf.RawEvent, **_: object) -> None:
        shell.seen(kind, event["type"], event["object"])


def configure(settings: kopf.OperatorSettings) -> None:
    """Kopf's knobs. Watch failures end the process after about a minute; Kubernetes restarts it, a start is cheap."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = (0.5, 1, 2, 4, 8, 15, 15, 15)
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.inactivity_timeout = 70
    settings.watching.reconnect_backoff = 1.0
    settings.watching.chunk_size = 500
    settings.queueing.idle_timeout = 1.0
    settings.process.ultimate_exiting_timeout = 20
    for kind, selector in WATCHED.items():
        if selector is not None:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = selector


def run(settings: Settings) -> None:
    """Run the operator until it is told to stop."""
    kopf.configure(verbose=settings.log_level == "DEBUG", quiet=settings.log_level in ("WARNING", "ERROR"))
    if settings.log_level != "DEBUG":
        for chatty in ("kopf.objects", "aiohttp.access"):  # a line per watch event and per probe
            logging.getLogger(chatty).setLevel(logging.WARNING)
    shell = Shell(settings)
    kopf.run(
        registry=build_registry(shell),
        settings=kopf.OperatorSettings(),
        clusterwide=True,
        standalone=True,
        liveness_endpoint=f"http://0.0.0.0:{settings.health_port}/healthz",
    )
