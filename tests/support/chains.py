"""Faults that can be chained: each is a context manager, whatever it does is undone or healed at its end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from testbed.api_client import AT_ONCE, absence_is_fine
from testbed.background import BackgroundLoop
from testbed.broken_node import BrokenNode
from testbed.control_plane import ControlPlane
from testbed.fault_proxy import FaultProxy
from testbed.faults import Cut, CutStream, Delay, Verb, too_many_requests
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from testbed.rejecting_kubelet import RejectingKubelet
from testbed.waiting import wait_until
from tests.support.installed import View, condition
from tests.support.poison import POISONED_SPECS, clear, create
from tests.support.policies import gated

NODES_PER_BENCH, GPUS_PER_NODE = 2, 2


def bench_nodes(objects: int) -> list[dict[str, Any]]:
    """Two nodes for every object and for nobody else, so that where things end does not depend on their order."""
    return [bench_node(bench, node) for bench in range(objects) for node in range(NODES_PER_BENCH)]


def bench_node(bench: int, node: int) -> dict[str, Any]:
    """One of them."""
    return gpu_node(f"bench-{bench}-{node}", "H100-80GB-HBM3", GPUS_PER_NODE, labels={"bench": str(bench)})


def bench_spec(bench: int, **more: Any) -> dict[str, Any]:
    """The spec of an object that can be served on its bench alone."""
    return {
        "replicas": 1 + bench % 2,
        "overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 1},
        "podTemplate": {"nodeSelector": {"bench": str(bench)}},
        **more,
    }


def let_pass(seconds: float) -> None:
    """Let real time pass: the fault lasts that long."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + 30, f"{seconds} s")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where faults are played.

    Attributes:
        operator: the victim, which sees the API server through ``proxy``.
        proxy: the way to the API server.
        poison: the namespace of a tenant that means harm.
        benches: how many benches there are.
        pause_seconds: how long a frozen process stays frozen.
    """

    control_plane: ControlPlane
    operator: OperatorProcess
    proxy: FaultProxy
    poison: View
    benches: int
    pause_seconds: float

    def faults(self, dice: random.Random, view: View) -> dict[str, Callable[[], AbstractContextManager[None]]]:
        """Every fault, by name. Some are of the namespace where the objects are."""
        everything_but_watches = frozenset({Verb.READ, Verb.WRITE})
        seed, bench = dice.randrange(1000), dice.randrange(self.benches)
        return {
            "kill": self._killed,
            "pause": self._paused,
            "cut": lambda: self._watches_cut(seed),
            "429": lambda: self._rule(too_many_requests(1), verbs=everything_but_watches, share=0.5, seed=seed),
            "latency": lambda: self._rule(Delay(0.2)),
            "lost answers": lambda: self._rule(Cut(applied=True), verbs={Verb.WRITE}, share=0.3, seed=seed),
            "partition": self.proxy.partition,
            "node": lambda: self._node_lost(bench),
            "cordon": lambda: self._cordoned(bench),
            "rejection": lambda: self._rejecting(bench),
            "broken node": lambda: self._broken(bench),
            "quota": lambda: self._quota_used_up(view),
            "gate": lambda: gated(view),
            "poison": lambda: self._poisoned(dice),
        }

    @contextmanager
    def _rule(self, fault: Any, **which: Any) -> Iterator[None]:
        with self.proxy.fault(fault, **which):
            yield

    @contextmanager
    def _killed(self) -> Iterator[None]:
        self.operator.kill()
        yield
        self.operator.start()

    @contextmanager
    def _paused(self) -> Iterator[None]:
        self.operator.pause()
        try:
            let_pass(self.pause_seconds)
            yield
        finally:
            self.operator.resume()

    @contextmanager
    def _watches_cut(self, seed: int) -> Iterator[None]:
        self.proxy.cut_streams()
        with self.proxy.fault(CutStream(after_lines=5), verbs={Verb.WATCH}, times=10, seed=seed):
            yield

    @contextmanager
    def _node_lost(self, bench: int) -> Iterator[None]:
        self.control_plane.lose_node(f"bench-{bench}-0")
        yield
        self.control_plane.apply([bench_node(bench, 0)])

    @contextmanager
    def _cordoned(self, bench: int) -> Iterator[None]:
        path = f"/api/v1/nodes/bench-{bench}-0"
        self.control_plane.client.merge_patch(path, {"spec": {"unschedulable": True}})
        yield
        self.control_plane.client.merge_patch(path, {"spec": {"unschedulable": None}})

    @contextmanager
    def _rejecting(self, bench: int) -> Iterator[None]:
        with RejectingKubelet(self.control_plane.client, f"bench-{bench}-0"):
            yield

    @contextmanager
    def _broken(self, bench: int) -> Iterator[None]:
        with BrokenNode(self.control_plane.client, f"bench-{bench}-0") as node:
            yield
        for path in node.crashed:  # whoever mends a node starts its containers anew
            with absence_is_fine():
                self.control_plane.client.send("DELETE", path, AT_ONCE)

    @contextmanager
    def _quota_used_up(self, view: View) -> Iterator[None]:
        """Leave the namespace no more GPUs than its pods have."""
        resource = "requests.nvidia.com/gpu"
        used = sum(pod["status"].get("phase") not in ("Succeeded", "Failed") for pod in view.all("pods"))
        head = {"name": "tight", "namespace": view.namespace}
        spec = {"hard": {resource: str(used)}}
        self.control_plane.apply([{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": head, "spec": spec}])
        yield
        self.control_plane.client.send("DELETE", f"/api/v1/namespaces/{view.namespace}/resourcequotas/tight")

    @contextmanager
    def _poisoned(self, dice: random.Random) -> Iterator[None]:
        for name in dice.sample(sorted(POISONED_SPECS), 5):
            create(self.poison, name, {"gpu": {"deny": ["h100-sxm-80gb"]}, **POISONED_SPECS[name]})
        yield
        clear(self.poison)


def end_state(view: View) -> dict[str, Any]:
    """What came of every object, without anything that depends on time or chance."""
    return {body["metadata"]["name"]: _settled(view, body) for body in view.all("inferencedeployments")}


def _settled(view: View, body: Mapping[str, Any]) -> dict[str, Any]:
    name = str(body["metadata"]["name"])
    pods = view.pods(name)
    words = [pod["spec"]["containers"][0]["args"] for pod in pods]
    return {
        "ready": condition(body, "Ready").get("reason"),
        "current": condition(body, "Ready").get("observedGeneration") == body["metadata"]["generation"],
        "pools": [
            (pool["name"], pool["gpuType"], pool["state"], pool["replicas"], pool["readyReplicas"])
            for pool in (body.get("status") or {}).get("pools") or ()
        ],
        "workloads": [(live["metadata"]["name"], live["spec"]["replicas"]) for live in view.all("deployments", name)],
        "services": [live["metadata"]["name"] for live in view.all("services", name)],
        "contexts": sorted(args[args.index("--max-model-len") + 1] for args in words),
        "benches": sorted({str(pod["spec"].get("nodeName", "")).rpartition("-")[0] for pod in pods}),
    }


@dataclass(slots=True)
class Watchman:
    """Looks again and again whether more is promised, or used, than there is; see :meth:`watching`."""

    view: View
    broken: list[str] = field(default_factory=list)
    rounds: int = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look for the length of a block."""
        loop = BackgroundLoop("watchman", self.look, 0.5)
        loop.start()
        try:
            yield
        finally:
            loop.stop()

    def look(self) -> None:
        """One round."""
        bodies = {str(body["metadata"]["name"]): body for body in self.view.all("inferencedeployments")}
        pods = [pod for pod in self.view.all("pods") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        used = Counter(str(pod["spec"]["nodeName"]) for pod in pods if pod["spec"].get("nodeName"))
        self.broken += [f"{node}: {count} GPUs used" for node, count in used.items() if count > GPUS_PER_NODE]
        for name, body in bodies.items():
            planned = sum(pool["replicas"] for pool in (body.get("status") or {}).get("pools") or ())
            if planned > NODES_PER_BENCH * GPUS_PER_NODE:
                self.broken.append(f"{name}: {planned} GPUs promised")
        staying = Counter(
            str(pod["metadata"]["labels"]["plimsoll.dev/deployment"])
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        )
        for name, count in staying.items():
            wanted = bodies[name]["spec"].get("replicas", 1) if name in bodies else count
            if count > wanted + max(1, wanted):  # one more while a change rolls out, or for each before its node goes
                self.broken.append(f"{name}: {count} pods for {wanted} replicas")
        self.rounds += 1
