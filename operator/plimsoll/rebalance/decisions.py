"""The closed set of things the live loop can say, each with a public word and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.reasons import Numbers


class DecisionReason(StrEnum):
    """Why the loop decided so. Part of the API: never renamed, only added to."""

    MODE_OFF = "ModeOff"
    WITHIN_BAND = "WithinBand"
    THROUGHPUT_NEEDED = "ThroughputNeeded"
    SUSTAINED_KV_PRESSURE = "SustainedKvPressure"
    SUSTAINED_QUEUE = "SustainedQueue"
    BELOW_MIN_REPLICAS = "BelowMinReplicas"
    SUSTAINED_SLACK = "SustainedSlack"
    ABOVE_MAX_REPLICAS = "AboveMaxReplicas"
    NEED_OUTGREW_PLACEMENT = "NeedOutgrewPlacement"
    PLACEMENT_TOO_SMALL = "PlacementTooSmall"
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    METRICS_INVALID = "MetricsInvalid"
    METRICS_MISSING = "MetricsMissing"
    METRICS_STALE = "MetricsStale"
    WINDOW_NOT_COVERED = "WindowNotCovered"
    REPLICAS_STARTING = "ReplicasStarting"
    COOLING_DOWN = "CoolingDown"
    HOURLY_BUDGET_SPENT = "HourlyBudgetSpent"
    AT_MAX_REPLICAS = "AtMaxReplicas"
    AT_MIN_REPLICAS = "AtMinReplicas"
    NO_PLACE_FOUND = "NoPlaceFound"
    MOVE_UNDER_WAY = "MoveUnderWay"


@dataclass(frozen=True, slots=True)
class _Said:
    reason: DecisionReason
    numbers: Numbers = ()

    def number(self, name: str) -> int | str:
        """One of the numbers by name. Raises KeyError when the reason does not carry it."""
        return dict(self.numbers)[name]


@dataclass(frozen=True, slots=True)
class Keep(_Said):
    """All is well, or the loop is off: nothing to change."""


@dataclass(frozen=True, slots=True)
class AddReplica(_Said):
    """One replica more."""


@dataclass(frozen=True, slots=True)
class RemoveReplica(_Said):
    """One replica less; one that is not ready first."""


@dataclass(frozen=True, slots=True)
class Move(_Said):
    """Place the deployment anew: the new replicas serve before the old ones end."""


@dataclass(frozen=True, slots=True)
class Wait(_Said):
    """Nothing now: something the decision needs is unknown, or a bound stands against it."""


Decision = Keep | AddReplica | RemoveReplica | Move | Wait
