"""Diagnose the load of a deployment: what the signals say, before any bound and before any change.

The diagnosis cannot oscillate at constant load. There are too few replicas when demand stays at or above
``high_percent`` of what N replicas hold. One of N+1 replicas is superfluous when demand stays at or below
``low_percent`` of what N hold, and low is less than high. A superfluous replica needs both enough memory and enough
throughput in the remaining ones (see :class:`plimsoll.rebalance.history.Ceiling`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.decisions import DecisionReason
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, SignalState
from plimsoll.rebalance.situation import DeclaredNeed, PlacementState, Situation
from plimsoll.rebalance.slack import allows_removal, throughput_allows_removal


class DiagnosisKind(StrEnum):
    """A finding about the load. Remedies read the kind; the reason and its numbers are for people."""

    HEALTHY = "Healthy"
    """Nothing is wrong."""
    UNKNOWN = "Unknown"
    """The signals do not say: some are missing or old, or replicas still start."""
    TOO_FEW_REPLICAS = "TooFewReplicas"
    """There are fewer replicas than the user's minimum."""
    TOO_MANY_REPLICAS = "TooManyReplicas"
    """There are more replicas than the user's maximum."""
    KV_BOUND = "KvBound"
    """The requests need nearly all of the KV cache, or more than all of it."""
    QUEUE_BOUND = "QueueBound"
    """Requests wait although the KV cache has room."""
    IDLE = "Idle"
    """The load leaves one replica superfluous."""
    OUTGROWN = "Outgrown"
    """The GPU type and split give less memory than the declared load needs."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One diagnosis: its kind, the public reason, and the numbers that prove it."""

    kind: DiagnosisKind
    reason: DecisionReason
    numbers: Numbers = ()


_UNKNOWN_BECAUSE = {
    SignalState.UNAVAILABLE: DecisionReason.METRICS_UNAVAILABLE,
    SignalState.INVALID: DecisionReason.METRICS_INVALID,
    SignalState.MISSING: DecisionReason.METRICS_MISSING,
    SignalState.STALE: DecisionReason.METRICS_STALE,
    SignalState.COLD: DecisionReason.WINDOW_NOT_COVERED,
}


def diagnose(situation: Situation) -> Diagnosis:
    """Diagnose once. The user's bounds and declarations come first, then the load."""
    need, placement, load, policy = situation.need, situation.placement, situation.load, situation.policy
    return (
        _by_bounds(placement, policy)
        or _by_capacity(need, load)
        or _by_estimate(need, placement, load)
        or _by_pressure(placement, load, policy)
        or _by_missing_data(placement, load, policy)
        or _by_slack(situation)
    )


def _by_bounds(placement: PlacementState, policy: RebalancePolicy) -> Diagnosis | None:
    """Compare the number of replicas with the user's bounds. This needs no metrics, so no outage delays it."""
    bounds = (("replicas", placement.replicas), ("min", policy.min_replicas), ("max", policy.max_replicas))
    if placement.replicas < policy.min_replicas:
        return Diagnosis(DiagnosisKind.TOO_FEW_REPLICAS, DecisionReason.BELOW_MIN_REPLICAS, bounds)
    if placement.replicas > policy.max_replicas:
        return Diagnosis(DiagnosisKind.TOO_MANY_REPLICAS, DecisionReason.ABOVE_MAX_REPLICAS, bounds)
    return None


def _by_capacity(need: DeclaredNeed, load: LoadSummary) -> Diagnosis | None:
    """The placement is outgrown when an engine has less KV cache than declared, even if little of it is used today."""
    smallest = load.smallest_capacity_tokens
    if smallest is None or smallest >= need.kv_tokens:
        return None
    numbers = (("held_tokens", smallest), ("needed_tokens", need.kv_tokens))
    return Diagnosis(DiagnosisKind.OUTGROWN, DecisionReason.PLACEMENT_TOO_SMALL, numbers)


def _by_estimate(need: DeclaredNeed, placement: PlacementState, load: LoadSummary) -> Diagnosis | None:
    """It is also outgrown when the estimate exceeds the GPU, unless serving engines prove that the load fits."""
    proven = load.smallest_capacity_tokens is not None and load.smallest_capacity_tokens >= need.kv_tokens > 0
    if proven or need.bytes_per_gpu <= placement.budget_bytes_per_gpu:
        return None
    numbers = (("needed_bytes", need.bytes_per_gpu), ("budget_bytes", placement.budget_bytes_per_gpu))
    return Diagnosis(DiagnosisKind.OUTGROWN, DecisionReason.NEED_OUTGREW_PLACEMENT, numbers)


def _by_pressure(placement: PlacementState, load: LoadSummary, policy: RebalancePolicy) -> Diagnosis | None:
    """Find whether the demand of the known pods alone is too high for the capacity of *all* replicas."""
    if not load.fresh_pods:
        return None
    replicas = max(placement.replicas, len(load.pods))
    unknown = replicas - load.fresh_pods
    held = load.held_tokens + unknown * placement.kv_capacity_tokens
    demanded = load.demanded_sustained_tokens
    common: Numbers = (("replicas", replicas), ("unknown", unknown), ("seconds", load.window_seconds))
    if held and demanded * 100 >= policy.high_percent * held:
        tokens: Numbers = (("demanded_tokens", demanded), ("held_tokens", held))
        percents: Numbers = (("pressure_percent", demanded * 100 // held), ("bound_percent", policy.high_percent))
        numbers = (*percents, *tokens, *common)
        return Diagnosis(DiagnosisKind.KV_BOUND, DecisionReason.SUSTAINED_KV_PRESSURE, numbers)
    bound = policy.queue_per_replica * replicas
    if load.waiting_sustained >= bound:
        numbers = (("waiting", load.waiting_sustained), ("bound", bound), *common)
        return Diagnosis(DiagnosisKind.QUEUE_BOUND, DecisionReason.SUSTAINED_QUEUE, numbers)
    return None


def _by_missing_data(placement: PlacementState, load: LoadSummary, policy: RebalancePolicy) -> Diagnosis | None:
    """Find a ready pod without usable metrics: unknown never counts as zero, so no replica is superfluous."""
    if placement.ready == 0:
        return _starting(placement)
    known: Numbers = (("fresh", load.fresh_pods), ("ready", placement.ready))
    worst = load.worst_pod
    if load.state is SignalState.FRESH and load.fresh_pods >= placement.ready:
        return None
    if load.state is SignalState.FRESH or worst is None:
        state = SignalState.UNAVAILABLE if load.state is SignalState.UNAVAILABLE else SignalState.MISSING
        return Diagnosis(DiagnosisKind.UNKNOWN, _UNKNOWN_BECAUSE[state], (*known, ("pod", "")))
    age: Numbers = () if worst.age_seconds is None else (("age_seconds", int(worst.age_seconds)),)
    bounds: Numbers = (("bound_seconds", policy.max_age_seconds), ("window_seconds", policy.window_seconds))
    numbers = (*known, ("pod", worst.pod), *age, *bounds)
    return Diagnosis(DiagnosisKind.UNKNOWN, _UNKNOWN_BECAUSE[load.state], numbers)


def _by_slack(situation: Situation) -> Diagnosis:
    """Find whether one replica is superfluous. Every ready pod is known here."""
    placement, load, policy = situation.placement, situation.load, situation.policy
    band: Numbers = (
        ("pressure_percent", load.demanded_sustained_tokens * 100 // load.held_tokens),
        ("peak_percent", -(-load.demanded_peak_tokens * 100 // load.held_tokens)),
        ("bound_percent", policy.high_percent),
        ("replicas", placement.replicas),
        ("seconds", load.window_seconds),
    )
    # A replica that is not ready holds no tokens, so its removal takes no capacity from the replicas that serve.
    all_ready = placement.ready >= placement.replicas
    remaining = placement.replicas - 1 if all_ready else placement.ready
    held = load.held_tokens - (load.largest_capacity_tokens if all_ready else 0)
    room = remaining >= 1 and allows_removal(load, held, policy)
    spare = room and _traffic_allows_removal(situation, remaining)
    if not spare and not all_ready:
        return _starting(placement)
    if not spare:
        reason = DecisionReason.THROUGHPUT_NEEDED if room else DecisionReason.WITHIN_BAND
        return Diagnosis(DiagnosisKind.HEALTHY, reason, band)
    numbers: Numbers = (
        ("pressure_percent", -(-load.demanded_peak_tokens * 100 // held)),
        ("bound_percent", policy.low_percent),
        ("demanded_tokens", load.demanded_peak_tokens),
        ("held_tokens", held),
        ("replicas", placement.replicas),
        ("remaining", remaining),
        ("seconds", load.window_seconds),
    )
    return Diagnosis(DiagnosisKind.IDLE, DecisionReason.SUSTAINED_SLACK, numbers)


def _traffic_allows_removal(situation: Situation, remaining: int) -> bool:
    ceiling = situation.history.clamped(situation.now).ceiling
    return throughput_allows_removal(situation.load, ceiling, remaining, situation.now, situation.policy)


def _starting(placement: PlacementState) -> Diagnosis:
    numbers = (("replicas", placement.replicas), ("ready", placement.ready))
    return Diagnosis(DiagnosisKind.UNKNOWN, DecisionReason.REPLICAS_STARTING, numbers)
