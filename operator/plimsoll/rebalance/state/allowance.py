"""The limits of a deployment from outside: the cluster's switch, maintenance windows, and the moves of all others."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll.rebalance.state.fleet_budget import Spent


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
