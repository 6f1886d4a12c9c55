"""Objects as large as etcd takes them: the operator stays within the chart's memory limit and serves their neighbours."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.app.operator import DEEPEST_JSON
from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.operator_process import OperatorProcess
from tests.support.honest import Honest
from tests.support.installed import CHART, View, condition, inference_deployment, namespace_of

pytestmark = pytest.mark.cluster

OBJECTS = int(os.environ.get("PLIMSOLL_LARGE_OBJECTS", "24"))
"""Large objects of each kind of flood. With 20 of 1 MB an operator without limits took 597 MiB."""

NAMESPACES = 2
_LIMIT = re.search(r"^resources:.*?^  limits:\n    memory: (\d+)Mi", (CHART / "values.yaml").read_text(), re.M | re.S)
LIMIT_MIB = int(_LIMIT[1]) if _LIMIT else 0


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
        "engine": {"speculation": {"method": "draft_model", "config": {f"k{each}": tree(3, 7) for each in range(270)}}}
    },
}
"""Specs that fill one free-form field each."""


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
    return taken


def is_stored(view: View, group: str, plural: str, manifest: dict[str, Any]) -> bool:
    try:
        view.control_plane.client.send("POST", f"{group}/namespaces/{view.namespace}/{plural}", manifest)
    except ApiError as error:
        assert error.status < 500, f"{manifest['metadata']['name']}: {error}"  # noqa: PLR2004 - a fault of the server
        return False
    return True


def peak_mib(operator: OperatorProcess) -> int:
    """The most memory that the process has had since it was started, from the kernel."""
    found = re.search(r"^VmHWM:\s+(\d+)", Path(f"/proc/{operator.pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) // 1024


def test_large_objects_fill_neither_the_memory_nor_the_time_of_others(
    flooded: list[View], operator: OperatorProcess, honest: Honest
) -> None:
    with honest.standing("stands-large"):
        assert flood(flooded) >= OBJECTS // 2
        laps = [honest.assert_served()]
        during = peak_mib(operator)
        operator.restart()
        operator.wait_healthy()
        laps.append(honest.assert_served())
        after = peak_mib(operator)
    print(f"usual {honest.usual}, {laps}; peak {during} MiB, {after} MiB after a restart")  # noqa: T201
    assert max(during, after) < LIMIT_MIB
    reasons = {condition(body, "Stalled").get("reason") for view in flooded for body in view.all("inferencedeployments")}
    print(reasons)
