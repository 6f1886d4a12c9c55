"""The part of a namespace's ResourceQuotas that one replica takes: GPUs, CPU and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plimsoll.domain.host import HostNeed
from plimsoll.domain.outcomes import Option
from plimsoll.domain.quotas import CPU_LIMITS, CPU_REQUESTS, MEMORY_LIMITS, MEMORY_REQUESTS
from plimsoll.domain.serving import Request
from plimsoll.placement.candidates import Candidate
from plimsoll.placement.host import host_need
from plimsoll.placement.ledger import Ledger

QuotaUse = tuple[tuple[str, int], ...]
"""The amount that one pod takes of each resource that a quota may limit."""


def use_of(request: Request, resource: str, gpus: int, need: HostNeed) -> QuotaUse:
    """Return the amounts that a quota counts for the pod of one replica.

    A pod without a limit of its own counts with its request. A LimitRange may give it a limit, which is never below
    the request. Without a LimitRange the API server refuses the pod, whatever the quota leaves.
    """
    cpu, memory = request.cpu_limit_millis, request.memory_limit_bytes
    return (
        (resource, gpus),
        (CPU_REQUESTS, need.cpu_millis),
        (MEMORY_REQUESTS, need.memory_bytes),
        (CPU_LIMITS, need.cpu_millis if cpu is None else cpu),
        (MEMORY_LIMITS, need.memory_bytes if memory is None else memory),
    )


def use_at(request: Request, place: Option | Candidate) -> QuotaUse:
    """Return the amounts that a quota counts for the pod of one replica at a place."""
    return use_of(request, place.target.resource, place.split.gpus, host_need(request, place))


def quota_room(request: Request, place: Option | Candidate, ledger: Ledger) -> int | None:
    """Return the number of replicas that the namespace's quotas admit at a place. None: they do not limit it."""
    left = ledger.quota.get(request.key.namespace)
    return room_in(left, use_at(request, place)) if left else None


def room_in(left: Mapping[str, int], use: QuotaUse) -> int | None:
    """Return how often this use fits into what is left. None: nothing that it takes is limited."""
    found = min((left[name] // amount for name, amount in use if amount > 0 and name in left), default=None)
    return None if found is None else max(0, found)


def short_in(left: Mapping[str, int], use: QuotaUse) -> QuotaUse:
    """Return the resources of which less is left than one pod takes, each with the amount that the pod takes."""
    return tuple((name, amount) for name, amount in use if left.get(name, amount) < amount)


def given_back(ledger: Ledger, namespace: str, use: QuotaUse, replicas: int) -> Ledger:
    """Return the ledger after so many pods that the namespace's quotas count have ended."""
    left = ledger.quota.get(namespace)
    if not left:
        return ledger
    back = {name: left[name] + amount * replicas for name, amount in use if name in left}
    return replace(ledger, quota={**ledger.quota, namespace: {**left, **back}})


def charged(ledger: Ledger, namespace: str, use: QuotaUse, replicas: int) -> Ledger:
    """Return the ledger after so many replicas took their part of the namespace's quotas."""
    if namespace in ledger.quota:
        for name, amount in use:
            ledger = ledger.charge(namespace, name, amount * replicas)
    return ledger
