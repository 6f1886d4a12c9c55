"""A planner with its fakes: one node with an H100, no network, no Prometheus, and an executor that records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICES,
)
from plimsoll.adapters.cluster.kinds import JOBS, LIMIT_RANGES, RESOURCE_CLAIMS, RESOURCE_SLICES
from plimsoll.adapters.hub.hub import HubModels
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.adapters.metrics import Metrics
from plimsoll.app.faults import Faults
from plimsoll.app.live.signal_watch import LiveSignals
from plimsoll.app.lookups.model_cache import ModelCache
from plimsoll.app.plan.passes import Passes
from plimsoll.app.planner import Planner
from plimsoll.app.reading.deployments import DeploymentReader
from plimsoll.app.settings import Settings
from plimsoll.app.watch.contests import Contests
from plimsoll.app.watch.prices import PriceList
from plimsoll.app.watch.store import Store
from plimsoll.app.write.executor import Executor
from plimsoll.app.write.writers import Writers
from testbed.fleet import gpu_node
from tests.support.bodies import Body, inference_deployment_body

KINDS = (
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    DEPLOYMENTS,
    SERVICES,
    DISRUPTION_BUDGETS,
    JOBS,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    PRIORITY_CLASSES,
    RESOURCE_SLICES,
    RESOURCE_CLAIMS,
)


class Recorder:
    """An executor that keeps what it was given."""

    def __init__(self) -> None:
        self.status: Mapping[str, Any] = {}
        self.statuses: dict[str, Mapping[str, Any]] = {}
        self.applied: list[Body] = []
        self.notes: list[str] = []
        self.contests = Contests()
        self.before_status: Callable[[Body], None] = lambda _: None
        self.before_apply: Callable[[Body, Body], None] = lambda *_: None
        self.hold: dict[str, asyncio.Event] = {}

    async def write_status(self, owner: Body, status: Mapping[str, Any]) -> bool:
        self.before_status(owner)
        name = owner["metadata"]["name"]
        same = self.statuses.get(name) == status
        self.status = self.statuses[name] = status
        return not same

    async def check_names(self, _: Body, manifests: Sequence[Body]) -> None:
        assert len({(each["kind"], each["metadata"]["name"]) for each in manifests}) == len(manifests)

    async def apply(self, owner: Body, manifest: Body) -> bool:
        self.before_apply(owner, manifest)
        if owner["metadata"]["name"] in self.hold:
            await self.hold[owner["metadata"]["name"]].wait()
        self.applied.append(manifest)
        return True

    async def tell(self, _: Body, notes: Sequence[Any]) -> None:
        assert all(note.reason for note in notes)
        self.notes += [note.reason for note in notes]

    def ready(self) -> tuple[str, str]:
        """Reason and message of the first condition."""
        first = self.status["conditions"][0]
        return first["reason"], first["message"]

    def reason(self, name: str, kind: str = "Ready") -> str:
        """Reason of one condition of one object; empty where there is none."""
        found = (each["reason"] for each in self.statuses[name]["conditions"] if each["type"] == kind)
        return str(next(found, ""))

    def made(self) -> list[str]:
        """Names of the Deployments that were applied."""
        return [each["metadata"]["name"] for each in self.applied if each["kind"] == "Deployment"]

    def arguments(self) -> list[str]:
        """Arguments of the one engine that was applied."""
        (workload,) = (each for each in self.applied if each["kind"] == "Deployment")
        (engine,) = workload["spec"]["template"]["spec"]["containers"]
        return list(engine["args"])


class Desk:
    """A planner with its fakes: one node with an H100, no network, no Prometheus."""

    def __init__(self, cache: Path) -> None:
        self.recorder = Recorder()
        self.store = Store({kind: lambda body: body for kind in KINDS}, lambda: None)
        self.book = ModelCache(ModelSources(hub=HubModels(cache)), _no_token, lambda: None)
        metrics, self.wake = Metrics(), asyncio.Event()
        self.faults = faults = Faults(metrics.fault)
        passes = Passes(
            reader=DeploymentReader(Settings(), self.book, load_gpu_types()),
            live=LiveSignals(None, lambda: None),
            prices=cast("PriceList", SimpleNamespace(current={})),
            metrics=metrics,
            faults=faults,
        )
        writers = Writers(cast("Executor", self.recorder), faults, passes.noticed.refusals, metrics, self.wake)
        self.passes, self.writers, self.metrics = passes, writers, metrics
        self.planner = Planner(self.store, passes, writers, metrics, wake=self.wake)
        self._version = 1
        self.store.replace(NODES, [_stamped(gpu_node("h100-0", "H100-80GB-HBM3", 1), self._version)])

    async def plan(self, draft: dict[str, Any]) -> None:
        """One pass that asks for the configurations, and the one after they were read."""
        spec = {
            "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
            "contextLength": 8192,
            "concurrency": 16,
            "engine": {"speculation": {"method": "Eagle", "tokens": 3, "draftModel": draft}},
        }
        self.store.replace(INFERENCE_DEPLOYMENTS, [inference_deployment_body(spec=spec)])
        await self.planner.one_pass()
        assert self.recorder.statuses == {}, "a look-up that has only just begun is no word"
        await self.look_up()
        await self.planner.one_pass()

    async def look_up(self) -> None:
        """Wait until the configurations that the last pass asked for are read."""
        tasks = asyncio.all_tasks() - {asyncio.current_task(), *self.writers.running()}
        await asyncio.gather(*tasks)

    def put(self, *names: str, gpus: int = 8, **spec: Any) -> None:
        """These objects, and a node with room for them; without a spec of their own they fit one H100 each."""
        plain = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 6}
        bodies = [inference_deployment_body(name, uid=f"uid-{name}", spec=plain | spec) for name in names]
        self.store.replace(INFERENCE_DEPLOYMENTS, bodies)
        self._version += 1
        self.store.replace(NODES, [_stamped(gpu_node("h100-0", "H100-80GB-HBM3", gpus), self._version)])

    async def settle(self, *names: str, **spec: Any) -> None:
        """Put objects and make the two passes that a first placement takes."""
        self.put(*names, **spec)
        await self.planner.one_pass()
        await self.look_up()
        await self.planner.one_pass()


async def _no_token(*_: str) -> str:
    return "none"


def _stamped(node: Body, version: int) -> Body:
    node["metadata"] |= {"uid": "node-0", "resourceVersion": str(version)}
    return node
