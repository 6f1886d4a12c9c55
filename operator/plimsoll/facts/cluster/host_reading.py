"""The CPU and memory that pods request and nodes offer, added up as Kubernetes does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any

from plimsoll.domain.cluster.host import HostNeed, HostRoom
from plimsoll.domain.units import parse_quantity

Body = Mapping[str, Any]

REQUESTS = "requests"
"""Field of a pod that is kept without its containers: it holds the sum of their requests."""

ENDED = ("Succeeded", "Failed")
"""Pod phases in which a pod no longer holds resources."""


def pod_need(pod: Body) -> HostNeed:
    """Return the requests that the scheduler counts for one pod: all containers together, or the largest init step.

    Init containers that keep running (``restartPolicy: Always``) run together with all later containers. The others run
    one after another.
    """
    summed = pod.get(REQUESTS)
    if summed is not None:
        return HostNeed(summed["cpu"], summed["memory"])
    spec = pod.get("spec") or {}
    return HostNeed(needed(spec, "cpu", 1000), needed(spec, "memory", 1))


def host_room(allocatable: Body) -> HostRoom:
    """Return the CPU, memory and pods that a node offers; None for a value that is missing or no number."""
    return HostRoom(
        _amount(allocatable.get("cpu"), 1000),
        _amount(allocatable.get("memory"), 1),
        _amount(allocatable.get("pods"), 1),
    )


def is_bound(pod: Body) -> bool:
    """Whether a pod holds resources of a node: it is bound and has not ended."""
    return bool((pod.get("spec") or {}).get("nodeName")) and (pod.get("status") or {}).get("phase") not in ENDED


def taken_by_node(pods: Iterable[Body]) -> dict[str, tuple[int, int, int]]:
    """Return by node the CPU in thousandths, the bytes and the number of all bound pods that have not ended."""
    taken: dict[str, list[int]] = {}
    for pod in pods:
        summed = pod.get(REQUESTS)
        if summed is None:
            if not is_bound(pod):
                continue
            need = pod_need(pod)
            cpu, memory = need.cpu_millis, need.memory_bytes
        else:  # a pod kept as its sums is always bound; this path is fast because there can be a hundred thousand
            cpu, memory = summed["cpu"], summed["memory"]
        sums = taken.setdefault(pod["spec"]["nodeName"], [0, 0, 0])
        sums[0] += cpu
        sums[1] += memory
        sums[2] += 1
    return {node: (cpu, memory, count) for node, (cpu, memory, count) in taken.items()}


def needed(spec: Body, resource: str, unit: int) -> int:
    """Return what the scheduler counts of a pod for one resource, in parts: ``unit`` of them are one of it.

    Containers that start a pod run one after the other. Those that restart stay beside the others
    (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/).
    """
    whole = (spec.get("resources") or {}) if isinstance(spec.get("resources"), Mapping) else {}
    stated = _asked(whole, resource, unit)
    if stated:  # requests of the whole pod replace those of its containers
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
    """Return the request, or the limit where there is no request: the API server fills it in the same way."""
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
    """Return whole units, rounded up as the scheduler does it; None for a text that is no quantity.

    The cache helps because clusters repeat a few quantities a hundred thousand times.
    """
    try:
        return max(0, int((parse_quantity(text) * unit).to_integral_value(rounding=ROUND_CEILING)))
    except (ValueError, ArithmeticError):
        return None
