"""Plimsoll on a control plane: the CRD, exactly the chart's rights, and short questions about what came of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from testbed.api_client import ApiError
from testbed.audit import AuditEvent, AuditLog
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established
from testbed.operator_process import USER, OperatorProcess, install_rbac

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "crds" / "plimsoll.dev_inferencedeployments.yaml"
CRD_NAME = "inferencedeployments.plimsoll.dev"
CHART = ROOT / "charts" / "plimsoll"

GROUP = "/apis/plimsoll.dev/v1alpha1"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
PATIENCE_SECONDS = 120.0
"""Only what hangs takes so long: an idle machine of two cores needs four."""

_COLLECTIONS = {
    "inferencedeployments": GROUP,
    "placementproposals": GROUP,
    "placementapprovals": GROUP,
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "services": "/api/v1",
    "pods": "/api/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "events": "/apis/events.k8s.io/v1",
}

_IN_THE_BACKGROUND = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
"""Objects that belong to a deleted one go after it, as with ``kubectl delete``."""


def install(control_plane: ControlPlane) -> None:
    """Bring the CRD and the operator's rights onto a control plane."""
    install_kind(control_plane)
    install_rbac(control_plane, CHART, values={"hub.readTokenSecrets": "true", "gatewayRouting": "true"})


def add_known_nodes(operator: OperatorProcess, control_plane: ControlPlane, nodes: Iterable[Mapping[str, Any]]) -> None:
    """Add nodes, and wait until the operator has heard of them as well: a deployment goes to those that it knows of.

    An operator that does not run hears of them before it decides anything.
    """
    control_plane.add_nodes(nodes)
    wanted = control_plane.ready_gpus()
    control_plane.wait_until(
        lambda: not operator.is_running or operator.known_gpus() >= wanted,
        PATIENCE_SECONDS,
        "the operator knows the nodes",
    )


def install_kind(control_plane: ControlPlane) -> None:
    """Bring the CRD onto a control plane that may know it already.

    The garbage collector looks for new kinds every 30 s; a controller manager that starts after the CRD knows it.
    """
    if control_plane.client.exists(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}"):
        return
    control_plane.apply([yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader)])
    wait_until_established(control_plane.kubectl, CRD_NAME)
    controllers = control_plane.process("kube-controller-manager")
    controllers.kill()
    controllers.start()


def inference_deployment(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A manifest; without a spec of its own it is the minimal example, which fits an L4 and everything larger.

    None leaves a field of the minimal example out.
    """
    minimal = {"model": {"name": LLAMA_8B}, "contextLength": 4096, "concurrency": 6}
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {name: value for name, value in (minimal | spec).items() if value is not None},
    }


def on_gpu(gpu_type: str, degree: int = 1, **more: Any) -> dict[str, Any]:
    """``overrides`` that leave the planner no choice."""
    return {"overrides": {"gpuType": gpu_type, "tensorParallel": degree, **more}}


def condition(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """One condition of an object, empty where it is absent."""
    listed = (body.get("status") or {}).get("conditions") or []
    return next((dict(entry) for entry in listed if entry["type"] == kind), {})


@dataclass(frozen=True, slots=True)
class View:
    """One namespace of a control plane, seen as its administrator."""

    control_plane: ControlPlane
    namespace: str

    def apply(self, name: str, **spec: Any) -> dict[str, Any]:
        """Apply an InferenceDeployment as a user would, and return the manifest."""
        manifest = inference_deployment(name, self.namespace, **spec)
        self.control_plane.apply([manifest])
        return manifest

    def patch(self, name: str, spec: Mapping[str, Any]) -> None:
        """Merge-patch the spec of an InferenceDeployment."""
        self.control_plane.client.merge_patch(self._path("inferencedeployments", name), {"spec": dict(spec)})

    def patch_object(self, plural: str, name: str, patch: Mapping[str, Any]) -> None:
        """Merge-patch anything else, as somebody with too many rights would."""
        self.control_plane.client.merge_patch(self._path(plural, name), dict(patch))

    def delete(self, plural: str, name: str) -> None:
        """Delete an object and do not wait. Raises ApiError where there is none."""
        self.control_plane.client.send("DELETE", self._path(plural, name), _IN_THE_BACKGROUND)

    def delete_all(self, plural: str) -> None:
        """Delete every object of a kind and do not wait."""
        self.control_plane.client.send("DELETE", self._path(plural, ""), _IN_THE_BACKGROUND)

    def get(self, name: str) -> dict[str, Any]:
        """An InferenceDeployment."""
        return self.read("inferencedeployments", name)

    def read(self, plural: str, name: str) -> dict[str, Any]:
        """One object, empty where there is none."""
        try:
            found: dict[str, Any] = self.control_plane.client.get(self._path(plural, name))
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return found

    def exists(self) -> bool:
        """Whether the namespace is there and not on its way out."""
        path = f"/api/v1/namespaces/{self.namespace}"
        client = self.control_plane.client
        return client.exists(path) and "deletionTimestamp" not in client.get(path)["metadata"]

    def all(self, plural: str, owner: str | None = None) -> list[dict[str, Any]]:
        """Objects of a kind, or only those of one InferenceDeployment."""
        query = {} if owner is None else {"labelSelector": f"plimsoll.dev/deployment={owner}"}
        items: list[dict[str, Any]] = self.control_plane.client.get(self._path(plural, ""), **query)["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    def pods(self, owner: str) -> list[dict[str, Any]]:
        """Pods of one InferenceDeployment that are not on their way out."""
        return [pod for pod in self.all("pods", owner) if "deletionTimestamp" not in pod["metadata"]]

    def pod_uids(self, owner: str) -> list[str]:
        """Which pods those are: a pod of the same name may be another one."""
        return [str(pod["metadata"]["uid"]) for pod in self.pods(owner)]

    def nodes_of(self, owner: str) -> list[str]:
        """Where its bound pods are."""
        return sorted(str(pod["spec"]["nodeName"]) for pod in self.pods(owner) if pod["spec"].get("nodeName"))

    def pools(self, name: str) -> list[dict[str, Any]]:
        """The pools of its status."""
        return list((self.get(name).get("status") or {}).get("pools") or [])

    def workloads(self, owner: str) -> list[str]:
        """Names of its Deployments."""
        return [str(body["metadata"]["name"]) for body in self.all("deployments", owner)]

    def wait(self, question: Callable[[], Any], what: str, timeout: float = PATIENCE_SECONDS) -> Any:
        """Ask until the answer is true."""
        return self.control_plane.wait_until(question, timeout, what)

    def wait_condition(
        self, name: str, kind: str, status: str, reason: str | None = None, timeout: float = PATIENCE_SECONDS
    ) -> dict[str, Any]:
        """Wait for a condition that speaks of the newest spec; returns the object."""

        def reached() -> dict[str, Any]:
            body = self.get(name)
            seen = condition(body, kind)
            is_current = seen.get("observedGeneration") == (body.get("metadata") or {}).get("generation")
            is_right = seen.get("status") == status and reason in (None, seen.get("reason"))
            return body if is_current and is_right else {}

        try:
            answer: dict[str, Any] = self.wait(reached, f"{kind}={status} {reason or ''} of {name}", timeout)
        except AssertionError as error:
            shown = [f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in _conditions(self.get(name))]
            raise AssertionError(f"{error}; it says {shown}") from error
        return answer

    def wait_ready(self, name: str, timeout: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait until everything wanted serves; returns the object."""
        return self.wait_condition(name, "Ready", "True", "Serving", timeout)

    def _path(self, plural: str, name: str) -> str:
        collection = f"{_COLLECTIONS[plural]}/namespaces/{self.namespace}/{plural}"
        return f"{collection}/{name}" if name else collection


def _conditions(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list((body.get("status") or {}).get("conditions") or [])


def operator_writes(control_plane: ControlPlane, since: int = 0, namespace: str | None = None) -> list[AuditEvent]:
    """Everything the operator has written since an offset of the audit log, refusals included.

    Renewals of its lease are left out: they say that it is there, not that it did something.
    """
    events = AuditLog(control_plane.audit_log).events(since, user=USER)
    return [event for event in events if namespace in (None, event.namespace) and event.resource != "leases"]


def secret_reads(control_plane: ControlPlane) -> int:
    """How many single Secrets anybody has read so far, by the API server's own count."""
    page = control_plane.kubectl("get", "--raw", "/metrics")
    counts = re.findall(
        r'^apiserver_request_total\{[^}]*resource="secrets"[^}]*verb="GET"[^}]*\} (\d+)', page, re.MULTILINE
    )
    return sum(int(count) for count in counts)


@contextmanager
def namespace_of(control_plane: ControlPlane, name: str) -> Iterator[View]:
    """A namespace for one test; at the end it has gone so far that it holds no GPU any more."""
    view = View(control_plane, control_plane.create_namespace(name))
    try:
        yield view
    finally:
        _empty(view)


def _empty(view: View) -> None:
    if view.exists():
        for plural in ("inferencedeployments", "pods"):
            view.delete_all(plural)
        is_empty = partial(_holds_nothing, view)
        view.wait(is_empty, f"no pods left in {view.namespace}")
        view.control_plane.client.send("DELETE", f"/api/v1/namespaces/{view.namespace}")


def _holds_nothing(view: View) -> bool:
    return not view.all("inferencedeployments") and not view.all("pods")
