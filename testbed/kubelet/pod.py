"""One pod on this machine: a thread that keeps its containers running until it is deleted."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.api_client import ApiClient, ApiError
from testbed.kubelet.addresses import served_at
from testbed.kubelet.container import Container
from testbed.kubelet.images import Image, Place
from testbed.kubelet.pod_status import Conditions, pod_status

_STEP_SECONDS = 0.25
_JOIN_SECONDS = 20.0
_STRATEGIC = "application/strategic-merge-patch+json"
_NOT_FOUND = 404


class Pod:
    """One pod, from its binding to the removal of its object.

    Args:
        body: as the API server gave it.
        address: of the pod, see :mod:`testbed.kubelet.addresses`.
        folder: for its logs; ``kubelet.log`` says what was done with it.
        images: local programs by image.
        client: may patch its status and delete it.
    """

    def __init__(
        self, body: Mapping[str, Any], *, address: str, folder: Path, images: Mapping[str, Image], client: ApiClient
    ) -> None:
        head = body["metadata"]
        self.name = str(head["name"])
        self.folder = folder
        self._path = f"/api/v1/namespaces/{head['namespace']}/pods/{self.name}"
        self._uid = str(head["uid"])
        self._address = address
        self._client = client
        self._began = time.time()
        self._conditions = Conditions()
        self._reported: dict[str, Any] = {}
        self._grace: float | None = None
        self._wake = threading.Event()
        self._killed = threading.Event()
        folder.mkdir(parents=True)
        place = Place(served_at(address), folder, head.get("annotations") or {}, head.get("labels") or {})
        restarts = body["spec"].get("restartPolicy", "Always") == "Always"
        self._containers = [Container(each, place, images, restarts=restarts) for each in body["spec"]["containers"]]
        self._thread = threading.Thread(target=self._live, name=f"kubelet-{self.name}", daemon=True)

    def start(self) -> None:
        """Begin to run it."""
        self._thread.start()

    def terminate(self, grace: float) -> None:
        """End it as its deletion asks, within so many seconds; returns at once, and may be called again."""
        if self._grace is None:
            self._grace = grace
            self._wake.set()

    def kill(self) -> None:
        """End it now: its object is gone, or the kubelet ends."""
        self._killed.set()
        self._kill_containers()
        self._wake.set()

    def join(self) -> None:
        """Wait for its end after :meth:`terminate` or :meth:`kill`."""
        self._thread.join(_JOIN_SECONDS)

    def _live(self) -> None:
        while self._grace is None and not self._killed.is_set():
            for container in self._containers:
                container.step(time.time())
            self._report()
            self._wake.wait(_STEP_SECONDS)
        if self._killed.is_set():
            self._kill_containers()  # again: one may have started meanwhile
        else:
            self._stop_containers(self._grace or 0.0)
            self._remove()

    def _kill_containers(self) -> None:
        for container in self._containers:
            container.kill()

    def _stop_containers(self, grace: float) -> None:
        ends = [threading.Thread(target=each.stop, args=(grace,), daemon=True) for each in self._containers]
        for end in ends:
            end.start()
        for end in ends:
            end.join()

    def _report(self) -> None:
        """Patch the status where it has changed; a failure is made good by the next round."""
        ready = all(each.is_ready for each in self._containers)
        states = {"PodReadyToStartContainers": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
        status = pod_status(
            [each.status() for each in self._containers],
            self._conditions.update(states, time.time()),
            address=self._address,
            began=self._began,
        )
        if status == self._reported:
            return
        try:
            self._client.send("PATCH", f"{self._path}/status", self._own({"status": status}), content_type=_STRATEGIC)
        except (ApiError, OSError):
            return
        self._reported = status

    def _own(self, patch: dict[str, Any]) -> dict[str, Any]:
        """The patch with the pod's uid: a pod of the same name that came later is another one."""
        return {"metadata": {"uid": self._uid}, **patch}

    def _remove(self) -> None:
        """Report the end, then delete the object, which the API server keeps until its kubelet says so."""
        self._report()
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
        while not self._killed.is_set():
            try:
                self._client.send("DELETE", self._path, options)
            except ApiError as error:
                if error.status == _NOT_FOUND:
                    return
            except OSError:
                pass
            else:
                return
            self._killed.wait(1.0)
