"""A node on which no new engine starts, e.g. because its GPU is broken: every container there ends with one message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from testbed.api_client import ApiClient, absence_is_fine
from testbed.background import BackgroundLoop
from testbed.kwok_config import CRASH_ANNOTATION, DEPLOYMENT_LABEL
from testbed.waiting import wait_until

_ROUND_SECONDS = 0.2
_RESTARTS = 3
"""Restarts that a crashed container shows at once. A real one takes minutes to get there."""

LAST_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "GpuMemoryHeldByOthers": "ValueError: Free memory on device cuda:0 (3.1/22.03 GiB) on startup is less than "
        "desired GPU memory utilization (0.92, 20.27 GiB).",
        "DriverTooOld": "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
        "GpuUnusable": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "GpuNotSupported": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "ImageForOtherPlatform": "exec /usr/bin/python3: exec format error",
        "GpuNotInContainer": "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an "
        "NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
    }
)
"""The end of an engine's log for each cause that is the place's."""

LAST_WORDS_ANYWHERE: Mapping[str, str] = MappingProxyType(
    {
        "ModelNotAvailable": "OSError: You are trying to access a gated repo. Make sure to have access to it at "
        "https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct. 401 Client Error.",
        "DiskFull": "OSError: [Errno 28] No space left on device",
        "FileNotWritable": "PermissionError: [Errno 13] Permission denied: '/models/.locks'",
    }
)
"""The same for causes that another place does not mend."""

_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = {
    "mutatingadmissionpolicies": "MutatingAdmissionPolicy",
    "mutatingadmissionpolicybindings": "MutatingAdmissionPolicyBinding",
}
_PATIENCE_SECONDS = 60.0


class BrokenNode(BackgroundLoop):
    """Crashes every engine that starts on a node. Use as a context manager.

    A policy of the API server marks a pod in the moment in which it is bound to the node, so that none becomes ready
    there on a busy machine. Whatever was bound before and does not serve yet is marked by a loop.

    Args:
        client: administrator of the control plane.
        node: the node's name.
        cause: one of :data:`LAST_WORDS` or :data:`LAST_WORDS_ANYWHERE`.
    """

    def __init__(self, client: ApiClient, node: str, cause: str = "GpuMemoryHeldByOthers") -> None:
        self._client, self._node, self._words = client, node, {**LAST_WORDS, **LAST_WORDS_ANYWHERE}[cause]
        self._name = f"broken-{node}"
        super().__init__(f"testbed-{self._name}", self.crash_once, _ROUND_SECONDS)
        self.crashed: list[str] = []
        """The paths of the pods that it has crashed, in order."""

    def __enter__(self) -> Self:
        for plural, spec in zip(_KINDS, (self._marks(), {"policyName": self._name}), strict=True):
            body = {"apiVersion": _POLICIES[6:], "kind": _KINDS[plural], "metadata": {"name": self._name}, "spec": spec}
            self._client.send("POST", f"{_POLICIES}/{plural}", body)
        wait_until(self._is_in_force, _PATIENCE_SECONDS, "the policy that breaks the node in force")
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for plural in reversed(_KINDS):
            with absence_is_fine():
                self._client.send("DELETE", f"{_POLICIES}/{plural}/{self._name}")
        wait_until(lambda: not self._is_in_force(), _PATIENCE_SECONDS, "the policy that breaks the node gone")
        super().__exit__(kind, error, trace)

    def _marks(self) -> dict[str, Any]:
        """A policy that adds the annotation to bindings to the node, which the API server copies to the pod."""
        marked = f"{{{json.dumps(CRASH_ANNOTATION)}: {json.dumps(self._words)}}}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        # A pod of a ReplicaSet has no name yet.
        probe = f"has(object.metadata.name) && object.metadata.name == {self._name!r}"
        meant = f"has(object.target) ? object.target.name == {self._node!r} : {probe}"
        expression = f"Object{{metadata: Object.metadata{{annotations: {marked}}}}}"
        return {
            "matchConstraints": {"resourceRules": [rule | {"resources": ["pods", "pods/binding"]}]},
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConditions": [{"name": "bound-here", "expression": meant}],
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        }

    def _is_in_force(self) -> bool:
        """Whether a pod of the policy's name would be marked. No such pod is made."""
        container = {"name": "tried", "image": "registry.example/tried"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self._name}, "spec": {"containers": [container]}}
        made = self._client.send("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
        return CRASH_ANNOTATION in (made["metadata"].get("annotations") or {})

    def crash_once(self) -> None:
        """Crash every engine on the node that does not serve yet."""
        for pod in self._client.cached_pods(DEPLOYMENT_LABEL):
            if pod["spec"].get("nodeName") == self._node and "deletionTimestamp" not in pod["metadata"]:
                self._crash(pod["metadata"], pod["status"])

    def _crash(self, head: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        path = f"/api/v1/namespaces/{head['namespace']}/pods/{head['name']}"
        container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or ()), {})
        with absence_is_fine():
            if CRASH_ANNOTATION not in (head.get("annotations") or {}):
                if container.get("ready"):
                    return
                self._client.merge_patch(path, {"metadata": {"annotations": {CRASH_ANNOTATION: self._words}}})
            elif container.get("lastState") and container.get("restartCount") != _RESTARTS:
                restarted = {**container, "restartCount": _RESTARTS}
                self._client.merge_patch(f"{path}/status", {"status": {"containerStatuses": [restarted]}})
            if path not in self.crashed:
                self.crashed.append(path)
