"""How does Prometheus find the engines of a process kubelet? In a file of targets, written from the cluster's pods.

The testbed's Prometheus is built without the client of Kubernetes, which is most of its build. What its discovery of
pods would find is written here from the same list of pods: an address for each running engine, and its names.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.api_client import ApiClient
from testbed.background import BackgroundLoop
from testbed.kubelet.addresses import is_served, served_at
from testbed.kwok_config import DEPLOYMENT_LABEL

_ROUND_SECONDS = 0.5
_PORT_NAME = "http"


class ScrapeTargets:
    """A file for Prometheus' ``file_sd_configs`` that follows the engine pods of the cluster.

    Args:
        client: may list pods.
        file: where to write; Prometheus notices each change at once.
    """

    def __init__(self, client: ApiClient, file: Path) -> None:
        self.file = file
        self._client = client
        self._written: list[dict[str, Any]] | None = None
        self._loop = BackgroundLoop("scrape-targets", self.refresh, _ROUND_SECONDS)

    def job(self) -> dict[str, Any]:
        """The scrape configuration that reads the file."""
        return {"job_name": "engine-pods", "file_sd_configs": [{"files": [str(self.file)]}]}

    def refresh(self) -> None:
        """Write the file if the pods have changed. Raises ApiError and OSError."""
        targets = targets_of(self._client.pods(DEPLOYMENT_LABEL))
        if targets != self._written:
            fresh = self.file.with_suffix(".new")
            fresh.write_text(json.dumps(targets, indent=1))
            fresh.rename(self.file)
            self._written = targets

    def __enter__(self) -> Self:
        self.refresh()
        self._loop.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.stop()


def targets_of(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a target for every running pod of a process kubelet, with the labels that a pod monitor gives it."""
    return [_target(pod) for pod in pods if is_served(pod.get("status", {}).get("podIP", "")) and _runs(pod)]


def _runs(pod: dict[str, Any]) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _target(pod: dict[str, Any]) -> dict[str, Any]:
    head = pod["metadata"]
    address = f"{served_at(pod['status']['podIP'])}:{_port(pod)}"
    return {"targets": [address], "labels": {"namespace": head["namespace"], "pod": head["name"]}}


def _port(pod: dict[str, Any]) -> int:
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or []]
    return next(int(port["containerPort"]) for port in ports if port.get("name") == _PORT_NAME)
