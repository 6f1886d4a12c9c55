"""The resources other than GPUs that pods request and nodes offer, added up as Kubernetes does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any

from plimsoll.domain.cluster.host import UNKNOWN_HOST, Amounts, HostNeed, HostRoom
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource

Body = Mapping[str, Any]

REQUESTS = "requests"
"""Field of a pod that is kept without its containers: it holds the sum of their requests."""

OTHERS = "others"
"""Field of the summed requests with the further resources, by name. It is left out if the pod names none."""

MOST_OTHERS = 32
"""The most further resources of one pod that are counted, the first by name. Nodes have a few; a hostile pod may name
thousands."""

_CORE = frozenset({"cpu", "memory", "pods"})

ENDED = ("Succeeded", "Failed")
"""Pod phases in which a pod no longer holds resources."""


def pod_need(pod: Body) -> HostNeed:
    """Return the requests that the scheduler counts for one pod: all containers together, or the largest init step.

    Init containers that keep running (``restartPolicy: Always``) run together with all later containers. The others run
    one after another.
    """
    summed = pod.get(REQUESTS)
    if summed is not None:
        return HostNeed(summed["cpu"], summed["memory"], _sorted(summed.get(OTHERS) or {}))
    spec = pod.get("spec") or {}
    names = _other_names(spec)
    others = _sorted({name: needed(spec, name, 1) for name in names}) if names else ()
    return HostNeed(needed(spec, "cpu", 1000), needed(spec, "memory", 1), others)


def is_other(resource: str) -> bool:
    """Whether a resource is neither CPU, memory or pods nor GPUs, so that only its amount counts."""
    return resource not in _CORE and not is_gpu_resource(resource)


def host_room(allocatable: Body) -> HostRoom:
    """Return what a node offers other than GPUs; None for CPU, memory or pods that are missing or no number."""
    if not allocatable:
        return UNKNOWN_HOST
    return HostRoom(
        _amount(allocatable.get("cpu"), 1000),
        _amount(allocatable.get("memory"), 1),
        _amount(allocatable.get("pods"), 1),
        _sorted({name: _amount(amount, 1) or 0 for name, amount in allocatable.items() if is_other(name)}),
    )


def is_bound(pod: Body) -> bool:
    """Whether a pod holds resources of a node: it is bound and has not ended."""
    return bool((pod.get("spec") or {}).get("nodeName")) and (pod.get("status") or {}).get("phase") not in ENDED


def taken_by_node(pods: Iterable[Body]) -> dict[str, tuple[int, int, int, Amounts]]:
    """Return by node the CPU in thousandths, the bytes, the number and the others of all bound pods not yet ended."""
    taken: dict[str, list[int]] = {}
    named: dict[str, dict[str, int]] = {}
    for pod in pods:
        summed = pod.get(REQUESTS)
        if summed is None:
            if not is_bound(pod):
                continue
            need = pod_need(pod)
            cpu, memory, others = need.cpu_millis, need.memory_bytes, dict(need.others)
        else:  # a pod kept as its sums is always bound; this path is fast because there can be a hundred thousand
            cpu, memory, others = summed["cpu"], summed["memory"], summed.get(OTHERS)
        sums = taken.setdefault(pod["spec"]["nodeName"], [0, 0, 0])
        sums[0] += cpu
        sums[1] += memory
        sums[2] += 1
        if others:
            own = named.setdefault(pod["spec"]["nodeName"], {})
            for name, amount in others.items():
                own[name] = own.get(name, 0) + amount
    others_of = {node: _sorted(amounts) for node, amounts in named.items()}
    return {node: (cpu, memory, count, others_of.get(node, ())) for node, (cpu, memory, count) in taken.items()}


def _sorted(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0))


def _other_names(spec: Body) -> list[str]:
    """Return the further resources that a pod names anywhere. Most pods name none, and there are many pods."""
    found: set[str] = set(spec.get("overhead") or ())
    for each in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = each.get("resources")
        if isinstance(resources, Mapping):
            found.update(resources.get("requests") or (), resources.get("limits") or ())
    found -= _CORE
    return sorted(filter(is_other, found))[:MOST_OTHERS] if found else []


def needed(spec: Body, resource: str, unit: int) -> int:
    """Return what the scheduler counts of a pod for one resource, in parts: ``unit`` of them are one of it.

    Containers that start a pod run one after the other. Those that restart run on next to the others
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
    """Return the request, or the limit if there is no request: the API server fills it in the same way."""
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
