"""A course of passes over an object whose engine changes, and over a neighbour, with the pods that a cluster makes.

A Deployment whose template changes gets a new pod next to the old one, as the Deployment controller does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.planning.pictures import carry_out
from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, PODS
from plimsoll.app.plan.rendered import Desired
from plimsoll.domain.kubernetes_names import ObjectKey
from testbed.fleet import gpu_node
from tests.render.workloads import container
from tests.support.bodies import Body, inference_deployment_body
from tests.support.desk import Desk

NOW = 1_700_000_000.0
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SPEC: dict[str, Any] = {"model": {"name": LLAMA}, "contextLength": 4096, "concurrency": 6}
H100, L40S = "h100-sxm-80gb", "l40s-48gb"


class Course:
    """Passes over two objects. After each pass everything is carried out; new pods serve while ``comes_up`` is true.

    ``commands`` holds the command of every pod that there ever was of the object whose engine changes.
    """

    def __init__(self, desk: Desk, engine: Mapping[str, Any], **spec: Any) -> None:
        self.desk, self.version, self.at, self.comes_up = desk, 5, NOW, True
        self._seen, self.commands = set[str](), dict[str, tuple[str, ...]]()
        usual = inference_deployment_body("usual", uid="uid-usual", spec=SPEC)
        self.desk.store.replace(INFERENCE_DEPLOYMENTS, [self._body(engine, 1, spec), usual])
        self.passes(2)

    @staticmethod
    def _body(engine: Mapping[str, Any], generation: int, spec: Mapping[str, Any]) -> dict[str, Any]:
        body = inference_deployment_body("chat", uid="uid-chat", spec=SPEC | {"engine": engine} | dict(spec))
        return {**body, "metadata": {**body["metadata"], "generation": generation}}

    def with_l40s(self) -> None:
        """There is another node, with GPUs of another type."""
        node = gpu_node("l40s-0", "L40S", 4)
        node["metadata"] |= {"uid": "node-l40s-0", "resourceVersion": str(self.version)}
        self.desk.store.observe(NODES, "ADDED", node)

    def passes(self, number: int) -> None:
        """Make passes, each half a minute after the last one."""
        for _ in range(number):
            self.at += 30.0
            self.desired = self.desk.passes.make(self.desk.store.picture(), {}, self.at).desired
            self.version += 1
            carry_out(self.desk.store, self.desired, self.version)
            self._clean_up()

    def edit(self, engine: Mapping[str, Any], **spec: Any) -> None:
        """The user writes another engine, and what else is given."""
        now = self.desk.store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "chat"))
        assert now is not None
        generation = now["metadata"]["generation"] + 1
        self.version += 1
        body = self._body(engine, generation, spec)
        head = {**body["metadata"], "resourceVersion": str(self.version)}
        written = {**body, "metadata": head, "status": now["status"]}
        self.desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)
        self.passes(2)

    def rewrite_engine(self, **changed: str) -> None:
        """The status says something else of the engine, as an earlier release left it."""
        now = self.desk.store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "chat"))
        assert now is not None
        self.version += 1
        head = {**now["metadata"], "resourceVersion": str(self.version)}
        status = {**now["status"], "engine": {**now["status"]["engine"], **changed}}
        self.desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**now, "metadata": head, "status": status})

    def rewrite_pools(self, **changed: str | None) -> None:
        """Somebody writes something else about the pools into the status. None leaves a field out."""
        now = self.desk.store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "chat"))
        assert now is not None
        pools = [{**each, **changed} for each in now["status"]["pools"]]
        pools = [{name: value for name, value in each.items() if value is not None} for each in pools]
        self._write(INFERENCE_DEPLOYMENTS, {**now, "status": {**now["status"], "pools": pools}})

    def replace_pods(self) -> None:
        """Each Deployment with another template than its pods starts a new pod, and ends an old one if that serves."""
        for workload in self.workloads():
            wanted, old = command_of(container(workload)), self.pods(workload)
            stale = [pod for pod in old if command_of(pod["spec"]["containers"][0]) != wanted]
            if stale:
                self._replace(workload, stale, old)
        self.passes(2)

    def kill(self) -> None:
        """The newest pod stops serving: its engine crashed."""
        pods = self.pods()
        if pods:
            self._write(PODS, _unready(pods[-1]))
        self.passes(2)

    def waits(self) -> None:
        """Two hours pass: whatever should serve by then is late."""
        self.at += 7200.0
        self.passes(2)

    @property
    def generation(self) -> int:
        """The generation of the object whose engine changes."""
        return int(self.of("chat").body["metadata"]["generation"])

    def of(self, name: str) -> Desired:
        """What the last pass decided for an object."""
        return next(each for each in self.desired if each.body["metadata"]["name"] == name)

    def status(self, name: str = "chat") -> dict[str, Any]:
        """The status of an object after the last pass."""
        return dict(self.of(name).new_status or {})

    def workloads(self, name: str = "chat") -> list[Body]:
        """The Deployments of an object."""
        all_of = self.desk.store.all(DEPLOYMENTS)
        return [dict(each) for each in all_of if each["metadata"]["name"].startswith(f"{name}-")]

    def pods(self, workload: Body | None = None) -> list[Body]:
        """The pods of one Deployment, or of the object whose engine changes."""
        start = "chat-" if workload is None else f"{workload['metadata']['name']}-"
        return [dict(each) for each in self.desk.store.all(PODS) if each["metadata"]["name"].startswith(start)]

    def image(self, name: str = "chat") -> str:
        """The engine's image in the only Deployment of an object."""
        (workload,) = self.workloads(name)
        return str(container(workload)["image"])

    def _replace(self, workload: Body, stale: list[Body], old: list[Body]) -> None:
        begun = [pod for pod in old if pod not in stale and not serves(pod)]
        if begun and self.comes_up:
            self._write(PODS, {**begun[0], "status": _SERVES})
        if not begun:
            self._start(workload, old)
        if self.comes_up:
            self.desk.store.observe(PODS, "DELETED", stale[0])

    def _start(self, workload: Body, old: list[Body]) -> None:
        name = f"{workload['metadata']['name']}-{self.version}-0"
        head = {**old[0]["metadata"], "name": name, "uid": f"pod-{name}"}
        engine = {"command": None, **old[0]["spec"]["containers"][0], **_started(workload)}
        engine = {key: value for key, value in engine.items() if value is not None}
        body = {**old[0], "metadata": head, "spec": {**old[0]["spec"], "containers": [engine]}, "status": _SERVES}
        self._write(PODS, body)

    def _clean_up(self) -> None:
        """The garbage collector, and the Deployment controller: what no pool wants ends, and the status is written."""
        self.commands |= {pod["metadata"]["name"]: command_of(pod["spec"]["containers"][0]) for pod in self.pods()}
        decision = self.of("chat").outcome.decision
        kept = {f"chat-{pool.name}" for pool in (() if decision is None else decision.pools)}
        for workload in self.workloads():
            pods = self.pods(workload)
            if workload["metadata"]["name"] not in kept and decision is not None:
                for body in pods:
                    self.desk.store.observe(PODS, "DELETED", body)
                self.desk.store.observe(DEPLOYMENTS, "DELETED", workload)
                continue
            wanted = command_of(container(workload))
            updated = sum(command_of(pod["spec"]["containers"][0]) == wanted for pod in pods)
            counts = {"observedGeneration": 1, "updatedReplicas": updated, "replicas": len(pods)}
            if workload["status"] != counts:
                self._write(DEPLOYMENTS, {**workload, "status": counts})
        for pod in self.pods():
            if pod["metadata"]["name"] not in self._seen:
                self._write(PODS, pod)

    def _write(self, kind: Any, body: Body) -> None:
        self.version += 1
        name = body["metadata"]["name"]
        if kind is PODS and name not in self._seen:
            self._seen.add(name)
            body = body if self.comes_up else _unready(body)
        head = {**body["metadata"], "resourceVersion": str(self.version)}
        self.desk.store.observe(kind, "MODIFIED", {**body, "metadata": head})


_SERVES: Body = {
    "phase": "Running",
    "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:00:00Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "2023-11-14T22:05:00Z"},
    ],
}


def _unready(body: Body) -> Body:
    bound = body["status"]["conditions"][0]
    return {**body, "status": {"phase": "Running", "conditions": [bound, {"type": "Ready", "status": "False"}]}}


def _started(workload: Body) -> Body:
    found = {name: value for name, value in container(workload).items() if name in ("command", "args")}
    return {"command": None} | found


def serves(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is ready."""
    return bool(pod["status"]["conditions"][1]["status"] == "True")


def command_of(engine: Mapping[str, Any]) -> tuple[str, ...]:
    """The command of an engine's container; empty where the image's own entry point runs."""
    return tuple(engine.get("command") or ())
