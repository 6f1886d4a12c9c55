"""Istio's control plane as a process: a real controller of Gateways, without the proxies that it configures.

It accepts routes, writes the statuses of Gateways, HTTPRoutes and InferencePools, and makes its GatewayClass. Sidecars,
webhooks and certificates are of no use here: no pod runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.api_client import ApiError, http_text
from testbed.control_plane import ControlPlane
from testbed.ports import PortReservation
from testbed.processes import Child
from testbed.routing_kinds import install_gateways, install_pools
from testbed.waiting import NotInTime

NAMESPACE, USER = "istio-system", "istiod"
GATEWAY_CLASS, CONTROLLER = "istio", "istio.io/gateway-controller"
ADDRESS = "203.0.113.7"
"""An address of the block for documentation (RFC 5737), which a cloud would give to the Service of a Gateway."""

_READY_SECONDS = 180.0


class Istiod:
    """``pilot-discovery`` against a control plane, with the custom resources of routing.

    Args:
        control_plane: which cluster. It keeps Istio's objects: give it back to nobody.
        program: the built program.
    """

    def __init__(self, control_plane: ControlPlane, program: Path) -> None:
        self._control_plane = control_plane
        self._reservation = PortReservation()
        self._ready_port, grpc, monitoring, inspection = (self._reservation.take() for _ in range(4))
        directory = control_plane.directory / "istiod"
        directory.mkdir()
        # Without the files of a cluster's ConfigMap it takes its own defaults.
        addresses = {"http": self._ready_port, "grpc": grpc, "monitoring": monitoring}
        listening = [f"--{name}Addr=127.0.0.1:{port}" for name, port in addresses.items()]
        self._child = Child(
            "istiod",
            [
                *(str(program), "discovery", f"--kubeconfig={control_plane.user_kubeconfig(USER)}", *listening),
                *("--httpsAddr=", "--secureGRPCAddr=", f"--ctrlz_port={inspection}", f"--namespace={NAMESPACE}"),
            ],
            log=directory / "istiod.log",
            environment=os.environ
            | {
                "POD_NAME": "istiod-0",
                "POD_NAMESPACE": NAMESPACE,
                "ENABLE_CA_SERVER": "false",
                "ENABLE_GATEWAY_API_INFERENCE_EXTENSION": "true",
            },
            directory=directory,
        )

    def install(self) -> None:
        """Bring the custom resources of routing, and the rights that it has in a cluster or more."""
        plane = self._control_plane
        install_pools(plane)
        install_gateways(plane)
        plane.create_namespace(NAMESPACE)
        plane.apply(
            [
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": USER},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "cluster-admin",
                    },
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
                }
            ]
        )

    def start(self) -> Self:
        """Start it, and wait until it is ready. Raises NotInTime with the end of its log."""
        self._child.start()
        try:
            self._control_plane.wait_until(self._is_ready, _READY_SECONDS, "istiod ready")
        except NotInTime as error:
            raise NotInTime(f"{error}; its log ends with:\n{self._child.tail()}") from error
        return self

    def open(self, namespace: str, name: str, *listeners: dict[str, Any]) -> None:
        """Make a Gateway in front of a Service of proxies that has an address. Nothing answers there."""
        ports = [{"name": each["name"], "port": each["port"]} for each in listeners]
        head = {"name": f"{name}-proxies", "namespace": namespace}
        service, host = f"/api/v1/namespaces/{namespace}/services/{head['name']}", f"{head['name']}.{namespace}.svc"
        self._control_plane.apply(
            [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": head,
                    "spec": {"type": "LoadBalancer", "ports": ports},
                },
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {**head, "labels": {"kubernetes.io/service-name": head["name"]}},
                    "addressType": "IPv4",
                    "ports": ports,
                    "endpoints": [{"addresses": ["10.244.250.1"], "conditions": {"ready": True}}],
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
        status = {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}
        self._control_plane.client.merge_patch(f"{service}/status", {"status": status})

    def stop(self) -> None:
        """End it and give its ports back."""
        self._child.stop()
        self._reservation.release()

    def __enter__(self) -> Self:
        try:
            self.install()
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_ready(self) -> bool:
        if not self._child.is_running:
            raise NotInTime(f"istiod ended with status {self._child.exit_status}")
        try:
            http_text(f"http://127.0.0.1:{self._ready_port}/ready", timeout=2)
        except (ApiError, OSError):
            return False
        return True
