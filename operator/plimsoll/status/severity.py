"""The state of an InferenceDeployment in one word, and how much it needs a person: one function for everybody.

The operator's metric (and so the alerts), the inbox, the lists, the map and ``plimsoll top`` ask it. It reads what a
status says, so everybody who reads the same status says the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from types import MappingProxyType

from plimsoll.domain.public_words import ConditionReason as Why
from plimsoll.domain.public_words import ConditionType as Kind
from plimsoll.domain.public_words import LiveTrouble, RoutingTrouble
from plimsoll.domain.units import to_rfc3339


class Severity(IntEnum):
    """How much a deployment needs a person, most first: what is down, what is slow, what waits, what is estimated."""

    OUTAGE = 0
    """Nothing serves, and waiting does not help."""
    TROUBLE = 1
    """It serves, and worse than it was asked for; or its last change does not come up."""
    WAITING = 2
    """Something is missing that may come: GPUs, a quota, a queue, a node, a source of facts."""
    OVER = 3
    """The need is beyond the load line, by the estimate."""
    NEAR = 4
    """The load line is inside of the estimate's error band."""
    PASSING = 5
    """It is on its way: it starts, is rolled out, or was not seen yet."""
    FINE = 6
    """It is as it was asked for."""


class State(StrEnum):
    """The state in a word or two. ``docs/states.md`` shows them all."""

    DELETED = "being deleted"
    UNSEEN = "not seen yet"
    INVALID = "invalid spec"
    UNUSABLE = "cannot be planned"
    REFUSED = "nothing fits"
    NOT_RUN = "pods refused"
    FAILED = "failed starts"
    LATE = "change does not come up"
    SUSPENDED = "suspended"
    ASLEEP = "scaled to zero"
    WAITS_FOR_GPUS = "waits for GPUs"
    WAITS_FOR_ROOM = "waits for CPU or memory"
    WAITS_FOR_QUOTA = "waits for quota"
    WAITS_FOR_QUEUE = "waits for the queue"
    WAITS_FOR_NODES = "waits for new nodes"
    WAITS_FOR_SCHEDULER = "waits for a node"
    WAITS_FOR_FACTS = "waits for a source"
    PROMISE_MISSED = "promise missed"
    KV_CACHE_FULL = "KV cache full"
    REQUESTS_WAIT = "requests wait"
    PREEMPTIONS = "preemptions"
    REPLICA_SLOW = "slow replica"
    REPLICA_SILENT = "silent replica"
    REPLICA_STUCK = "stuck replica"
    UNEVEN = "uneven load"
    CACHE_TOO_SMALL = "cache too small"
    NOT_ROUTED = "not routed"
    WEIGHTS_ARRIVE = "weights arrive"
    WEIGHTS_FAILED = "weights failed"
    STARTING = "starting"
    SERVES_IN_PART = "serves in part"
    ROLLING_OUT = "rolling out"
    OVER = "over its line"
    NEAR = "near its line"
    SERVING = "serving"


class LoadLine(IntEnum):
    """Where the need of a GPU is, by its estimate: within the load line, with the line in its error band, beyond it."""

    WITHIN = 0
    NEAR = 1
    OVER = 2


def load_line(lower: int, upper: int, budget: int, override: int | None) -> LoadLine:
    """Return where a need is.

    Args:
        lower: the lower edge of the error band, in bytes.
        upper: the upper edge: the need with its margin.
        budget: the memory that the engine may use.
        override: the admin's figure that replaces the need; the computed need counts all the same.
    """
    if lower > budget or (override is not None and upper > budget):
        return LoadLine.OVER
    return LoadLine.NEAR if upper > budget else LoadLine.WITHIN


@dataclass(frozen=True, slots=True)
class Sign:
    """A condition in short: its reason for programs, its message for people, and its last transition (POSIX s)."""

    status: str
    reason: str
    message: str
    since: float | None = None


FULL_FROM = 0.9
"""The used share of the KV cache from which it counts as full; the alert PlimsollKvCacheOverLine has the same."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """The live figures of engines: the used share of the KV cache (0 to 1), and the requests that wait."""

    kv_share: float
    waiting: float

    @property
    def is_full(self) -> bool:
        """Whether requests wait because the KV cache has no room for them."""
        return self.kv_share >= FULL_FROM and self.waiting >= 1


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A finding that somebody knows of: it rests until then, unless it gets worse or the spec changes.

    Attributes:
        finding: the finding's word (:attr:`Judged.finding`).
        generation: that of the spec that it was found with.
        severity: how severe it was.
        serves: whether anything served.
        by: the user name.
        until: its end, in POSIX seconds.
        approval: the uid of the PlacementApproval.
        reason: why, for people.
    """

    finding: str
    generation: int
    severity: Severity
    serves: bool
    by: str
    until: float
    approval: str
    reason: str = ""

    def holds(self, judged: Judged, generation: int, now: float) -> bool:
        """Whether it has not ended. It holds while another finding is the one that matters most."""
        if now >= self.until or generation != self.generation:
            return False
        is_worse = judged.severity < self.severity or (self.serves and not judged.serves)
        return judged.finding != self.finding or not is_worse

    def words(self) -> str:
        """Return who knows of what until when, and why."""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.finding} is acknowledged by {self.by} until {to_rfc3339(self.until)}{why}"


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs that a state is judged from.

    Attributes:
        conditions: the conditions of the status, by type.
        is_deleted: whether the object has a ``deletionTimestamp``.
        created: since when there is the object, in POSIX seconds; None: not known.
        line: where the need of a GPU is, by the estimate.
        pressure: what the engines report now; None: it is not known here.
        generation: that of the spec.
        acknowledged: the findings that people know of.
    """

    conditions: Mapping[str, Sign] = field(default_factory=lambda: MappingProxyType({}))
    is_deleted: bool = False
    created: float | None = None
    line: LoadLine = LoadLine.WITHIN
    pressure: Pressure | None = None
    generation: int = 0
    acknowledged: tuple[Acknowledgement, ...] = ()

    def of(self, kind: Kind) -> Sign | None:
        """The condition of this type."""
        return self.conditions.get(kind)

    def true(self, kind: Kind) -> Sign | None:
        """The condition of this type if it is true."""
        sign = self.of(kind)
        return sign if sign is not None and sign.status == "True" else None


@dataclass(frozen=True, slots=True)
class Judged:
    """A state, how much it needs a person, and the condition that says why; None: no condition does.

    ``serves`` is whether anything serves, and ``known`` the acknowledgement that holds for it.
    """

    state: State
    severity: Severity
    why: Sign | None = None
    since: float | None = None
    serves: bool = False
    known: Acknowledgement | None = None

    @property
    def finding(self) -> str:
        """The word by which it can be acknowledged; empty if it needs nobody."""
        if self.severity not in ALERTS:
            return ""
        return _WITHOUT_CONDITION.get(self.state, "") if self.why is None else self.why.reason


PATIENCE_SECONDS: Mapping[Severity, float] = MappingProxyType(
    {
        Severity.OUTAGE: 0.0,
        Severity.TROUBLE: 600.0,
        Severity.WAITING: 900.0,
        Severity.OVER: 900.0,
        Severity.PASSING: 1800.0,
    }
)
"""How long each is left alone before it needs a person: the ``for`` of its alert. The others never do."""

ALERTS: Mapping[Severity, str] = MappingProxyType(
    {
        Severity.OUTAGE: "PlimsollDeploymentDown",
        Severity.TROUBLE: "PlimsollDeploymentInTrouble",
        Severity.WAITING: "PlimsollDeploymentWaits",
        Severity.OVER: "PlimsollDeploymentOverLine",
        Severity.PASSING: "PlimsollDeploymentStartsLong",
    }
)
"""The alert of each."""


def needs_a_person(judged: Judged, now: float) -> bool:
    """Whether the alert of a state fires by now (POSIX seconds). A state without a known beginning has lasted."""
    patience = PATIENCE_SECONDS.get(judged.severity)
    return patience is not None and (judged.since is None or now - judged.since >= patience)


_ABOUT_THE_SPEC = frozenset(
    {
        Why.INVALID_SPEC,
        Why.NOT_PERMITTED,
        Why.TOO_LARGE,
        Why.UNSUPPORTED_MODEL,
        Why.INVALID_MODEL_CONFIG,
        Why.MODEL_NOT_FOUND,
    }
)

_WAITS: Mapping[str, State] = MappingProxyType(
    {
        Why.WAITING_FOR_GPUS: State.WAITS_FOR_GPUS,
        Why.CHANGE_WAITS_FOR_GPUS: State.WAITS_FOR_GPUS,
        Why.WAITING_FOR_NODE_RESOURCES: State.WAITS_FOR_ROOM,
        Why.WAITING_FOR_QUOTA: State.WAITS_FOR_QUOTA,
        Why.WAITING_FOR_QUEUE: State.WAITS_FOR_QUEUE,
        Why.WAITING_FOR_NODES: State.WAITS_FOR_NODES,
        Why.WAITING_FOR_SCHEDULER: State.WAITS_FOR_SCHEDULER,
        Why.NO_GPU_FITS: State.WAITS_FOR_NODES,
        Why.PODS_NOT_CREATED: State.NOT_RUN,
        Why.MODEL_SOURCE_UNAVAILABLE: State.WAITS_FOR_FACTS,
        Why.TOKEN_SECRET_MISSING: State.UNUSABLE,
        Why.PRIORITY_CLASS_MISSING: State.UNUSABLE,
        Why.CLAIM_UNUSABLE: State.UNUSABLE,
        Why.NAMESAKE_LEAVING: State.UNUSABLE,
    }
)
"""By the reason of ``Ready``, where waiting may help. ``NoGpuFits`` waits only while nodes are to come."""

_TROUBLES: Mapping[str, State] = MappingProxyType(
    {
        LiveTrouble.KV_BOUND: State.KV_CACHE_FULL,
        LiveTrouble.BATCH_BOUND: State.REQUESTS_WAIT,
        LiveTrouble.DECODE_BOUND: State.REQUESTS_WAIT,
        LiveTrouble.HOST_BOUND: State.REQUESTS_WAIT,
        LiveTrouble.PREFILL_BOUND: State.REQUESTS_WAIT,
        LiveTrouble.QUEUE_BOUND: State.REQUESTS_WAIT,
        LiveTrouble.PREEMPTION_STORM: State.PREEMPTIONS,
        LiveTrouble.REPLICA_SLOW: State.REPLICA_SLOW,
        LiveTrouble.REPLICA_SILENT: State.REPLICA_SILENT,
        LiveTrouble.STUCK_REPLICA: State.REPLICA_STUCK,
        LiveTrouble.PAGE_LIVELOCK: State.REPLICA_STUCK,
        LiveTrouble.IMBALANCED: State.UNEVEN,
        LiveTrouble.PROMISE_MISSED: State.PROMISE_MISSED,
        LiveTrouble.TOO_SLOW: State.PROMISE_MISSED,
        RoutingTrouble.GATEWAY_MISSING: State.NOT_ROUTED,
        RoutingTrouble.ROUTE_NOT_ACCEPTED: State.NOT_ROUTED,
        RoutingTrouble.ROUTER_NOT_READY: State.NOT_ROUTED,
        RoutingTrouble.ROUTER_REFUSED: State.NOT_ROUTED,
    }
)
"""By the reason of ``Troubled``."""


def state_of(signs: Signs) -> Judged:
    """Return the state that matters most, and what says so."""
    ready = signs.of(Kind.READY)
    if signs.is_deleted:
        return Judged(State.DELETED, Severity.FINE, ready)
    if ready is None or (ready.reason == Why.PENDING and ready.status == "Unknown"):
        return Judged(State.UNSEEN, Severity.PASSING, ready, signs.created)
    judged, trouble = _stalled(signs) or _unready(signs, ready) or _served(signs, ready), _trouble(signs)
    worst = judged if trouble is None or judged.severity <= trouble.severity else trouble
    return replace(worst, serves=signs.true(Kind.AVAILABLE) is not None)


def state_at(signs: Signs, now: float) -> Judged:
    """Return the same with the acknowledgement that holds for it at a time (POSIX seconds)."""
    judged = state_of(signs)
    holding = (each for each in signs.acknowledged if each.holds(judged, signs.generation, now))
    return replace(judged, known=next((each for each in holding if each.finding == judged.finding), None))


_WITHOUT_CONDITION: Mapping[State, str] = MappingProxyType(
    {State.KV_CACHE_FULL: LiveTrouble.KV_BOUND, State.OVER: "OverLine"}
)
"""The findings of states that no condition says."""


def _lasting(state: State, severity: Severity, why: Sign | None) -> Judged:
    return Judged(state, severity, why, None if why is None else why.since)


def waiting_state(reason: str) -> State | None:
    """The state of a deployment that waits, by a reason of its conditions; None: it does not wait for that."""
    return _WAITS.get(reason)


def _stalled(signs: Signs) -> Judged | None:
    stalled = signs.true(Kind.STALLED)
    if stalled is None:
        return None
    serves = signs.true(Kind.AVAILABLE) is not None
    severity = Severity.TROUBLE if serves else Severity.OUTAGE
    return _lasting(_stalled_state(signs, stalled, serves=serves), severity, stalled)


def _stalled_state(signs: Signs, stalled: Sign, *, serves: bool) -> State:
    """Name what stalls, by the question that has no yes: the plan, the pods, or the engines."""
    planned, placed = signs.of(Kind.PLANNED), signs.of(Kind.PLACED)
    if planned is not None and planned.status == "False" and planned.reason == stalled.reason:
        if stalled.reason == Why.NO_GPU_FITS:
            return State.REFUSED
        return State.INVALID if stalled.reason in _ABOUT_THE_SPEC else State.UNUSABLE
    if stalled.reason == Why.WEIGHTS_FAILED:
        return State.WEIGHTS_FAILED
    if placed is not None and placed.status == "False" and placed.reason == stalled.reason:
        return State.NOT_RUN
    return State.LATE if serves else State.FAILED


def _unready(signs: Signs, ready: Sign) -> Judged | None:
    """Judge what does not serve as asked, and may do so by itself."""
    if ready.status == "True":
        return None
    waits = _WAITS.get(ready.reason)
    if waits is not None:
        first = signs.of(Kind.PLANNED)
        why = first if first is not None and first.reason == ready.reason else ready
        return Judged(waits, Severity.WAITING, ready, why.since)
    available = signs.true(Kind.AVAILABLE)
    if ready.reason == Why.WEIGHTS_ARRIVING:
        return _lasting(State.WEIGHTS_ARRIVE, Severity.PASSING, ready)
    if available is None:
        return _lasting(State.STARTING, Severity.PASSING, ready)
    in_part = available.reason == Why.SOME_REPLICAS_SERVE
    return _lasting(State.SERVES_IN_PART if in_part else State.ROLLING_OUT, Severity.PASSING, ready)


def _trouble(signs: Signs) -> Judged | None:
    """Judge how well it serves, whatever else becomes of it: a replica that starts does not hide requests that wait."""
    troubled, pressure = signs.true(Kind.TROUBLED), signs.pressure
    if troubled is not None and troubled.reason in _TROUBLES:
        return _lasting(_TROUBLES[troubled.reason], Severity.TROUBLE, troubled)
    is_full = pressure is not None and pressure.is_full
    return Judged(State.KV_CACHE_FULL, Severity.TROUBLE) if is_full else None


def _served(signs: Signs, ready: Sign) -> Judged:
    """Judge what serves as asked, or is not to serve."""
    if ready.reason == Why.SUSPENDED:
        return Judged(State.SUSPENDED, Severity.FINE, ready)
    if ready.reason == Why.SCALED_TO_ZERO:
        return Judged(State.ASLEEP, Severity.FINE, ready)
    planned = signs.of(Kind.PLANNED)
    if planned is not None and planned.reason == Why.PLACEMENT_TOO_SMALL:
        return _lasting(State.CACHE_TOO_SMALL, Severity.TROUBLE, planned)
    if signs.line is LoadLine.OVER:
        return Judged(State.OVER, Severity.OVER)
    if signs.line is LoadLine.NEAR:
        return Judged(State.NEAR, Severity.NEAR)
    return Judged(State.SERVING, Severity.FINE, ready)


_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def diagnosis_words(diagnosis: str) -> str:
    """Return a diagnosis of the live loop for people. It is no verdict: the state of the deployment is that.

    Args:
        diagnosis: ``status.rebalancing.diagnosis``, e.g. ``KvBound``, ``NothingToChange`` or ``NotDiagnosed``.
    """
    if diagnosis in _TROUBLES:
        return _TROUBLES[diagnosis].value
    return _CAPITAL.sub(" ", diagnosis).lower()
