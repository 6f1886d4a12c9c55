"""A large cluster: nodes, deployments with a status of real size, and their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from benchmarks.cluster.running import make_nodes
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL
from testbed.control_plane import ControlPlane

GROUP = "/apis/plimsoll.dev/v1alpha1"
NAMESPACES = 20
AT_ONCE = 16
POOL = "h100-sxm-80gb-tp1"
_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "02-70b-fp8"
_GOOD = (200, 201)
_NOW = "2026-01-01T00:00:00Z"

Request = tuple[str, str, Mapping[str, Any]]
"""Method, path and body."""


def fill(plane: ControlPlane, deployments: int, nodes: int) -> None:
    """Create everything. No operator runs: the statuses are those that one wrote for the example of a 70B model."""
    make_nodes(plane, nodes)
    names = [f"team-{index:02}" for index in range(NAMESPACES)]
    plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names])
    asyncio.run(_send(plane, [*_objects(deployments), *_pods(deployments, nodes)]))
    asyncio.run(_send(plane, list(_statuses(deployments))))


def namespace_of(index: int) -> str:
    """Return the namespace of a deployment."""
    return f"team-{index % NAMESPACES:02}"


def _path(index: int) -> str:
    return f"{GROUP}/namespaces/{namespace_of(index)}/inferencedeployments"


def _objects(count: int) -> Iterator[Request]:
    spec = next(yaml.safe_load_all((_EXAMPLE / "deployment.yaml").read_text()))["spec"]
    for index in range(count):
        head = {"name": f"model-{index:05}", "namespace": namespace_of(index)}
        kind = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment"}
        yield "POST", _path(index), {**kind, "metadata": head, "spec": spec}


def _statuses(count: int) -> Iterator[Request]:
    status = _status()
    for index in range(count):
        body = {"status": status if index % 10 else _homeless(status)}
        yield "PATCH", f"{_path(index)}/model-{index:05}/status", body


def _status() -> dict[str, Any]:
    """Return the status of the example's plan, with what runs."""
    (plan,) = yaml.safe_load((_EXAMPLE / "expected" / "plan.yaml").read_text())["deployments"]
    parts = {name: plan[name] for name in ("model", "estimate", "placement", "rejections")}
    pool = {
        "name": POOL, "gpuType": "h100-sxm-80gb", "tensorParallel": 1, "resource": "nvidia.com/gpu", "state": "Active",
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "generation": 1, "replicas": 1,
        "readyReplicas": 1, "kvTokensPredicted": 300_000, "kvTokensReported": 297_000,
    }  # fmt: skip
    return parts | {"observedGeneration": 1, "replicasSummary": "1/1", "pools": [pool], "conditions": [_ready("True")]}


def _homeless(status: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: status[name] for name in ("model", "rejections", "observedGeneration")}
    stalled = {**_ready("True"), "type": "Stalled", "reason": "NoGpuFits"}
    return rest | {"replicasSummary": "0/1", "conditions": [{**_ready("False"), "reason": "NoGpuFits"}, stalled]}


def _ready(status: str) -> dict[str, Any]:
    words = {"reason": "Serving", "message": "1 of 1 replica serves.", "lastTransitionTime": _NOW}
    return {"type": "Ready", "status": status, "observedGeneration": 1, **words}


def _pods(count: int, nodes: int) -> Iterator[Request]:
    for index in range(count):
        name = f"model-{index:05}"
        labels = {DEPLOYMENT_LABEL: name, POOL_LABEL: POOL}
        gpus = {"resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}
        spec = {
            "nodeName": f"node-{index % nodes:04}",
            "containers": [{"name": "engine", "image": "engine", **gpus}],
            "tolerations": [{"operator": "Exists"}],
        }
        head = {"name": f"{name}-{POOL}-0", "namespace": namespace_of(index), "labels": labels}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": spec}
        yield "POST", f"/api/v1/namespaces/{namespace_of(index)}/pods", body


async def _send(plane: ControlPlane, requests: list[Request]) -> None:
    waiting = iter(requests)
    connector = aiohttp.TCPConnector(limit=AT_ONCE, ssl=plane.client.tls)
    async with aiohttp.ClientSession(plane.server, connector=connector) as session:

        async def worker() -> None:
            for method, path, body in waiting:
                kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
                async with session.request(method, path, json=body, headers=kind) as answer:
                    if answer.status not in _GOOD:
                        raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
