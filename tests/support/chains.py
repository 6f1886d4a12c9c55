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
from testbed.faults import Cut, CutStream, Delay, Hang, Verb, failure, too_many_requests
from testbed.fleet import gpu_node
from testbed.operator_process import SERVICE_ACCOUNT, OperatorProcess
from testbed.rejecting_kubelet import RejectingKubelet
from testbed.waiting import wait_until
from tests.support.installed import View, condition
from tests.support.poison import POISONED_SPECS, clear, create
from tests.support.policies import gated
from tests.support.volumes import MANY, ONCE, ZONE, OwnVolume, without_rights

RBAC = "/apis/rbac.authorization.k8s.io/v1"

NODES_PER_BENCH, GPUS_PER_NODE = 2, 2
ZONES = ("zone-a", "zone-b")
"""The zone of each node of a bench."""

KINDS_OF_VOLUMES = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")

_VOLUMES = {0: (ONCE, 1, False), 2: (MANY, 0, False), 5: (MANY, 1, True)}
"""Benches with a volume, modulo 6: its access mode, its node, and whether it waits for the first pod."""


def bench_nodes(objects: int) -> list[dict[str, Any]]:
    """Two nodes for every object and for nobody else, so that where things end does not depend on their order."""
    return [bench_node(bench, node) for bench in range(objects) for node in range(NODES_PER_BENCH)]


def bench_node(bench: int, node: int) -> dict[str, Any]:
    """One of them. Where a bench has a volume, its other node is cheaper: only the volume keeps pods off it."""
    cheaper = bench % 6 in _VOLUMES and _VOLUMES[bench % 6][1] != node
    product = "A100-SXM4-80GB" if cheaper else "H100-80GB-HBM3"
    labels = {"bench": str(bench)}
    return gpu_node(f"bench-{bench}-{node}", product, GPUS_PER_NODE, zone=ZONES[node], labels=labels)


def bench_spec(bench: int, **more: Any) -> dict[str, Any]:
    """The spec of an object that can be served on its bench alone; its GPU type follows from its volume, if any."""
    template: dict[str, Any] = {"nodeSelector": {"bench": str(bench)}}
    load: dict[str, Any] = {"overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 1}}
    if bench % 6 in _VOLUMES:
        load = {"gpu": {"allow": ["h100-sxm-80gb", "a100-sxm-80gb"]}}
        template["modelCache"] = {"claimName": claim_of(bench)}
    return {"replicas": 1 + bench % 2, **load, "podTemplate": template, **more}


def claim_of(bench: int) -> str:
    """The name of its claim."""
    return f"weights-{bench}"


def volumes_of(view: View, benches: int) -> dict[int, OwnVolume]:
    """The volumes of a namespace, by bench; none of them is made yet."""
    kinds = ((bench, _VOLUMES[bench % 6]) for bench in range(benches) if bench % 6 in _VOLUMES)
    return {bench: OwnVolume(view, claim_of(bench), ZONES[node], mode, waits) for bench, (mode, node, waits) in kinds}


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
            **self._of_volumes(dice, view),
        }

    def _of_volumes(self, dice: random.Random, view: View) -> dict[str, Callable[[], AbstractContextManager[None]]]:
        """Faults of one volume, of its class, of its zone, and of all that the operator asks about volumes."""
        every = volumes_of(view, self.benches)
        bench, late = dice.choice(sorted(every)), dice.choice([each for each in every.values() if each.waits])
        own = every[bench]
        asked = "|".join(KINDS_OF_VOLUMES)
        return {
            "volume gone": lambda: self._volume_gone(own),
            "volume moved": lambda: self._volume_moved(own),
            "volume's class": lambda: self._class_gone(late),
            "volume's pods": lambda: self._pods_replaced(own),
            "volume's zone": lambda: self._zone_full(bench, own.zone),
            "volumes forbidden": self._volumes_forbidden,
            "volumes failing": lambda: self._rule(failure(500, "etcdserver: request timed out"), path=asked),
            "volumes hanging": lambda: self._rule(Hang(), path=asked),
            "volumes slow": lambda: self._rule(Delay(4.0), path=asked),
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
    def _volume_gone(self, own: OwnVolume) -> Iterator[None]:
        own.remove()
        yield
        own.remove()
        own.make()

    @contextmanager
    def _volume_moved(self, own: OwnVolume) -> Iterator[None]:
        """Let it be made again in the zone of the other node, e.g. from a snapshot, and later where it was."""
        own.remove()
        own.make(next(zone for zone in ZONES if zone != own.zone))
        yield
        own.remove()
        own.make()

    @contextmanager
    def _class_gone(self, own: OwnVolume) -> Iterator[None]:
        """Make the claim anew while its class is away."""
        own.remove()
        own.make()
        own.remove_class()
        yield
        own.make_class()

    @contextmanager
    def _pods_replaced(self, own: OwnVolume) -> Iterator[None]:
        own.replace_pods()
        yield
        own.replace_pods()

    @contextmanager
    def _zone_full(self, bench: int, zone: str) -> Iterator[None]:
        """Let pods of others take what is free, and what becomes free, on the only node that can mount a volume."""
        where = {"bench": str(bench), ZONE: zone}
        pods = [_hog(f"hog-{bench}-{number}", self.poison.namespace, where) for number in range(GPUS_PER_NODE)]
        self.control_plane.apply(pods)
        yield
        for pod in pods:
            path = f"/api/v1/namespaces/{self.poison.namespace}/pods/{pod['metadata']['name']}"
            with absence_is_fine():
                self.control_plane.client.send("DELETE", path, AT_ONCE)

    @contextmanager
    def _volumes_forbidden(self) -> Iterator[None]:
        """Take the operator's rights to read about volumes away."""
        roles = self.control_plane.client.get(f"{RBAC}/clusterroles")["items"]
        mine = [role for role in roles if role["metadata"]["name"].startswith(SERVICE_ACCOUNT)]
        lessened = [
            (f"{RBAC}/clusterroles/{role['metadata']['name']}", role["rules"], rules)
            for role in mine
            if (rules := without_rights(role["rules"], KINDS_OF_VOLUMES)) != role["rules"]
        ]
        assert lessened
        for path, _, rules in lessened:
            self.control_plane.client.merge_patch(path, {"rules": rules})
        yield
        for path, rules, _ in lessened:
            self.control_plane.client.merge_patch(path, {"rules": rules})

    @contextmanager
    def _poisoned(self, dice: random.Random) -> Iterator[None]:
        for name in dice.sample(sorted(POISONED_SPECS), 5):
            create(self.poison, name, {"gpu": {"deny": ["h100-sxm-80gb"]}, **POISONED_SPECS[name]})
        yield
        clear(self.poison)


def _hog(name: str, namespace: str, where: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    head = {"name": name, "namespace": namespace}
    spec = {"containers": [container], "nodeSelector": dict(where), "tolerations": tolerations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": spec}


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
