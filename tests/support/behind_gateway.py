"""A tenant that routes through a Gateway, a neighbour without one, and short questions to both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.played_controller import GATEWAY_API
from tests.support.honest import honest_spec
from tests.support.installed import View, condition

POOLS = "/apis/inference.networking.k8s.io/v1"
LISTED_WITHIN_SECONDS = 180.0
"""Routes are listed each 15 s, and InferencePools each minute."""


@dataclass(frozen=True, slots=True)
class BehindGateway:
    """The two of them. ``neighbours_pods`` are those that served at the beginning."""

    tenant: View
    neighbour: View
    neighbours_pods: list[str]

    def ask(self, **routing: Any) -> None:
        """Apply the tenant's deployment with this routing."""
        self.tenant.apply("chat", **honest_spec(self.tenant.namespace), routing=routing)

    def path(self, kind: str) -> str:
        """Return where its HTTPRoute or InferencePool is."""
        return f"{POOLS if kind == 'inferencepools' else GATEWAY_API}/namespaces/{self.tenant.namespace}/{kind}/chat"

    def routing(self) -> dict[str, Any]:
        """Return its ``status.routing``."""
        return dict((self.tenant.get("chat").get("status") or {}).get("routing") or {})

    def url(self) -> str:
        """Return its ``status.url``."""
        return str((self.tenant.get("chat").get("status") or {}).get("url"))

    def leads_to(self) -> str:
        """Return the label that its Service selects."""
        [label] = self.tenant.read("services", "chat")["spec"]["selector"]
        return str(label)

    def wait_routed(self, state: str) -> None:
        """Wait for a state of its router."""
        self.tenant.wait(lambda: self.routing().get("state") == state, f"routing {state}", LISTED_WITHIN_SECONDS)

    def wait_troubled(self, reason: str) -> str:
        """Wait until it is troubled for this reason; returns the message."""
        body = self.tenant.wait_condition("chat", "Troubled", "True", reason, LISTED_WITHIN_SECONDS)
        return str(condition(body, "Troubled")["message"])

    def check_neighbour(self) -> None:
        """Check that the neighbour serves on by the same pods, and has no part of a router."""
        assert condition(self.neighbour.get("plain"), "Ready")["status"] == "True"
        assert self.neighbour.pod_uids("plain") == self.neighbours_pods
        assert len(self.neighbour.all("deployments")) == 1
