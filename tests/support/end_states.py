"""The end of a small world: everything that its deployment brought about, without what depends on time or chance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.engine_pods import POOL_LABEL, is_ready
from tests.support.small_worlds import NAME, World

_ABSENT = "(absent)"

_OF_CHANCE = frozenset(
    {
        "uid",
        "resourceVersion",
        "managedFields",
        "creationTimestamp",
        "lastTransitionTime",
        "at",
        "createdAt",
        "expiresAt",
        "clusterIP",
        "clusterIPs",
        "learned",  # measured: how long a start took
        "rejections",  # these count the nodes of the cluster, of which every world has some
        "alternatives",  # the same
    }
)
"""Fields that differ between two runs of the same story."""

_KINDS = ("inferencedeployments", "deployments", "services", "poddisruptionbudgets", "placementapprovals")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DIGEST = re.compile(r"\b[0-9a-f]{10,16}\b")
"""Digests of specs: they hold the namespace, the nodes and the model of their world."""

_POD_OR_REPLICA_SET = re.compile(r"(?<=tp1)(-[0-9a-z]+)+")


def end_state(world: World) -> dict[str, Any]:
    """Everything of a world, as it is now."""
    view, words = world.view, _words(world)
    state = {kind: [_plain(body, words) for body in view.all(kind)] for kind in _KINDS}
    state["placementproposals"] = [_plain(body, words) for body in view.all("placementproposals")]
    return state | {"pods": _pods(world)}


def _pods(world: World) -> list[Any]:
    """Pods by pool, node and readiness, also those that are on their way out."""
    found = Counter(
        (
            pod["metadata"]["labels"][POOL_LABEL],
            str(pod["spec"].get("nodeName")).replace(world.namespace, "world"),
            is_ready(pod),
        )
        for pod in world.view.all("pods")
    )
    return [[*key, count] for key, count in sorted(found.items())]


def _words(world: World) -> dict[str, str]:
    """Names that no other world has, and what stands for them."""
    head = world.view.get(NAME)["metadata"]
    approvals = {str(body["metadata"]["uid"]): "approval" for body in world.view.all("placementapprovals")}
    proposals = {str(body["spec"]["proposal"]): "proposal" for body in world.view.all("placementapprovals")}
    return {world.namespace: "world", str(head["uid"]): "owner", **approvals, **proposals}


def _plain(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each, words) for key, each in value.items() if key not in _OF_CHANCE}
    if isinstance(value, list):
        return [_plain(each, words) for each in value]
    if not isinstance(value, str):
        return value
    for name, stands_for in words.items():
        value = value.replace(name, stands_for)
    return _POD_OR_REPLICA_SET.sub("-generated", _DIGEST.sub("digest", _TIME.sub("time", value)))


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Every place where two states differ, with both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key, _ABSENT), other.get(key, _ABSENT), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{where}[{index}]")
    elif one != other:
        yield f"{where}: {one!r} became {other!r}"
