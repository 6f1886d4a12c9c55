"""Why a pod is not scheduled: a list of obstacles, read from the scheduler's message.

The message counts nodes by the reason why the pod does not fit there::

    0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) didn't match Pod's node affinity/selector.
    preemption: 0/5 nodes are available: ...

The scheduler checks the taints and labels of a node first, and checks the rest only if those pass. So nodes of other
kinds always appear as tainted or not matching, whatever the pod waits for. Sources:
``pkg/scheduler/framework/types.go`` (FitError) and the ``ErrReason`` constants of ``pkg/scheduler/framework/plugins``
in Kubernetes 1.28 to 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from plimsoll.facts.cluster.gpu_labels import is_gpu_resource


class Obstacle(StrEnum):
    """The obstacle that a pod waits for. The values are public: ``status.rehomings`` shows them."""

    GPUS = "InsufficientGpus"
    NODES_GONE = "NodesUnavailable"
    OTHER_NODES = "NodesNotMatching"
    CPU = "InsufficientCpu"
    MEMORY = "InsufficientMemory"
    OTHER_RESOURCE = "InsufficientResource"
    PODS = "TooManyPods"
    VOLUME_ELSEWHERE = "VolumeElsewhere"
    NO_VOLUME_THERE = "NoVolumeThere"
    VOLUMES = "VolumesNotReady"
    PORTS = "HostPortsTaken"
    SPREADING = "PodsKeptApart"
    GATES = "SchedulingGated"
    QUOTA = "QuotaUsedUp"
    REJECTED = "PodsRejected"
    UNKNOWN = "SchedulerObstacleUnknown"


_WORDS = {
    Obstacle.GPUS: "free GPUs",
    Obstacle.NODES_GONE: "nodes that are away, cordoned or not ready",
    Obstacle.OTHER_NODES: "a node with the right labels and taints",
    Obstacle.CPU: "free CPU",
    Obstacle.MEMORY: "free memory",
    Obstacle.OTHER_RESOURCE: "another resource of the node",
    Obstacle.PODS: "nodes that may run more pods",
    Obstacle.VOLUME_ELSEWHERE: "nodes that can mount its volume, which is bound to others",
    Obstacle.NO_VOLUME_THERE: "nodes that have room for its volumes, and may attach them",
    Obstacle.VOLUMES: "its volumes",
    Obstacle.PORTS: "free host ports",
    Obstacle.SPREADING: "a node that its spreading or affinity rules allow",
    Obstacle.GATES: "its scheduling gates to be removed",
    Obstacle.QUOTA: "the namespace's quota",
    Obstacle.REJECTED: "a node whose kubelet accepts them",
}

OF_VOLUMES = frozenset({Obstacle.VOLUME_ELSEWHERE, Obstacle.NO_VOLUME_THERE, Obstacle.VOLUMES})
"""Obstacles that have to do with a pod's volumes."""

_MOVABLE = frozenset({
    Obstacle.GPUS, Obstacle.NODES_GONE, Obstacle.OTHER_NODES, Obstacle.VOLUME_ELSEWHERE, Obstacle.NO_VOLUME_THERE,
})  # fmt: skip
"""Obstacles that other nodes may not have. The nodes that do not match include nodes of other kinds."""

_LOST = re.compile(r"node\.kubernetes\.io/(unreachable|not-ready|unschedulable|network-unavailable|out-of-service)")

_INSUFFICIENT = re.compile(r"Insufficient (\S+)")

_PHRASES: tuple[tuple[re.Pattern[str], Obstacle], ...] = (
    (re.compile(r"were unschedulable|no nodes available"), Obstacle.NODES_GONE),
    (re.compile(r"volume node affinity conflict|PersistentVolume's node affinity|no available volume zone"),
     Obstacle.VOLUME_ELSEWHERE),
    (re.compile(r"enough free storage|exceed max volume count|no available disk|CSI driver is not installed"),
     Obstacle.NO_VOLUME_THERE),
    (re.compile(r"persistentvolume|volume|claim|storage|pvc\(s\)", re.IGNORECASE), Obstacle.VOLUMES),
    (re.compile(r"topology spread|anti-affinity|pod affinity|anti affinity", re.IGNORECASE), Obstacle.SPREADING),
    (re.compile(r"node affinity|node selector|didn't match Pod's node|node\(s\) didn't match the requested node name"),
     Obstacle.OTHER_NODES),
    (re.compile(r"untolerated taint|had taint"), Obstacle.OTHER_NODES),
    (re.compile(r"free ports"), Obstacle.PORTS),
    (re.compile(r"Too many pods"), Obstacle.PODS),
    (re.compile(r"scheduling gates|SchedulingGated"), Obstacle.GATES),
    (re.compile(r"exceeded quota"), Obstacle.QUOTA),
)  # fmt: skip
"""The first match counts, so the order matters. The node affinity of a volume must count as a volume, and the affinity
rules between pods must not count as a node that does not match. Of a volume's obstacles, those of a node come before
those of the claim, which no other node would help."""

_OPENING = re.compile(r"^\d+/\d+ nodes are available:?\s*")
_REST = re.compile(r"(?:no new claims to deallocate|preemption:).*$", re.DOTALL)
_COUNT = re.compile(r"^\d+ ")


def read_obstacles(reason: str, message: str) -> tuple[Obstacle, ...]:
    """Return the obstacles of a pod whose condition ``PodScheduled`` is false, in the order of the enumeration."""
    if reason == "SchedulingGated":
        return (Obstacle.GATES,)
    text = _REST.sub("", _OPENING.sub("", message.strip())).rstrip().rstrip(".")
    found = {_obstacle(part.strip()) for part in text.split(", ") if part.strip()} or {Obstacle.UNKNOWN}
    return tuple(obstacle for obstacle in Obstacle if obstacle in found)


def may_go_elsewhere(obstacles: Iterable[Obstacle]) -> bool:
    """Whether a pod waits only for GPUs or for nodes that are gone: only then would other GPUs help."""
    seen = frozenset(obstacles)
    return bool(seen) and seen <= _MOVABLE


def chief_obstacle(obstacles: Iterable[Obstacle]) -> Obstacle:
    """Return the obstacle to report. If nodes that do not match are the only obstacle, the matching nodes are gone."""
    seen = [obstacle for obstacle in obstacles if obstacle is not Obstacle.OTHER_NODES]
    return min(seen, key=list(Obstacle).index, default=Obstacle.NODES_GONE)


def obstacle_words(obstacles: Iterable[Obstacle]) -> str:
    """Return in plain words what a pod waits for; empty if it is not known.

    If there are other obstacles, nodes that do not match are left out: every cluster may have nodes of other kinds.
    """
    seen = list(dict.fromkeys(obstacles))
    if Obstacle.UNKNOWN in seen:
        return ""
    named = [each for each in seen if each is not Obstacle.OTHER_NODES] or seen
    return " and ".join(_WORDS[obstacle] for obstacle in named)


def _obstacle(part: str) -> Obstacle:
    phrase = _COUNT.sub("", part)
    short = _INSUFFICIENT.search(phrase)
    if short:
        return _resource(short.group(1))
    if _LOST.search(phrase):
        return Obstacle.NODES_GONE
    return next((obstacle for pattern, obstacle in _PHRASES if pattern.search(phrase)), Obstacle.UNKNOWN)


def _resource(name: str) -> Obstacle:
    if is_gpu_resource(name):
        return Obstacle.GPUS
    return {"cpu": Obstacle.CPU, "memory": Obstacle.MEMORY}.get(name, Obstacle.OTHER_RESOURCE)
