"""Where does a Service send its requests now? To the ready addresses of its EndpointSlices, as a kube-proxy does."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.api_client import ApiClient
from testbed.background import BackgroundLoop

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A ready pod: its name, its address as Kubernetes knows it, and the port."""

    pod: str
    address: str
    port: int


class Endpoints:
    """The ready endpoints of a Service, looked up twice a second.

    Args:
        client: may read EndpointSlices.
        namespace: of the Service.
        service: its name.
    """

    def __init__(self, client: ApiClient, namespace: str, service: str) -> None:
        self._client = client
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._service = service
        self._lock = threading.Lock()
        self._now: tuple[Endpoint, ...] = ()
        self._loop = BackgroundLoop(f"endpoints-{service}", self.refresh, _LOOK_SECONDS)

    def start(self) -> None:
        """Look once, then again and again. Raises ApiError and OSError for the first look."""
        self.refresh()
        self._loop.start()

    def stop(self) -> None:
        """End."""
        self._loop.stop()

    def now(self) -> tuple[Endpoint, ...]:
        """The endpoints of the last look."""
        with self._lock:
            return self._now

    def refresh(self) -> None:
        """Look now. Raises ApiError and OSError."""
        found = self._client.get(self._path, labelSelector=f"kubernetes.io/service-name={self._service}")
        endpoints = tuple(sorted(ready_endpoints(found["items"]), key=lambda each: each.pod))
        with self._lock:
            self._now = endpoints


def ready_endpoints(slices: Sequence[dict[str, Any]]) -> list[Endpoint]:
    """Return the ready endpoints of EndpointSlices with one port each."""
    return [
        Endpoint((each.get("targetRef") or {}).get("name", ""), each["addresses"][0], int(some["ports"][0]["port"]))
        for some in slices
        for each in some.get("endpoints") or []
        if (each.get("conditions") or {}).get("ready") and some.get("ports")
    ]
