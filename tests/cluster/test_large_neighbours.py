"""Objects as large as etcd takes them: the operator keeps the chart's memory limit and serves their neighbours."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from plimsoll.adapters.cluster import DEEPEST_JSON
from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.operator_process import OperatorProcess
from tests.support.honest import ALLOWED_SECONDS, Honest
from tests.support.installed import CHART, View, condition, inference_deployment, namespace_of

pytestmark = pytest.mark.cluster

LAPS = 2

FOREIGN = int(os.environ.get("PLIMSOLL_LARGE_FOREIGN", "1"))
"""Large objects of each other kind in each namespace. They cost the API server much more than the operator."""

logger = logging.getLogger(__name__)

OBJECTS = int(os.environ.get("PLIMSOLL_LARGE_OBJECTS", "16"))
"""Large objects of each kind of flood. With 20 of 1 MB an operator without limits took 597 MiB."""


def memory_limit_mib() -> int:
    """The operator's memory limit in the chart."""
    found = re.search(
        r"^resources:\n(?:  .*\n)*?  limits:\n    memory: (\d+)Mi", (CHART / "values.yaml").read_text(), re.MULTILINE
    )
    assert found is not None
    return int(found[1])


def tree(levels: int, width: int) -> Any:
    return {chr(97 + each): tree(levels - 1, width) for each in range(width)} if levels else 0


def deep(levels: int) -> Any:
    node: Any = {}
    for _ in range(levels):
        node = {"a": node}
    return node


BULK: dict[str, Callable[[], dict[str, Any]]] = {
    "short-members": lambda: {"model": {"name": "x", "config": {f"k{each}": tree(3, 7) for each in range(270)}}},
    "empty-lists": lambda: {"model": {"name": "x", "config": {f"k{each}": [[]] * 1000 for each in range(280)}}},
    "numbers": lambda: {"model": {"name": "x", "config": {"layers": list(range(150_000))}}},
    "texts": lambda: {"model": {"name": "x", "config": {"text": ["x" * 4000] * 240}}},
    "levels": lambda: {"model": {"name": "x", "config": deep(9_000)}},
    "volumes": lambda: {
        "podTemplate": {"volumes": [{"name": f"v{each}", "iscsi": {"x": ["y" * 90] * 300}} for each in range(30)]}
    },
    "just-allowed": lambda: {"model": {"name": "x", "config": {f"k{each}": [0] * 20 for each in range(350)}}},
    "draft": lambda: {
        "engine": {
            "speculation": {
                "method": "Draft",
                "tokens": 4,
                "draftModel": {"name": "x", "config": {f"k{each}": tree(3, 7) for each in range(270)}},
            }
        }
    },
}
"""Specs that fill one free-form field each."""


OURS = {"app.kubernetes.io/managed-by": "plimsoll", "plimsoll.dev/deployment": "stands-large"}
"""Labels of the operator's own objects, which anybody may write."""


def containers(count: int, **more: Any) -> list[dict[str, Any]]:
    env = [{"name": f"E{each}", "value": "x"} for each in range(count)]
    return [{"name": "c", "image": "registry.example/x", "env": env, **more}]


def foreign(namespace: str, number: int, owner: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Large objects of other kinds that look like the operator's: group, plural and manifest of each."""
    head = {"name": f"foreign-{number}", "namespace": namespace, "labels": OURS}
    owned = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "controller": True, **owner}
    large = {"annotations": {f"x{each}": "y" * 1000 for each in range(240)}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers(15_000)}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    for name, more in (("plain", {}), ("owned", {"ownerReferences": [owned]})):
        yield "/apis/apps/v1", "deployments", {"metadata": head | more | {"name": f"{name}-{number}"}, "spec": spec}
    yield "/api/v1", "services", {"metadata": head | large, "spec": {"ports": [{"port": 80}]}}
    limits = {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "1", "memory": "1Gi"}}}
    yield "/api/v1", "pods", {"metadata": head | large, "spec": {"containers": containers(15_000, **limits)}}
    labels = OURS | {f"label-{each}": "x" for each in range(8_000)}
    yield (
        "/api/v1",
        "pods",
        {
            "metadata": head | {"name": f"labels-{number}", "labels": labels},
            "spec": {"containers": containers(1, **limits)},
        },
    )


@pytest.fixture
def flooded(control_plane: ControlPlane) -> Iterator[list[View]]:
    """Namespaces of tenants who store as much as the API server takes from them."""
    sys.setrecursionlimit(DEEPEST_JSON)
    with namespace_of(control_plane, "tenant-large-0") as first, namespace_of(control_plane, "tenant-large-1") as other:
        yield [first, other]


def flood(views: list[View]) -> int:
    """Store objects of every shape; returns how many the API server took."""
    shapes, taken = list(BULK), 0
    for number in range(OBJECTS):
        shape, view = shapes[number % len(shapes)], views[number % len(views)]
        manifest = inference_deployment(f"large-{number:03}", view.namespace, **BULK[shape]())
        taken += is_stored(view, "/apis/plimsoll.dev/v1alpha1", "inferencedeployments", manifest)
    for number, view in enumerate([*views] * FOREIGN):
        view.apply("owner", replicas=0)
        owner = {"name": "owner", "uid": view.get("owner")["metadata"]["uid"]}
        for group, plural, body in foreign(view.namespace, number, owner):
            taken += is_stored(view, group, plural, body)
    return taken


def is_stored(view: View, group: str, plural: str, manifest: dict[str, Any]) -> bool:
    """Create an object. An error of the server is an error of the test; a refusal is what is hoped for."""
    try:
        view.control_plane.client.send("POST", f"{group}/namespaces/{view.namespace}/{plural}", manifest)
    except ApiError as error:
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and "request is too large" not in str(error):
            raise
        return False
    return True


def peak_mib(operator: OperatorProcess) -> int:
    """The most memory that the process has had since it was started, from the kernel."""
    found = re.search(r"^VmHWM:\s+(\d+)", Path(f"/proc/{operator.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) // 1024


def test_large_objects_take_neither_the_memory_nor_the_time_of_others(
    flooded: list[View], operator: OperatorProcess, honest: Honest
) -> None:
    usual, peaks = peak_mib(operator), list[int]()
    with honest.standing("stands-large"):
        stored = flood(flooded)
        laps = [honest.assert_served().placed for _ in range(LAPS)]
        peaks.append(peak_mib(operator))
        operator.restart()
        operator.wait_healthy()
        laps += [honest.assert_served().placed for _ in range(LAPS)]
        peaks.append(peak_mib(operator))
    logger.info("%d stored; usual %s, then %s; %d MiB, then at most %s", stored, honest.usual, laps, usual, peaks)
    assert honest.usual is not None
    assert median(laps) <= 2 * honest.usual.placed + ALLOWED_SECONDS  # the control plane has the same two cores
    assert stored >= OBJECTS
    assert max(peaks) < memory_limit_mib()
    objects = [body for view in flooded for body in view.all("inferencedeployments")]
    too_large = [body for body in objects if condition(body, "Stalled").get("reason") == "TooLarge"]
    assert len(too_large) >= OBJECTS // 3
    assert all("characters" in condition(body, "Stalled")["message"] for body in too_large)
