"""The limits of a problem: what one replica uses of the slots, the CPU and memory of its nodes, and of its quota.

Replicas whose sizes divide each other (1, 2, 4 and 8 GPUs) fit on a set of nodes exactly if, for each size k, they
take no more slots of k GPUs than the nodes have: the sum of floor(size / k) is at most the sum of floor(free / k). So
no variable is needed for a node. For other sizes, and for CPU and memory, these limits are necessary and not always
sufficient: packing finds what does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from plimsoll.domain.cluster.host import is_in_bytes
from plimsoll.placement.solvers.problem import Choice, Group, Kind, Problem

Where = tuple[int, int, int]
"""The indexes of a kind, of one of its choices, and of a group of nodes."""

_BYTES_PER_GIB = 2**30
_MILLIS_PER_CORE = 1000


@dataclass(frozen=True, slots=True)
class Limit:
    """The sum over all replicas of what each uses is at most ``at_most``."""

    at_most: float
    uses: tuple[tuple[Where, float], ...]


def limits_of(problem: Problem) -> list[Limit]:
    """Return all limits that a replica can reach."""
    on_group: list[list[Where]] = [[] for _ in problem.groups]
    on_quota: list[dict[Where, float]] = [{} for _ in problem.quotas]
    for number, kind in enumerate(problem.kinds):
        for index, choice in enumerate(kind.choices):
            for group in choice.groups:
                on_group[group].append((number, index, group))
                for quota, amount in choice.quotas:
                    on_quota[quota][number, index, group] = amount
    found = [
        _limit(problem, at_most, users, use)
        for group, users in zip(problem.groups, on_group, strict=True)
        for at_most, use in _of_group(group)
    ]
    found += [Limit(left, tuple(uses.items())) for left, uses in zip(problem.quotas, on_quota, strict=True)]
    return [limit for limit in found if limit.uses]


Use = Callable[[Kind, Choice], float]


def _limit(problem: Problem, at_most: float, users: list[Where], use: Use) -> Limit:
    used = ((where, use(problem.kinds[where[0]], problem.kinds[where[0]].choices[where[1]])) for where in users)
    return Limit(at_most, tuple(each for each in used if each[1]))


def _of_group(group: Group) -> Iterator[tuple[float, Use]]:
    for size, slots in group.slots:
        yield slots, _slots(size)
    for size, pods in group.pods:
        yield pods, _pods(size)
    if group.cpu_millis is not None:
        yield group.cpu_millis / _MILLIS_PER_CORE, lambda _, choice: choice.need.cpu_millis / _MILLIS_PER_CORE
    if group.memory_bytes is not None:
        yield group.memory_bytes / _BYTES_PER_GIB, lambda _, choice: choice.need.memory_bytes / _BYTES_PER_GIB
    for resource, amount in group.others:
        unit = _BYTES_PER_GIB if is_in_bytes(resource) else 1
        yield amount / unit, _of_other(resource, unit)


def _of_other(resource: str, unit: int) -> Use:
    return lambda _, choice: dict(choice.need.others).get(resource, 0) / unit


def _slots(size: int) -> Use:
    return lambda _, choice: choice.gpus // size


def _pods(size: int) -> Use:
    return lambda _, choice: float(choice.gpus >= size)
