"""Decide whether the live load needs another number of replicas or another placement.

The rule cannot oscillate at constant load. A replica is added when demand stays at or above ``high_percent`` of what N
replicas hold. One of N+1 replicas is removed when demand stays at or below ``low_percent`` of what N hold, and low is
less than high. A removal needs both enough memory and enough throughput in the remaining replicas (see
:class:`plimsoll.rebalance.history.Ceiling`).
"""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.decisions import AddReplica, Decision, DecisionReason, Keep, Move, RemoveReplica, Wait
from plimsoll.rebalance.history import Ceiling, ChangeHistory
from plimsoll.rebalance.policy import Mode, RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, SignalState
from plimsoll.rebalance.slack import allows_removal, throughput_allows_removal


@dataclass(frozen=True, slots=True)
class DeclaredNeed:
    """The load that one replica must carry, as declared now.

    ``kv_tokens`` is the KV cache that it needs (0: no minimum). ``bytes_per_gpu`` is the memory that the memory law
    expects on the placed GPU type and split.
    """

    kv_tokens: int
    bytes_per_gpu: int


@dataclass(frozen=True, slots=True)
class PlacementState:
    """The current placement: ``replicas`` are wanted now, and ``ready`` of them serve.

    ``kv_capacity_tokens`` is the predicted KV cache of one replica. It is assumed for every replica that reports none.
    ``budget_bytes_per_gpu`` is the memory that one GPU of the placed type gives. ``startup_seconds`` is the longest
    start-up seen.
    """

    replicas: int
    ready: int
    kv_capacity_tokens: int
    budget_bytes_per_gpu: int
    startup_seconds: float | None = None


Change = AddReplica | RemoveReplica | Move

_WAIT_FOR = {
    SignalState.UNAVAILABLE: DecisionReason.METRICS_UNAVAILABLE,
    SignalState.INVALID: DecisionReason.METRICS_INVALID,
    SignalState.MISSING: DecisionReason.METRICS_MISSING,
    SignalState.STALE: DecisionReason.METRICS_STALE,
    SignalState.COLD: DecisionReason.WINDOW_NOT_COVERED,
}


def decide(
    need: DeclaredNeed,
    placement: PlacementState,
    load: LoadSummary,
    history: ChangeHistory,
    *,
    now: float,
    policy: RebalancePolicy,
) -> Decision:
    """Decide once. The same arguments always give the same decision.

    The function first finds the change that the load needs, and then checks the bounds. So it reports a wait for a
    bound only when it would have made a change otherwise. A caller in AUTO mode that makes the change records it:
    ``history.recorded(now, ceiling_of(decision, placement, load, now))``.
    """
    if policy.mode is Mode.OFF:
        return Keep(DecisionReason.MODE_OFF)
    # The change to make if no bound forbids it: the user's bounds and declarations first, then the load.
    wish = (
        _by_bounds(placement, policy)
        or _by_capacity(need, load)
        or _by_estimate(need, placement, load)
        or _by_pressure(placement, load, policy)
        or _by_missing_data(placement, load, policy)
        or _by_slack(placement, load, history, now, policy)
    )
    if isinstance(wish, Keep | Wait):
        return wish
    return _held_back(wish, placement, history, now, policy) or wish


def ceiling_of(decision: Decision, placement: PlacementState, load: LoadSummary, now: float) -> Ceiling | None:
    """Return the throughput per replica to remember when the load needs one more replica; None for other decisions."""
    by_load = (DecisionReason.SUSTAINED_KV_PRESSURE, DecisionReason.SUSTAINED_QUEUE)
    if not isinstance(decision, AddReplica) or decision.reason not in by_load:
        return None
    rates = (load.prompt_tokens_per_second, load.generation_tokens_per_second)
    prompt, generation = (None if rate is None else rate / max(1, placement.ready) for rate in rates)
    return Ceiling(now, prompt, generation)


def _by_bounds(placement: PlacementState, policy: RebalancePolicy) -> Change | None:
    """Return a change that follows from the user's bounds alone. It needs no metrics, so no outage delays it."""
    bounds = (("replicas", placement.replicas), ("min", policy.min_replicas), ("max", policy.max_replicas))
    if placement.replicas < policy.min_replicas:
        return AddReplica(DecisionReason.BELOW_MIN_REPLICAS, bounds)
    if placement.replicas > policy.max_replicas:
        return RemoveReplica(DecisionReason.ABOVE_MAX_REPLICAS, bounds)
    return None


def _by_capacity(need: DeclaredNeed, load: LoadSummary) -> Change | None:
    """Move when an engine has less KV cache than declared, even if little of it is used today."""
    smallest = load.smallest_capacity_tokens
    if smallest is None or smallest >= need.kv_tokens:
        return None
    return Move(DecisionReason.PLACEMENT_TOO_SMALL, (("held_tokens", smallest), ("needed_tokens", need.kv_tokens)))


def _by_estimate(need: DeclaredNeed, placement: PlacementState, load: LoadSummary) -> Change | None:
    """Move when the estimate exceeds the GPU, unless serving engines prove that the declared load fits."""
    proven = load.smallest_capacity_tokens is not None and load.smallest_capacity_tokens >= need.kv_tokens > 0
    if proven or need.bytes_per_gpu <= placement.budget_bytes_per_gpu:
        return None
    numbers = (("needed_bytes", need.bytes_per_gpu), ("budget_bytes", placement.budget_bytes_per_gpu))
    return Move(DecisionReason.NEED_OUTGREW_PLACEMENT, numbers)


def _by_pressure(placement: PlacementState, load: LoadSummary, policy: RebalancePolicy) -> Change | None:
    """Add a replica when the demand of the known pods alone is too high for the capacity of *all* replicas."""
    if not load.fresh_pods:
        return None
    unknown = max(0, max(placement.replicas, len(load.pods)) - load.fresh_pods)
    replicas = load.fresh_pods + unknown
    held = load.held_tokens + unknown * placement.kv_capacity_tokens
    demanded = load.demanded_sustained_tokens
    common: Numbers = (("replicas", replicas), ("unknown", unknown), ("seconds", load.window_seconds))
    if held and demanded * 100 >= policy.high_percent * held:
        tokens: Numbers = (("demanded_tokens", demanded), ("held_tokens", held))
        percents: Numbers = (("pressure_percent", demanded * 100 // held), ("bound_percent", policy.high_percent))
        return AddReplica(DecisionReason.SUSTAINED_KV_PRESSURE, (*percents, *tokens, *common))
    bound = policy.queue_per_replica * replicas
    if load.waiting_sustained >= bound:
        return AddReplica(
            DecisionReason.SUSTAINED_QUEUE, (("waiting", load.waiting_sustained), ("bound", bound), *common)
        )
    return None


def _by_missing_data(placement: PlacementState, load: LoadSummary, policy: RebalancePolicy) -> Wait | None:
    """Wait when a ready pod has no usable metrics: unknown never counts as zero, so no replica is removed."""
    if placement.ready == 0:
        return Wait(DecisionReason.REPLICAS_STARTING, (("replicas", placement.replicas), ("ready", 0)))
    known: Numbers = (("fresh", load.fresh_pods), ("ready", placement.ready))
    worst = load.worst_pod
    if load.state is SignalState.FRESH and load.fresh_pods >= placement.ready:
        return None
    if load.state is SignalState.FRESH or worst is None:
        state = SignalState.UNAVAILABLE if load.state is SignalState.UNAVAILABLE else SignalState.MISSING
        return Wait(_WAIT_FOR[state], (*known, ("pod", "")))
    age: Numbers = () if worst.age_seconds is None else (("age_seconds", int(worst.age_seconds)),)
    bounds: Numbers = (("bound_seconds", policy.max_age_seconds), ("window_seconds", policy.window_seconds))
    return Wait(_WAIT_FOR[load.state], (*known, ("pod", worst.pod), *age, *bounds))


def _by_slack(
    placement: PlacementState, load: LoadSummary, history: ChangeHistory, now: float, policy: RebalancePolicy
) -> Decision:
    """Decide between removing one replica and keeping all. Every ready pod is known here."""
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
    spare = room and throughput_allows_removal(load, history.clamped(now).ceiling, remaining, now, policy)
    if not spare and not all_ready:
        return Wait(DecisionReason.REPLICAS_STARTING, (("replicas", placement.replicas), ("ready", placement.ready)))
    if not spare:
        return Keep(DecisionReason.THROUGHPUT_NEEDED if room else DecisionReason.WITHIN_BAND, band)
    numbers: Numbers = (
        ("pressure_percent", -(-load.demanded_peak_tokens * 100 // held)),
        ("bound_percent", policy.low_percent),
        ("demanded_tokens", load.demanded_peak_tokens),
        ("held_tokens", held),
        ("replicas", placement.replicas),
        ("remaining", remaining),
        ("seconds", load.window_seconds),
    )
    return RemoveReplica(DecisionReason.SUSTAINED_SLACK, numbers)


def _held_back(
    wish: Change, placement: PlacementState, history: ChangeHistory, now: float, policy: RebalancePolicy
) -> Wait | None:
    """Return a wait for the first bound that forbids the change; the bound that lasts longest is checked first."""
    wanted: Numbers = (("wanted", wish.reason.value),)
    if isinstance(wish, AddReplica) and placement.replicas >= policy.max_replicas:
        return Wait(DecisionReason.AT_MAX_REPLICAS, (*wanted, ("max", policy.max_replicas)))
    if isinstance(wish, RemoveReplica) and placement.replicas <= policy.min_replicas:
        return Wait(DecisionReason.AT_MIN_REPLICAS, (*wanted, ("min", policy.min_replicas)))
    if not isinstance(wish, RemoveReplica) and placement.ready < placement.replicas:
        ready: Numbers = (("replicas", placement.replicas), ("ready", placement.ready))
        return Wait(DecisionReason.REPLICAS_STARTING, (*ready, *wanted))
    done = history.within_last_hour(now)
    if done >= policy.changes_per_hour:
        return Wait(
            DecisionReason.HOURLY_BUDGET_SPENT, (*wanted, ("changes", done), ("bound", policy.changes_per_hour))
        )
    since = history.seconds_since_last(now)
    cooldown = policy.effective_cooldown_seconds(placement.startup_seconds)
    if since is not None and since < cooldown:
        return Wait(DecisionReason.COOLING_DOWN, (*wanted, ("seconds", int(since)), ("bound_seconds", int(cooldown))))
    return None
