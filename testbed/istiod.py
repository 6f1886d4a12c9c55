"""Istio's control plane as a process: a real controller of Gateways, without the proxies that it configures.

It accepts routes, writes the statuses of Gateways, HTTPRoutes and InferencePools, and makes its GatewayClass. Sidecars,
webhooks and certificates are of no use here: no pod runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from testbed.cluster_process import ClusterProcess, is_well
from testbed.control_plane import ControlPlane
from testbed.routing_kinds import install_gateways, install_pools

NAMESPACE, USER = "istio-system", "istiod"
GATEWAY_CLASS, CONTROLLER = "istio", "istio.io/gateway-controller"
ADDRESS = "203.0.113.7"
"""An address of the block for documentation (RFC 5737), which a cloud would give to the Service of a Gateway."""

GATEWAY_LABEL = "gateway.networking.k8s.io/gateway-name"
"""The label of the pods of a Gateway's proxies."""

_MESH = {"enableAutoMtls": False}
"""No pod has a sidecar, so nobody would take Istio's certificates; a proxy without Istio's agent waits for its own."""

_SETTINGS = {
    "POD_NAME": "istiod-0",
    "POD_NAMESPACE": NAMESPACE,
    "ENABLE_CA_SERVER": "false",
    "ENABLE_GATEWAY_API_INFERENCE_EXTENSION": "true",
    "PILOT_ENABLE_METADATA_EXCHANGE": "false",
    "PILOT_ENABLE_ALPN_FILTER": "false",
}


class Istiod(ClusterProcess):
    """``pilot-discovery`` against a control plane, with the custom resources of routing.

    Args:
        control_plane: which cluster. It keeps Istio's objects: give it back to nobody.
        program: the built program.
    """

    def __init__(self, control_plane: ControlPlane, program: Path) -> None:
        super().__init__(control_plane, "istiod")
        self._program = program
        self._ready_port, self.discovery_port = self._reservation.take(), self._reservation.take()
        """``discovery_port``: where proxies ask for their configuration, in plain text."""

    @override
    def install(self) -> None:
        """Bring the custom resources of routing, and the rights that it has in a cluster or more."""
        install_pools(self._control_plane)
        install_gateways(self._control_plane)
        self._control_plane.apply([_DESTINATION_RULES])
        self._install_user(USER, NAMESPACE)

    @override
    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Without the files of a cluster's ConfigMap it takes its own defaults, but for these."""
        mesh = self._directory / "mesh.yaml"
        mesh.write_text(json.dumps(_MESH))
        monitoring, inspection = self._reservation.take(), self._reservation.take()
        addresses = {"http": self._ready_port, "grpc": self.discovery_port, "monitoring": monitoring}
        listening = [f"--{name}Addr=127.0.0.1:{port}" for name, port in addresses.items()]
        kubeconfig = self._control_plane.user_kubeconfig(USER)
        command = [
            *(str(self._program), "discovery", f"--kubeconfig={kubeconfig}", *listening),
            *("--httpsAddr=", "--secureGRPCAddr=", f"--ctrlz_port={inspection}", f"--namespace={NAMESPACE}"),
            f"--meshConfig={mesh}",
        ]
        return command, os.environ | _SETTINGS

    @override
    def _is_ready(self) -> bool:
        return is_well(f"http://127.0.0.1:{self._ready_port}/ready")

    def open(self, namespace: str, name: str, *listeners: dict[str, Any], address: str = ADDRESS) -> None:
        """Make a Gateway in front of a Service of proxies that has this address. Nothing answers there yet."""
        ports = [{"name": each["name"], "port": each["port"]} for each in listeners]
        head = {"name": f"{name}-proxies", "namespace": namespace}
        service, host = f"/api/v1/namespaces/{namespace}/services/{head['name']}", f"{head['name']}.{namespace}.svc"
        self._control_plane.apply(
            [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": head,
                    "spec": {"type": "LoadBalancer", "ports": ports, "selector": {GATEWAY_LABEL: name}},
                },
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {**head, "labels": {"kubernetes.io/service-name": head["name"]}},
                    "addressType": "IPv4",
                    "ports": ports,
                    "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                },
                {
                    "apiVersion": "gateway.networking.k8s.io/v1",
                    "kind": "Gateway",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {
                        "gatewayClassName": GATEWAY_CLASS,
                        "addresses": [{"type": "Hostname", "value": f"{host}.cluster.local"}],
                        "listeners": list(listeners),
                    },
                },
            ]
        )
        status = {"loadBalancer": {"ingress": [{"ip": address}]}}
        self._control_plane.client.merge_patch(f"{service}/status", {"status": status})


_DESTINATION_RULES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "destinationrules.networking.istio.io"},
    "spec": {
        "group": "networking.istio.io",
        "scope": "Namespaced",
        "names": {"plural": "destinationrules", "kind": "DestinationRule", "listKind": "DestinationRuleList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The one kind of Istio's own that a Gateway before a picker may need; its fields are checked by Istio alone."""
