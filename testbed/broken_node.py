"""A node on which no new engine starts, e.g. because its GPU is broken: every container there ends with one message."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from testbed.api_client import ApiClient, absence_is_fine
from testbed.background import BackgroundLoop
from testbed.kwok_config import CRASH_ANNOTATION, DEPLOYMENT_LABEL

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
    }
)
"""The end of an engine's log for each cause that is the place's."""


class BrokenNode(BackgroundLoop):
    """Crashes every engine that starts on a node. Use as a context manager.

    Args:
        client: administrator of the control plane.
        node: the node's name.
        cause: one of :data:`LAST_WORDS`.
    """

    def __init__(self, client: ApiClient, node: str, cause: str = "GpuMemoryHeldByOthers") -> None:
        self._client, self._node, self._words = client, node, LAST_WORDS[cause]
        super().__init__(f"testbed-broken-{node}", self.crash_once, _ROUND_SECONDS)
        self.crashed: list[str] = []
        """The paths of the pods that it has crashed, in order."""

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
                self.crashed.append(path)
            elif container.get("lastState") and container.get("restartCount") != _RESTARTS:
                restarted = {**container, "restartCount": _RESTARTS}
                self._client.merge_patch(f"{path}/status", {"status": {"containerStatuses": [restarted]}})
