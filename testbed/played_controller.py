"""A played controller of Gateways: it answers for routes as the controller of a Gateway does, and carries no request.

Source of the fields: ``apis/v1/shared_types.go`` (``RouteStatus``) of the Gateway API 1.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.api_client import ApiClient

GATEWAY_API = "/apis/gateway.networking.k8s.io/v1"
CONTROLLER = "gateways.testbed.plimsoll.dev/played"
ADDRESS = "203.0.113.7"
"""An address of the block for documentation (RFC 5737)."""

_NOW = "2026-11-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class PlayedController:
    """The controller of the Gateways of a control plane."""

    client: ApiClient

    def open(self, namespace: str, name: str) -> None:
        """Make a Gateway with one listener that admits routes of all namespaces, and give it an address."""
        listener = {
            "name": "web",
            "port": 80,
            "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}},
        }
        path = f"{GATEWAY_API}/namespaces/{namespace}/gateways"
        gateway = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": name},
            "spec": {"gatewayClassName": "played", "listeners": [listener]},
        }
        self.client.send("POST", path, gateway)
        status = {"status": {"addresses": [{"type": "IPAddress", "value": ADDRESS}]}}
        self.client.merge_patch(f"{path}/{name}/status", status)

    def answer(self, namespace: str, route: str, **conditions: tuple[str, str]) -> None:
        """Answer for each parent of a route: accepted and resolved, but for the conditions given (status, reason)."""
        path = f"{GATEWAY_API}/namespaces/{namespace}/httproutes/{route}"
        found = self.client.get(path)
        said = {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs")} | conditions
        entries: list[dict[str, Any]] = [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": "as played",
                "observedGeneration": found["metadata"]["generation"],
                "lastTransitionTime": _NOW,
            }
            for kind, (status, reason) in said.items()
        ]
        parents = [
            {"parentRef": parent, "controllerName": CONTROLLER, "conditions": entries}
            for parent in found["spec"]["parentRefs"]
        ]
        self.client.merge_patch(f"{path}/status", {"status": {"parents": parents}})
