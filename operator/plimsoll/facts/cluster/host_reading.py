"""What pods take of their nodes besides GPUs, and what nodes have of it, by Kubernetes' own sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any

from plimsoll.domain.host import HostNeed, HostRoom
from plimsoll.domain.units import parse_quantity

Body = Mapping[str, Any]

REQUESTS = "requests"
"""Field of a pod that was cut down: its summed requests, where its containers are not kept."""

ENDED = ("Succeeded", "Failed")
"""Pod phases that hold nothing any more."""


def pod_need(pod: Body) -> HostNeed:
    """What the scheduler counts for one pod: all containers together, or its largest step of starting up.

    Init containers that stay (``restartPolicy: Always``) run next to all that follow them; the others run one by one.
    """
    summed = pod.get(REQUESTS)
    if summed is not None:
        return HostNeed(summed["cpu"], summed["memory"])
    spec = pod.get("spec") or {}
    return HostNeed(_needed(spec, "cpu", 1000), _needed(spec, "memory", 1))


def host_room(allocatable: Body) -> HostRoom:
    """What a node offers to pods; None for what it does not say or says in no number."""
    return HostRoom(
        _amount(allocatable.get("cpu"), 1000),
        _amount(allocatable.get("memory"), 1),
        _amount(allocatable.get("pods"), 1),
    )


def is_bound(pod: Body) -> bool:
    """Whether a pod holds something of a node."""
    return bool((pod.get("spec") or {}).get("nodeName")) and (pod.get("status") or {}).get("phase") not in ENDED


def taken_by_node(pods: Iterable[Body]) -> dict[str, tuple[int, int, int]]:
    """CPU in thousandths, bytes and number of all pods that are bound and have not ended, by node."""
    taken: dict[str, list[int]] = {}
    for pod in pods:
        summed = pod.get(REQUESTS)
        if summed is None:
            if not is_bound(pod):
                continue
            need = pod_need(pod)
            cpu, memory = need.cpu_millis, need.memory_bytes
        else:  # cut down: bound, and one of a hundred thousand
            cpu, memory = summed["cpu"], summed["memory"]
        sums = taken.setdefault(pod["spec"]["nodeName"], [0, 0, 0])
        sums[0] += cpu
        sums[1] += memory
        sums[2] += 1
    return {node: (cpu, memory, count) for node, (cpu, memory, count) in taken.items()}


def _needed(spec: Body, resource: str, unit: int) -> int:
    """One resource of a pod in whole units."""
    whole = (spec.get("resources") or {}) if isinstance(spec.get("resources"), Mapping) else {}
    stated = _asked(whole, resource, unit)
    if stated:  # requests of the pod as a whole stand for those of its containers
        return stated + _overhead(spec, resource, unit)
    running = sum(_asked(each.get("resources"), resource, unit) for each in spec.get("containers") or ())
    staying = largest = 0
    for each in spec.get("initContainers") or ():
        asked = _asked(each.get("resources"), resource, unit)
        if each.get("restartPolicy") == "Always":
            staying += asked
            largest = max(largest, staying)
        else:
            largest = max(largest, staying + asked)
    return max(running + staying, largest) + _overhead(spec, resource, unit)


def _overhead(spec: Body, resource: str, unit: int) -> int:
    return _amount((spec.get("overhead") or {}).get(resource), unit) or 0


def _asked(resources: Any, resource: str, unit: int) -> int:
    """Requests; limits where there is no request, as the API server fills it in."""
    if not isinstance(resources, Mapping):
        return 0
    stated = (resources.get("requests") or {}).get(resource)
    if stated is None:
        stated = (resources.get("limits") or {}).get(resource)
    return _amount(stated, unit) or 0


def _amount(quantity: Any, unit: int) -> int | None:
    return None if quantity is None else _parsed(str(quantity), unit)


@lru_cache(maxsize=8192)
def _parsed(text: str, unit: int) -> int | None:
    """Whole units, rounded up as the scheduler does it. Clusters repeat a few quantities a hundred thousand times."""
    try:
        return max(0, int((parse_quantity(text) * unit).to_integral_value(rounding=ROUND_CEILING)))
    except (ValueError, ArithmeticError):
        return None
