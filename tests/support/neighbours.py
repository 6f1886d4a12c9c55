"""Tenants who are bad neighbours with nothing but the right to create objects: large, busy and lying ones."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

from plimsoll.adapters.cluster.client import DEEPEST_JSON
from testbed.api_client import ApiError
from testbed.kwok_config import CRASH_ANNOTATION
from testbed.operator_process import OperatorProcess
from tests.support import tables
from tests.support.honest import honest_spec
from tests.support.installed import CHART, View, inference_deployment

LARGE_OBJECTS = int(os.environ.get("PLIMSOLL_LARGE_OBJECTS", "2"))
"""Large objects of a flood, of other shapes each day where there are more shapes than objects. With 20 of 1 MB an
operator without limits took 597 MiB. They cost the API server much more: gigabytes, and a CPU second for each."""

LARGE_FOREIGN = int(os.environ.get("PLIMSOLL_LARGE_FOREIGN", "0"))
"""Large objects of each other kind in each namespace; 0 for some that are a tenth as large, in one namespace."""

FOREIGN_PARTS = 15_000 if LARGE_FOREIGN else 1_500
"""The containers' variables in each of these, e.g. As many as etcd takes."""

BUSY_OBJECTS = int(os.environ.get("PLIMSOLL_BUSY_OBJECTS", "10"))
BUSY_PATCHES_PER_SECOND = float(os.environ.get("PLIMSOLL_BUSY_PATCHES", "2"))

LIES = {
    "negative-cache": (
        "ValueError: To serve at least one request with the models's max seq len (4096), 0.5 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (-999999.99 GiB)."
    ),
    "huge-cache": (
        "ValueError: To serve at least one request with the models's max seq len (4096), 0.5 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (999999.99 GiB)."
    ),
    "no-cache": "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
    "weights": "RuntimeError: Failed to load model - not enough GPU memory.",
    "out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 99999.00 GiB.",
    "held": "ValueError: Free memory on device cuda:0 (0.0/79.1 GiB) on startup is less than desired GPU memory.",
    "mamba": "ValueError: max_num_seqs (1) exceeds available Mamba cache blocks (0).",
    "heads": "ValueError: Total number of attention heads (32) must be divisible by tensor parallel size (1).",
    "gpu": "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
    "long": "CUDA out of memory" + " x" * 1900,
}
"""Termination messages of containers. The operator learns from such messages of engines."""


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
    "texts": lambda: {"model": {"name": "x", "config": {"text": ["x" * 4000] * 240}}},
    "empty-lists": lambda: {"model": {"name": "x", "config": {f"k{each}": [[]] * 1000 for each in range(280)}}},
    "levels": lambda: {"model": {"name": "x", "config": deep(9_000)}},
    "just-allowed": lambda: {"model": {"name": "x", "config": {f"k{each}": [0] * 20 for each in range(350)}}},
    "short-members": lambda: {"model": {"name": "x", "config": {f"k{each}": tree(3, 7) for each in range(270)}}},
    "volumes": lambda: {
        "podTemplate": {"volumes": [{"name": f"v{each}", "iscsi": {"x": ["y" * 90] * 300}} for each in range(30)]}
    },
    "numbers": lambda: {"model": {"name": "x", "config": {"layers": list(range(150_000))}}},
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
    large = {"annotations": {f"x{each}": "y" * 1000 for each in range(FOREIGN_PARTS // 64)}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers(FOREIGN_PARTS)}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    for name, more in (("plain", {}), ("owned", {"ownerReferences": [owned]})):
        yield "/apis/apps/v1", "deployments", {"metadata": head | more | {"name": f"{name}-{number}"}, "spec": spec}
    yield "/api/v1", "services", {"metadata": head | large, "spec": {"ports": [{"port": 80}]}}
    limits = {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "1", "memory": "1Gi"}}}
    yield "/api/v1", "pods", {"metadata": head | large, "spec": {"containers": containers(FOREIGN_PARTS, **limits)}}
    labels = OURS | {f"label-{each}": "x" for each in range(FOREIGN_PARTS // 2)}
    yield (
        "/api/v1",
        "pods",
        {
            "metadata": head | {"name": f"labels-{number}", "labels": labels},
            "spec": {"containers": containers(1, **limits)},
        },
    )


def flood(views: list[View]) -> int:
    """Store objects of every shape; returns how many the API server took."""
    sys.setrecursionlimit(DEEPEST_JSON)
    shapes, taken = tables.drawn(list(BULK), LARGE_OBJECTS, "flood"), 0
    for number in range(LARGE_OBJECTS):
        shape, view = shapes[number % len(shapes)], views[number % len(views)]
        manifest = inference_deployment(f"large-{number:03}", view.namespace, **BULK[shape]())
        taken += is_stored(view, "/apis/plimsoll.dev/v1alpha1", "inferencedeployments", manifest)
    for number, view in enumerate([*views] * LARGE_FOREIGN or views[:1]):
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


@contextmanager
def changing(
    view: View, patches_per_second: float = BUSY_PATCHES_PER_SECOND, objects: int = BUSY_OBJECTS
) -> Iterator[None]:
    """Change one object after the other in a thread, as fast as one client does."""
    stop, refused = threading.Event(), list[ApiError]()

    def run() -> None:
        for number in count():
            try:
                view.patch(f"busy-{number % objects}", {"totalConcurrency": 20 + number % 97})
            except ApiError as error:
                refused.append(error)
            if stop.wait(1 / patches_per_second):
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not refused


def make_busy(view: View, objects: int = BUSY_OBJECTS) -> None:
    """Create objects whose planning takes ten times as long as that of others."""
    for number in range(objects):
        view.apply(f"busy-{number}", concurrency=None, totalConcurrency=20 + number, contextLength=4096 + number)


def lie(view: View, tenant: str) -> None:
    """Create engines that end with a message each, on the nodes of that tenant: half of them with an image of its own.

    They are of the same kind as the honest tenant's engines.
    """
    for number, (name, words) in enumerate(LIES.items()):
        own = {"engine": {"image": "registry.example/liar:1"}} if number % 2 else {}
        spec = honest_spec(tenant, **own)
        message = {"annotations": {CRASH_ANNOTATION: words}}
        view.apply(f"lies-{name}", **{**spec, "podTemplate": spec["podTemplate"] | message})
