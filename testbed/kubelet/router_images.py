"""The images of a router: the real endpoint picker and the real Envoy, with the arguments that were rendered.

A picker listens at all addresses of its machine, and every pod of this kubelet has the same machine. So its ports are
others here, and its metrics are passed on from the address and the port of the pod.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from testbed.binaries import ensure_endpoint_picker
from testbed.cache import cache_directory
from testbed.control_plane import ControlPlane
from testbed.engine_pods import ROUTER_LABEL
from testbed.established import wait_until_established
from testbed.go_toolchain import ensure_envoy
from testbed.kubelet.images import Image, Place, Program
from testbed.ports import PortReservation

PICKER_REPOSITORY = "registry.k8s.io/gateway-api-inference-extension/epp"
PROXY_REPOSITORY = "docker.io/envoyproxy/envoy"

_METRICS_PORT = 9090
_CHECKOUT = Path(__file__).resolve().parents[2]
_reserved = PortReservation()


def install_pools(control_plane: ControlPlane) -> None:
    """Bring the custom resources of the Gateway API Inference Extension onto a control plane."""
    for file in sorted(ensure_endpoint_picker().manifests.iterdir()):
        definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        control_plane.apply([definition])
        wait_until_established(control_plane.kubectl, definition["metadata"]["name"])


def router_images(control_plane: ControlPlane) -> dict[str, Image]:
    """Return both images. Pickers have the rights of the ServiceAccount that was rendered for them."""
    picker, envoy = ensure_endpoint_picker().program, ensure_envoy(cache_directory(), print)

    def picking(container: Mapping[str, Any], place: Place) -> Program:
        namespace, account = place.folder.name.partition("_")[0], f"{place.labels[ROUTER_LABEL]}-router"
        ports = _ports(place)
        more = [f"--{flag}={ports[name]}" for flag, name in _FLAGS.items()]
        words = [sys.executable, "-P", __file__, place.address, str(ports["metrics"]), str(picker)]
        kubeconfig = control_plane.service_account_kubeconfig(namespace, account)
        environment = dict(os.environ) | {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(_CHECKOUT)}
        return Program([*words, *container["args"], *more], environment, [f"its ports are {ports}"])

    def passing(container: Mapping[str, Any], place: Place) -> Program:
        words = list(container["args"])
        at = words.index("--config-yaml") + 1
        spare = _addresses(control_plane, place)
        words[at] = json.dumps(_moved(json.loads(words[at]), place, _ports(place), spare))
        said = f"its addresses are the pod's, and those of the replicas are {spare}, as they were at the start"
        return Program([str(envoy), *words], dict(os.environ), [said])

    return {PICKER_REPOSITORY: picking, PROXY_REPOSITORY: passing}


_FLAGS = {"grpc-port": "picker", "grpc-health-port": "health", "metrics-port": "metrics"}


def _ports(place: Place) -> dict[str, int]:
    """The ports of a pod's picker, which both of its containers know."""
    file = place.folder / "ports.json"
    if not file.exists():
        file.write_text(json.dumps({name: _reserved.take() for name in _FLAGS.values()}))
    found: dict[str, int] = json.loads(file.read_text())
    return found


def _addresses(control_plane: ControlPlane, place: Place) -> list[str]:
    """The replicas that a headless Service would name now."""
    path = f"/api/v1/namespaces/{place.folder.name.partition('_')[0]}/pods"
    pods = control_plane.client.get(path, labelSelector=f"plimsoll.dev/deployment={place.labels[ROUTER_LABEL]}")
    return sorted(pod["status"]["podIP"] for pod in pods["items"] if pod.get("status", {}).get("podIP"))


def _moved(config: dict[str, Any], place: Place, ports: Mapping[str, int], spare: list[str]) -> dict[str, Any]:
    """Return Envoy's configuration with this pod's addresses and ports in the place of those that a pod has alone."""
    parts = config["static_resources"]
    for address in (config["admin"]["address"], *(each["address"] for each in parts["listeners"])):
        address["socket_address"]["address"] = place.address
    clusters = {each["name"]: each for each in parts["clusters"]}
    inner, outer = clusters["picked"]["load_assignment"]["endpoints"]
    inner["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]["address"] = place.address
    [named] = outer["lb_endpoints"]
    outer["lb_endpoints"] = [_at(named, address) for address in spare or ["127.0.0.1"]]
    [picker] = clusters["picker"]["load_assignment"]["endpoints"][0]["lb_endpoints"]
    picker["endpoint"]["address"]["socket_address"]["port_value"] = ports["picker"]
    picker["endpoint"]["health_check_config"]["port_value"] = ports["health"]
    return config


def _at(endpoint: dict[str, Any], address: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(endpoint))
    found["endpoint"]["address"]["socket_address"]["address"] = address
    return found


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Carry one connection to the picker's own port of metrics."""
    try:
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copied(reader, its_writer), _copied(its_reader, writer), return_exceptions=True)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _serve(address: str, port: int, process: subprocess.Popen[bytes]) -> int:
    """Pass the metrics of a picker on, until it ends."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, process.terminate)
    server = await asyncio.start_server(lambda r, w: _pass_on(r, w, port), address, _METRICS_PORT)
    async with server:
        return await asyncio.to_thread(process.wait)


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), subprocess.Popen(sys.argv[3:]))))
