"""The images of a router: the real endpoint picker and the real Envoy, with the arguments that were rendered.

A picker listens at all addresses of its machine, and every pod of this kubelet has the same machine. So its ports are
others here, and connections to the address and the ports of the pod are passed on to them.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from testbed.api_client import ApiError
from testbed.binaries import ensure_endpoint_picker
from testbed.cache import cache_directory
from testbed.control_plane import ControlPlane
from testbed.engine_pods import PICKER_LABEL, ROUTER_LABEL
from testbed.go_toolchain import ensure_envoy
from testbed.kubelet.images import CannotRun, Image, Place, Program
from testbed.kwok_config import DEPLOYMENT_LABEL
from testbed.ports import PortReservation

PICKER_REPOSITORY = "registry.k8s.io/gateway-api-inference-extension/epp"
PROXY_REPOSITORY = "docker.io/envoyproxy/envoy"

_CHECKOUT = Path(__file__).resolve().parents[2]
_LOOK_SECONDS = 0.05
_reserved = PortReservation()


def router_images(control_plane: ControlPlane) -> dict[str, Image]:
    """Return both images. Pickers have the rights of the ServiceAccount that was rendered for them."""
    picker, envoy = ensure_endpoint_picker().program, ensure_envoy(cache_directory(), print)

    def picking(container: Mapping[str, Any], place: Place) -> Program:
        account = f"{place.labels[PICKER_LABEL]}-picker"
        own = {port: _reserved.take() for port in _FLAGS.values()}
        more = [f"--{flag}={own[port]}" for flag, port in _FLAGS.items()]
        words = [sys.executable, "-P", __file__, place.address, json.dumps(own), str(picker)]
        try:
            kubeconfig = control_plane.service_account_kubeconfig(_namespace(place), account)
        except ApiError as error:  # it has gone, with the deployment
            raise CannotRun("CreateContainerConfigError", str(error)) from error
        environment = dict(os.environ) | {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(_CHECKOUT)}
        return Program([*words, *container["args"], *more], environment, [f"its ports are passed on to {own}"])

    def passing(container: Mapping[str, Any], place: Place) -> Program:
        words, name = list(container["args"]), place.labels[ROUTER_LABEL]
        at = words.index("--config-yaml") + 1
        named = {label: _addresses(control_plane, place, label, name) for label in (DEPLOYMENT_LABEL, PICKER_LABEL)}
        words[at] = json.dumps(_moved(json.loads(words[at]), place, named))
        said = f"its address is the pod's, and there is no DNS: the Services have {named}, as they were at the start"
        return Program([str(envoy), *words], dict(os.environ), [said])

    return {PICKER_REPOSITORY: picking, PROXY_REPOSITORY: passing}


_FLAGS = {"grpc-port": 9002, "grpc-health-port": 9003, "metrics-port": 9090}
"""The picker's flags, and the ports of its pod."""


def _namespace(place: Place) -> str:
    return place.folder.name.partition("_")[0]


def _addresses(control_plane: ControlPlane, place: Place, label: str, name: str) -> list[str]:
    """The pods that a headless Service names. Raises CannotRun while there are none."""
    path = f"/api/v1/namespaces/{_namespace(place)}/pods"
    pods = control_plane.client.get(path, labelSelector=f"{label}={name}")["items"]
    found = sorted(pod["status"]["podIP"] for pod in pods if pod.get("status", {}).get("podIP"))
    if not found:
        raise CannotRun("CreateContainerError", f"there is no pod of {label}={name} yet, and no DNS finds it later")
    return found


def _moved(config: dict[str, Any], place: Place, named: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return Envoy's configuration with this pod's address, and addresses in the place of the names of Services."""
    parts = config["static_resources"]
    for address in (config["admin"]["address"], *(each["address"] for each in parts["listeners"])):
        address["socket_address"]["address"] = place.address
    clusters = {each["name"]: each for each in parts["clusters"]}
    inner, outer = clusters["picked"]["load_assignment"]["endpoints"]
    [picker] = clusters["picker"]["load_assignment"]["endpoints"]
    for group, addresses in ((inner, [place.address]), (outer, named[DEPLOYMENT_LABEL]), (picker, named[PICKER_LABEL])):
        [endpoint] = group["lb_endpoints"]
        group["lb_endpoints"] = [_at(endpoint, address) for address in addresses]
    return config


def _at(endpoint: dict[str, Any], address: str) -> dict[str, Any]:
    found = copy.deepcopy(endpoint)
    found["endpoint"]["address"]["socket_address"]["address"] = address
    return found


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Carry one connection to a port of the picker."""
    try:
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copied(reader, its_writer), _copied(its_reader, writer), return_exceptions=True)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:  # one side that is reset must not leave the other waiting
        writer.close()


async def _listens(port: int) -> bool:
    """Whether the picker takes connections at a port: until then a probe of the pod must fail."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def _serve(address: str, ports: Mapping[str, int], process: subprocess.Popen[bytes]) -> int:
    """Pass the ports of a pod on to those of its picker, from when it listens there until it ends."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, process.terminate)
    for port, own in ports.items():
        while process.poll() is None and not await _listens(own):  # noqa: ASYNC110 - another process begins to listen
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.start_server(partial(pass_on, port=own), address, int(port))
    return await asyncio.to_thread(process.wait)


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve(sys.argv[1], json.loads(sys.argv[2]), subprocess.Popen(sys.argv[3:]))))
