"""What an engine's pod says about itself."""

from __future__ import annotations

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
    """Command and arguments of the pod's engine: the container that asks for a GPU, else the first one."""
    containers: list[dict[str, Any]] = pod["spec"]["containers"]
    engine = next((container for container in containers if _asks_for_gpu(container)), containers[0])
    return [*(engine.get("command") or []), *(engine.get("args") or [])]


def _asks_for_gpu(container: dict[str, Any]) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(name.endswith(".com/gpu") for name in limits)
