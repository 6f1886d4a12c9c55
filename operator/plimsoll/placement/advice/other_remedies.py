"""Remedies where GPUs are free and another resource is short. Each remedy is tested before it is returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.host import HostNeed, is_in_bytes
from plimsoll.domain.cluster.quota_accounts import resource_in
from plimsoll.domain.decisions.outcomes import Placed, Rejection, Remedy
from plimsoll.domain.public_words import Numbers, Reason, RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import MIB, ceil_div
from plimsoll.placement.ledger import Ledger, short_in, use_at
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.nodes import need_of_pool
from plimsoll.placement.places.place import place

_ABOUT_HOSTS = (Reason.NODE_LACKS_CPU, Reason.NODE_LACKS_MEMORY, Reason.NODE_LACKS_RESOURCE)

_OF_NODES = {
    Reason.NODE_DISK_TOO_SMALL: RemedyKind.CACHE_ON_CLAIM,
    Reason.DRIVER_TOO_OLD: RemedyKind.UPDATE_DRIVER,
    Reason.VOLUME_IN_USE: RemedyKind.FREE_CLAIM,
}
"""Reasons against nodes that somebody can change, or do without."""

_FIGURES_OF_NODES = ("least_bytes", "least", "claim", "pod")

_ABOUT_ROOM = (Reason.QUOTA_EXCEEDED, Reason.LIMIT_RANGE_EXCEEDED, *_ABOUT_HOSTS, *_OF_NODES)


def other_remedies(
    request: Request, fleet: Fleet, ledger: Ledger, rejections: Sequence[Rejection], memo: Memo | None = None
) -> tuple[Remedy, ...]:
    """Return the remedies that work: a larger quota, smaller requests or own limits of the pod, or better nodes."""
    one = request.with_replicas(1)
    found = (
        _larger_quota(one, fleet, ledger, rejections, memo),
        _smaller_requests(one, fleet, ledger, rejections, memo),
        _own_limits(one, fleet, ledger, rejections, memo),
        *(_other_nodes(one, fleet, ledger, rejections, reason, memo) for reason in _OF_NODES),
    )
    return tuple(remedy for remedy in found if remedy is not None)


def reads_ledger(rejections: Sequence[Rejection]) -> bool:
    """Whether :func:`other_remedies` reads anything about what is free; otherwise it returns nothing."""
    return any(each.reason in _ABOUT_ROOM for each in rejections)


def _larger_quota(
    request: Request, fleet: Fleet, ledger: Ledger, rejections: Sequence[Rejection], memo: Memo | None
) -> Remedy | None:
    if not any(rejection.reason is Reason.QUOTA_EXCEEDED for rejection in rejections):
        return None
    outcome = place(request, fleet, ledger.without_quota(), memo=memo)
    if not isinstance(outcome, Placed):
        return None
    choice = outcome.choice
    left = ledger.quota.get(request.key.namespace, {})
    numbers: list[tuple[str, int | str]] = []
    for account, asked in short_in(left, use_at(request, choice)):
        more = asked - left[account]
        if account == choice.target.resource:
            numbers += [("resource", account), ("more", more)]
        else:
            numbers.append((account if resource_in(account) != choice.target.resource else f"requests.{account}", more))
    if not numbers:
        return None
    return Remedy(RemedyKind.RAISE_QUOTA, (*numbers, ("gpus", choice.split.gpus), ("gpu_type", choice.gpu.name)))


def _smaller_requests(
    request: Request, fleet: Fleet, ledger: Ledger, rejections: Sequence[Rejection], memo: Memo | None
) -> Remedy | None:
    """Lower the requests to the most that is free on one node. CPU and memory are never lowered to zero."""
    for rejection in rejections:
        if rejection.reason not in _ABOUT_HOSTS:
            continue
        if rejection.reason is Reason.NODE_LACKS_RESOURCE:
            found = _less_of_other(request, rejection, fleet, ledger, memo)
            if found is not None:
                return found
            continue
        numbers = dict(rejection.numbers)
        need = _need(request, rejection, fleet)
        cpu = min(need.cpu_millis, int(numbers.get("free_millis", need.cpu_millis)))
        memory = min(need.memory_bytes, int(numbers.get("free_bytes", need.memory_bytes)))
        smaller = replace(request, cpu_millis=cpu, memory_bytes=memory)
        if (cpu, memory) == (need.cpu_millis, need.memory_bytes) or 0 in (cpu, memory):
            continue
        outcome = place(smaller, fleet, ledger, memo=memo)
        if isinstance(outcome, Placed):
            lowered = (("cpu_millis", cpu), ("memory_bytes", memory), ("gpu_type", outcome.choice.gpu.name))
            return Remedy(RemedyKind.LOWER_REQUESTS, lowered)
    return None


def _own_limits(
    request: Request, fleet: Fleet, ledger: Ledger, rejections: Sequence[Rejection], memo: Memo | None
) -> Remedy | None:
    """State the requests as limits, so that no LimitRange fills in others. Limits of the user's stay as they are."""
    for rejection in rejections:
        if rejection.reason is not Reason.LIMIT_RANGE_EXCEEDED:
            continue
        need = _need(request, rejection, fleet)
        cpu, memory = request.cpu_limit_millis, request.memory_limit_bytes
        numbers: Numbers = ()
        if cpu is None and _is_bound("cpu", rejection):
            cpu = need.cpu_millis
            numbers = (("cpu_millis", cpu),)
        if memory is None and _is_bound("memory", rejection):
            memory = ceil_div(need.memory_bytes, MIB) * MIB
            numbers = (*numbers, ("memory_bytes", memory))
        limited = replace(request, cpu_limit_millis=cpu, memory_limit_bytes=memory)
        outcome = place(limited, fleet, ledger, memo=memo) if numbers else None
        if isinstance(outcome, Placed) and request.host_need(outcome.choice.host).is_within(need):
            return Remedy(RemedyKind.STATE_LIMITS, (*numbers, ("gpu_type", outcome.choice.gpu.name)))
    return None


def _is_bound(resource: str, rejection: Rejection) -> bool:
    """Whether a bound on the resource is among those that refuse the pod."""
    return any(name.startswith("resource") and value == resource for name, value in rejection.numbers)


def _less_of_other(
    request: Request, rejection: Rejection, fleet: Fleet, ledger: Ledger, memo: Memo | None
) -> Remedy | None:
    numbers = dict(rejection.numbers)
    resource = str(numbers["resource"])
    left = int(numbers["free_bytes"]) // MIB * MIB if is_in_bytes(resource) else int(numbers["free"])
    lowered = dict(request.other_resources) | {resource: left}
    others = tuple(sorted((name, amount) for name, amount in lowered.items() if amount > 0))
    outcome = place(replace(request, other_resources=others), fleet, ledger, memo=memo)
    if not isinstance(outcome, Placed):
        return None
    found = (("resource", resource), ("amount", left), ("gpu_type", outcome.choice.gpu.name))
    return Remedy(RemedyKind.LOWER_REQUESTS, found)


def _need(request: Request, rejection: Rejection, fleet: Fleet) -> HostNeed:
    return need_of_pool(request, rejection.gpu_type, rejection.split, fleet)


def _other_nodes(
    request: Request, fleet: Fleet, ledger: Ledger, rejections: Sequence[Rejection], reason: Reason, memo: Memo | None
) -> Remedy | None:
    """Return that it fits where the rule behind a reason holds."""
    refused = next((each for each in rejections if each.reason is reason), None)
    if refused is None:
        return None
    rules = tuple(rule for rule in request.node_rules if rule.reason is not reason)
    outcome = place(replace(request, node_rules=rules), fleet, ledger, memo=memo)
    if not isinstance(outcome, Placed):
        return None
    figures = tuple(each for each in refused.numbers if each[0] in _FIGURES_OF_NODES)
    return Remedy(_OF_NODES[reason], (*figures, ("gpu_type", outcome.choice.gpu.name)))
