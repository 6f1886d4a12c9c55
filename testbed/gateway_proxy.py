"""The proxy of a Gateway: a plain Envoy that gets its listeners, routes and endpoints from Istio.

Istio's own proxy is this Envoy with filters of Istio's. :mod:`testbed.istiod` leaves those out. The node's name and
labels are those of a pod of the Gateway; source: ``pkg/bootstrap`` and ``pilot/pkg/model/context.go`` of Istio.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from testbed.cache import cache_directory
from testbed.cluster_process import ClusterProcess, is_well
from testbed.control_plane import ControlPlane
from testbed.go_toolchain import ensure_envoy
from testbed.istiod import GATEWAY_LABEL, Istiod

_ISTIO_VERSION = "1.31.0"


class GatewayProxy(ClusterProcess):
    """A Gateway with one listener for HTTP, and the Envoy that answers there.

    Args:
        control_plane: which cluster.
        istiod: runs on it.
        namespace: of the Gateway.
        name: its name.
        address: of this machine. The listener's port is free on all of its addresses.
    """

    def __init__(self, control_plane: ControlPlane, istiod: Istiod, namespace: str, name: str, address: str) -> None:
        super().__init__(control_plane, f"proxy-{name}")
        self._istiod, self._namespace, self._gateway = istiod, namespace, name
        self._port, self._admin_port = self._reservation.take(), self._reservation.take()
        self._address = address
        self.url = f"http://{address}:{self._port}"
        """Where clients ask."""

    @override
    def install(self) -> None:
        """Make the Gateway."""
        admitting = {"namespaces": {"from": "All"}}
        listener = {"name": "web", "port": self._port, "protocol": "HTTP", "allowedRoutes": admitting}
        self._istiod.open(self._namespace, self._gateway, listener, address=self._address)

    def statistic(self, name: str) -> int:
        """Return one of Envoy's counters or gauges; 0 where it has none of that name."""
        lines = self.page(f"stats?filter=^{name}$").splitlines()
        return int(lines[0].rpartition(" ")[2]) if lines else 0

    def page(self, path: str) -> str:
        """Return a page of Envoy's administration. Raises OSError."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._admin_port}/{path}", timeout=20) as response:
            return str(response.read().decode())

    @override
    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        envoy = ensure_envoy(cache_directory(), print)
        config = json.dumps(self._bootstrap())
        options = ["--log-level", "info", "--disable-hot-restart", "--concurrency", "2"]
        return [str(envoy), "--config-yaml", config, *options], os.environ

    @override
    def _is_ready(self) -> bool:
        return (
            is_well(f"http://127.0.0.1:{self._admin_port}/ready")
            and self.statistic("listener_manager.total_listeners_active") > 0
        )

    def _bootstrap(self) -> dict[str, Any]:
        domain = f"{self._namespace}.svc.cluster.local"
        labels = {GATEWAY_LABEL: self._gateway}
        stream = {
            "api_type": "GRPC",
            "transport_api_version": "V3",
            "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
        }
        own = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
        return {
            "node": {
                "id": f"router~{self._address}~{self._gateway}.{self._namespace}~{domain}",
                "cluster": f"{self._gateway}.{self._namespace}",
                "metadata": {
                    "CLUSTER_ID": "Kubernetes",
                    "NAMESPACE": self._namespace,
                    "ISTIO_VERSION": _ISTIO_VERSION,
                    "LABELS": labels,
                    "INSTANCE_IPS": self._address,
                },
            },
            "admin": {"address": _address("127.0.0.1", self._admin_port)},
            "dynamic_resources": {"ads_config": stream, "cds_config": own, "lds_config": own},
            "static_resources": {"clusters": [_discovery(self._istiod.discovery_port)]},
        }


def _discovery(port: int) -> dict[str, Any]:
    options = {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    there = {"endpoint": {"address": _address("127.0.0.1", port)}}
    return {
        "name": "xds",
        "type": "STATIC",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
        "load_assignment": {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [there]}]},
    }


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
