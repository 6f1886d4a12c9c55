"""The closed set of decisions of the live loop, each with a public reason and its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.engines.engine_choice import NO_LIMITS, StepLimits
from plimsoll.domain.public_words import Numbers


class DecisionReason(StrEnum):
    """The reason for a decision. Part of the API: members are added, and never renamed."""

    MODE_OFF = "ModeOff"
    WITHIN_BAND = "WithinBand"
    ARRIVALS_EXCEED_CAPACITY = "ArrivalsExceedCapacity"
    RISE_EXPECTED = "RiseExpected"
    BACKLOG_TOO_LONG = "BacklogTooLong"
    SUSTAINED_KV_PRESSURE = "SustainedKvPressure"
    SUSTAINED_QUEUE = "SustainedQueue"
    REQUESTS_WAIT_AT_GATEWAY = "RequestsWaitAtGateway"
    REPLICAS_STUCK = "ReplicasStuck"
    REPLICA_SLOW = "ReplicaSlow"
    REPLICA_SILENT = "ReplicaSilent"
    REPLACING_DOES_NOT_HELP = "ReplacingDoesNotHelp"
    MAKES_ROOM = "MakesRoom"
    GIVES_WAY = "GivesWay"
    NO_ROOM_WAS_MADE = "NoRoomWasMade"
    BATCH_LIMIT_BINDS = "BatchLimitBinds"
    PROMPT_STEP_TOO_SMALL = "PromptStepTooSmall"
    PROMPT_STEP_TOO_LARGE = "PromptStepTooLarge"
    PREEMPTION_STORM = "PreemptionStorm"
    LOAD_IMBALANCED = "LoadImbalanced"
    RANKS_IMBALANCED = "RanksImbalanced"
    PAGE_LIVELOCK = "PageLivelock"
    PROMISE_MISSED = "PromiseMissed"
    BELOW_MIN_REPLICAS = "BelowMinReplicas"
    SCHEDULED_MINIMUM = "ScheduledMinimum"
    NOT_ROUTED = "NotRouted"
    SUSTAINED_SLACK = "SustainedSlack"
    NO_REQUESTS = "NoRequests"
    NO_REQUEST_WAITS = "NoRequestWaits"
    ABOVE_MAX_REPLICAS = "AboveMaxReplicas"
    PROMISE_OUT_OF_REACH = "PromiseOutOfReach"
    CHEAPER_PLACE = "CheaperPlace"
    OTHER_ENGINE_FITS = "OtherEngineFits"
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
    REVERSALS_SPENT = "ReversalsSpent"
    ADDITIONS_DO_NOT_SERVE = "AdditionsDoNotServe"
    ADDITIONS_DO_NOT_HELP = "AdditionsDoNotHelp"
    ADDITION_NOT_PROVEN = "AdditionNotProven"
    ADDITIONS_PER_HOUR_SPENT = "AdditionsPerHourSpent"
    DOLLARS_PER_HOUR_SPENT = "DollarsPerHourSpent"
    AT_MAX_REPLICAS = "AtMaxReplicas"
    AT_MIN_REPLICAS = "AtMinReplicas"
    SCALED_EXTERNALLY = "ScaledExternally"
    SCALE_CONTESTED = "ScaleContested"
    NO_PLACE_FOUND = "NoPlaceFound"
    OTHERS_CAN_MAKE_ROOM = "OthersCanMakeRoom"
    NO_FASTER_PLACE = "NoFasterPlace"
    MOVE_UNDER_WAY = "MoveUnderWay"
    OUTSIDE_MAINTENANCE_WINDOW = "OutsideMaintenanceWindow"
    FLEET_BUDGET_SPENT = "FleetBudgetSpent"
    SUSPENDED_FOR_CLUSTER = "SuspendedForCluster"


@dataclass(frozen=True, slots=True)
class _Reasoned:
    reason: DecisionReason
    numbers: Numbers = ()

    def number(self, name: str) -> int | str:
        """Return one of the numbers by name. Raises KeyError when the reason does not have it."""
        return dict(self.numbers)[name]


@dataclass(frozen=True, slots=True)
class Keep(_Reasoned):
    """Change nothing: the load is within the bounds, or the loop is off."""


@dataclass(frozen=True, slots=True)
class AddReplica(_Reasoned):
    """Add ``count`` replicas."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class RemoveReplica(_Reasoned):
    """Remove ``count`` replicas. Those that are not ready go first; or it is ``pod`` on ``node``, to make room."""

    count: int = 1
    pod: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Retune(_Reasoned):
    """Restart the engines one after another with another limit of a replica. The other one is 0, and stays as it is."""

    limits: StepLimits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Move(_Reasoned):
    """Place the deployment again: the new replicas serve before the old ones end.

    ``engine`` is the name of the engine that they run; empty: the same as before.
    """

    engine: str = ""


@dataclass(frozen=True, slots=True)
class ReplaceReplica(_Reasoned):
    """Replace one replica: a new one serves before ``pod`` on ``node`` ends, and others keep off that node."""

    pod: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Wait(_Reasoned):
    """Change nothing now: the decision needs an unknown value, or a bound forbids the change."""


LoopDecision = Keep | AddReplica | RemoveReplica | Retune | Move | ReplaceReplica | Wait

Change = AddReplica | RemoveReplica | Retune | Move | ReplaceReplica
"""The decisions that change something."""
