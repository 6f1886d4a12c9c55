"""The process kubelet: it owns a few nodes and runs every pod that the scheduler binds to them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.api_client import ApiClient
from testbed.background import BackgroundLoop
from testbed.control_plane import ControlPlane
from testbed.kubelet.addresses import Net, PodAddresses
from testbed.kubelet.images import Image
from testbed.kubelet.node import LEASE_SECONDS, not_played, renew_lease, say_ready
from testbed.kubelet.pod import Pod

_LOOK_SECONDS = 0.25
_HEARTBEAT_SECONDS = LEASE_SECONDS / 4


class Kubelet:
    """A kubelet for some nodes, in threads of this process; several pods run at a time.

    Args:
        control_plane: whose pods it runs.
        nodes: manifests of :func:`testbed.fleet.gpu_node`; they are made when it starts.
        images: local programs by the image's name without a tag.
        net: where the pods have their addresses.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        nodes: Sequence[dict[str, Any]],
        images: Mapping[str, Image],
        *,
        net: Net = Net.MAPPED,
    ) -> None:
        self.folder: Path = control_plane.directory / "pods"
        """A folder for each pod, with a log for each container."""
        self._control_plane = control_plane
        self._client: ApiClient = control_plane.client
        self._manifests = [not_played(node) for node in nodes]
        self._nodes = [str(node["metadata"]["name"]) for node in nodes]
        self._images = images
        self._addresses = PodAddresses(net)
        self._pods: dict[str, Pod] = {}
        self._loop = BackgroundLoop("kubelet", self._look, _LOOK_SECONDS)
        self._heart = BackgroundLoop("kubelet-heart", self._beat, _HEARTBEAT_SECONDS)

    def start(self) -> Self:
        """Make the nodes, report them as ready, and begin to run pods.

        Raises CommandFailed, ApiError and OSError, and NoAddresses where this process may not take a network.
        """
        self._addresses.open()
        self._control_plane.apply(self._manifests)
        for name in self._nodes:
            say_ready(self._client, name, self._addresses.node)
        self._heart.start()
        self._loop.start()
        return self

    def stop(self) -> None:
        """Kill every process; the nodes stay, and nobody renews their leases."""
        self._loop.stop()
        self._heart.stop()
        for pod in self._pods.values():
            pod.kill()
        for pod in self._pods.values():
            pod.join()
        self._addresses.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """The address of its nodes."""
        return self._addresses.node

    @property
    def last_failure(self) -> Exception | None:
        """The last round that failed, e.g. because the API server was away."""
        return self._loop.last_failure

    def logs(self, characters: int = 2000) -> str:
        """The end of every log of every pod, for error messages."""
        files = sorted(self.folder.glob("*/*.log"))
        return "\n".join(f"== {file}\n{file.read_text(errors='replace')[-characters:]}" for file in files)

    def _beat(self) -> None:
        for name in self._nodes:
            renew_lease(self._client, name)

    def _look(self) -> None:
        """Compare the pods of the nodes with those that run here."""
        found = {pod["metadata"]["uid"]: pod for name in self._nodes for pod in self._bound(name)}
        for uid, body in found.items():
            if uid not in self._pods:
                self._run(uid, body)
            if "deletionTimestamp" in body["metadata"]:
                self._pods[uid].terminate(float(body["metadata"].get("deletionGracePeriodSeconds", 0)))
        for uid in self._pods.keys() - found.keys():
            self._pods.pop(uid).kill()

    def _bound(self, node: str) -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = self._client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
        return pods

    def _run(self, uid: str, body: Mapping[str, Any]) -> None:
        head = body["metadata"]
        folder = self.folder / f"{head['namespace']}_{head['name']}_{int(time.time())}"
        pod = Pod(body, address=self._addresses.take(), folder=folder, images=self._images, client=self._client)
        self._pods[uid] = pod
        pod.start()
