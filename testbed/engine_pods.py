"""What an engine's pod says about itself."""

from __future__ import annotations

import math
import re
from typing import Any

from testbed.engine_metrics import DEFAULT_SLOTS, Engine, Server
from testbed.verdict import read_arguments

CAPACITY_ANNOTATION = "plimsoll.dev/kv-capacity-tokens"
"""KV cache in tokens; with ``.<pool>`` behind it, of the pods of that pool only."""
ROUTER_LABEL = "plimsoll.dev/router"
PICKER_LABEL = "plimsoll.dev/picker"
POOL_LABEL = "plimsoll.dev/pool"
DEFAULT_CAPACITY_TOKENS = 400_000
"""KV cache of an engine whose pod does not say how much it was given."""


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether a pod is Ready and not on its way out."""
    conditions = pod.get("status", {}).get("conditions") or []
    is_up = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return is_up and "deletionTimestamp" not in pod["metadata"]


def played_engine(pod: dict[str, Any]) -> Engine:
    """An idle engine for a pod: model and slots from its arguments, the cache from its annotation if it has one."""
    words = engine_words(pod)
    arguments = read_arguments(words)
    return Engine(
        namespace=pod["metadata"]["namespace"],
        pod=pod["metadata"]["name"],
        model=arguments.served,
        capacity_tokens=_capacity(pod["metadata"]),
        slots=arguments.max_num_seqs or DEFAULT_SLOTS,
        server=Server.SGLANG if words[:1] == ["sglang"] else Server.VLLM,
    )


def _capacity(head: dict[str, Any]) -> int:
    """The pool's own annotation first: pods of one template share their annotations, whatever GPU they land on."""
    annotations, pool = head.get("annotations") or {}, (head.get("labels") or {}).get(POOL_LABEL)
    plain = annotations.get(CAPACITY_ANNOTATION, DEFAULT_CAPACITY_TOKENS)
    return int(annotations.get(f"{CAPACITY_ANNOTATION}.{pool}", plain))


def engine_words(pod: dict[str, Any]) -> list[str]:
    """Command and arguments of the pod's engine."""
    engine = _engine(pod)
    return [*(engine.get("command") or []), *(engine.get("args") or [])]


def _engine(pod: dict[str, Any]) -> dict[str, Any]:
    """The container that asks for a GPU, else the first one."""
    containers: list[dict[str, Any]] = pod["spec"]["containers"]
    return next((container for container in containers if _asks_for_gpu(container)), containers[0])


def shm_bytes(pod: dict[str, Any]) -> float:
    """The size of the engine's ``/dev/shm``: that of its volume, else the 64 MiB of container runtimes."""
    path = "/dev/shm"  # noqa: S108 - the engine's ranks talk through it
    mounts = {each["mountPath"]: each["name"] for each in _engine(pod).get("volumeMounts") or ()}
    volumes = {each["name"]: each.get("emptyDir") or {} for each in pod["spec"].get("volumes") or ()}
    if path not in mounts:
        return 64 * 2**20
    limit = volumes.get(mounts[path], {}).get("sizeLimit")
    found = None if limit is None else re.fullmatch(r"([0-9.]+)([KMGT]i)?", str(limit))
    return math.inf if found is None else float(found[1]) * _UNITS[found[2]]


_UNITS = {None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def shared_cache_release(pod: dict[str, Any]) -> tuple[int, int] | None:
    """The release of an engine that keeps KV cache in shared memory; None for AMD's GPUs and unknown images."""
    image = str(_engine(pod).get("image"))
    found = re.search(r":v([0-9]+)\.([0-9]+)", image)
    return None if found is None or "rocm" in image else (int(found[1]), int(found[2]))


def _asks_for_gpu(container: dict[str, Any]) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(name.endswith(".com/gpu") for name in limits)
