"""How many moves and changes of settings the last hour saw in all deployments together, and who may make one more.

They are counted from the statuses of all deployments, so a restart changes nothing. Whoever may write a status can
write changes into it that never happened. So a deployment counts for a quarter of the bound at most, and a namespace
for half of it, and neither makes more than that: nobody can use up what the others need.

The limits of a deployment from outside: the cluster's switch, maintenance windows, and the moves of all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.state.history import HOUR_SECONDS, ChangeHistory, ChangeKind

COUNTED = (ChangeKind.MOVE, ChangeKind.RETUNE)
"""The changes that restart all engines of a deployment. Additions and removals follow the load and are not counted."""

PARTS_OF_A_DEPLOYMENT = 4
"""A deployment makes a quarter of the changes at most: three of the usual twelve. Its own cool-down of half an hour
allows two."""

PARTS_OF_A_NAMESPACE = 2
"""A namespace makes half of the changes at most, so that each tenant leaves room for the others."""


class Scope(StrEnum):
    """The part of the cluster whose share is spent."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True)
class Spent:
    """A share that is spent: the changes of the last hour that count, and the most that are allowed."""

    scope: Scope
    changes: int
    bound: int


@dataclass(frozen=True, slots=True)
class FleetBudget:
    """The changes of the last hour. Make it with :meth:`of` or :meth:`of_counts`.

    Attributes:
        bound: the most changes of all deployments together in 60 minutes.
        by_deployment: those of each deployment that has some, at most its share.
        by_namespace: those of each namespace that has some, at most its share.
        total: those of all namespaces.
    """

    bound: int
    by_deployment: Mapping[ObjectKey, int]
    by_namespace: Mapping[str, int]
    total: int

    @staticmethod
    def of(bound: int, histories: Iterable[tuple[ObjectKey, ChangeHistory]], now: float) -> FleetBudget:
        """Count the changes of all deployments. ``now`` is in POSIX seconds."""
        counts = ((key, counted(history, now)) for key, history in histories)
        return FleetBudget.of_counts(bound, {key: count for key, count in counts if count})

    @staticmethod
    def of_counts(bound: int, counts: Mapping[ObjectKey, int]) -> FleetBudget:
        """Return the budget after each deployment has made so many changes."""
        most_of_one, most_of_namespace = _share(bound, PARTS_OF_A_DEPLOYMENT), _share(bound, PARTS_OF_A_NAMESPACE)
        by_deployment = {key: min(count, most_of_one) for key, count in counts.items()}
        by_namespace: dict[str, int] = {}
        for key, count in by_deployment.items():
            by_namespace[key.namespace] = min(by_namespace.get(key.namespace, 0) + count, most_of_namespace)
        return FleetBudget(bound, by_deployment, by_namespace, sum(by_namespace.values()))

    def with_one_more(self, key: ObjectKey) -> FleetBudget:
        """Return the budget after this deployment has made one more change."""
        counts = {**self.by_deployment, key: self.by_deployment.get(key, 0) + 1}
        return FleetBudget.of_counts(self.bound, counts)

    def spent(self, key: ObjectKey) -> Spent | None:
        """Return the first share that leaves this deployment no change now; None if it may make one."""
        own, shared = self.by_deployment.get(key, 0), self.by_namespace.get(key.namespace, 0)
        shares = (
            Spent(Scope.DEPLOYMENT, own, _share(self.bound, PARTS_OF_A_DEPLOYMENT)),
            Spent(Scope.NAMESPACE, shared, _share(self.bound, PARTS_OF_A_NAMESPACE)),
            Spent(Scope.CLUSTER, self.total, self.bound),
        )
        return next((share for share in shares if share.changes >= share.bound), None)


def counted(history: ChangeHistory, now: float) -> int:
    """Return the changes of the last hour that the budget counts.

    A change in the future counts as one of now, because a clock may have been set back.
    """
    return sum(mark.kind in COUNTED and now - mark.at < HOUR_SECONDS for mark in history.changes)


def _share(bound: int, parts: int) -> int:
    """Return a part of the bound, rounded up, so that every share of a bound above 0 allows one change."""
    return -(-bound // parts)


@dataclass(frozen=True, slots=True)
class Opening:
    """The maintenance windows of a deployment. ``opens_at`` is when the next one opens, in POSIX seconds."""

    is_open: bool = True
    opens_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """The allowance of a deployment at one moment. Without any argument, everything is allowed.

    Attributes:
        suspended: whether the cluster's switch holds all deployments.
        opening: the maintenance windows of this deployment.
        spent: the share of the fleet's moves that leaves this deployment none now; None: it may move.
    """

    suspended: bool = False
    opening: Opening = field(default_factory=Opening)
    spent: Spent | None = None
