"""Diagnose the load of a deployment: what the signals say, before any bound and before any change."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from plimsoll.domain.decisions.latency import Bound
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_milliseconds, to_per_minute, to_percent, to_rfc3339
from plimsoll.placement.demands.pools import Place
from plimsoll.rebalance.diagnosis.engine_troubles import page_livelock, uneven_ranks
from plimsoll.rebalance.diagnosis.judging import Judged
from plimsoll.rebalance.diagnosis.replicas import is_certain, share_numbers, silent_pods, suspect_numbers, uneven
from plimsoll.rebalance.guard import cooldown_seconds, relief_at
from plimsoll.rebalance.law.capacity import ConcurrencyLimit, times_of
from plimsoll.rebalance.law.price import stakes_of
from plimsoll.rebalance.law.promise import missed_figures, unreachable
from plimsoll.rebalance.law.tuning import after_retune
from plimsoll.rebalance.law.wishes import LONG_QUEUE, Need, Wish, wish_for_queue
from plimsoll.rebalance.signals.forecast import Expected
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import SignalState, gpu_numbers
from plimsoll.rebalance.signals.traffic import Traffic
from plimsoll.rebalance.state.additions import (
    TRY_SECONDS,
    brake_of,
    last_try,
    replicas_without,
)
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.policy import ScheduledMinimum
from plimsoll.rebalance.state.situation import DeclaredNeed, PlacementState, Situation


class DiagnosisKind(StrEnum):
    """A finding about the load. Remedies read the kind; the reason and its numbers are for people."""

    NOTHING_TO_CHANGE = "NothingToChange"
    """No change is due, and the reason says why. It is no verdict on the deployment."""
    NOT_DIAGNOSED = "NotDiagnosed"
    """The signals do not say: some are missing or old, or replicas still start."""
    TOO_FEW_REPLICAS = "TooFewReplicas"
    """There are fewer replicas than the user's minimum."""
    TOO_MANY_REPLICAS = "TooManyReplicas"
    """There are more replicas than the user's maximum."""
    KV_BOUND = "KvBound"
    """The KV cache limits how many requests a replica carries, and more come."""
    BATCH_BOUND = "BatchBound"
    """The engine's own limit of requests at the same time (``--max-num-seqs``) does."""
    DECODE_BOUND = "DecodeBound"
    """The time per token does: the GPU's memory bandwidth, products or links."""
    HOST_BOUND = "HostBound"
    """The time per token does, and the host takes most of it."""
    PREFILL_BOUND = "PrefillBound"
    """The time to the first token does: prompts wait for each other."""
    QUEUE_BOUND = "QueueBound"
    """Requests wait, and the limit is not known."""
    MORE_EXPECTED = "MoreExpected"
    """More requests are expected than the replicas carry. Their limit is no news, and no engine is restarted."""
    PREEMPTION_STORM = "PreemptionStorm"
    """Requests lose their KV cache to others and are computed again."""
    REPLICA_SLOW = "ReplicaSlow"
    """A replica is slower than its siblings, and than the performance model says."""
    REPLICA_SILENT = "ReplicaSilent"
    """A ready replica reports nothing usable, while others do."""
    STUCK_REPLICA = "StuckReplica"
    """A replica does not get ready, or it has a queue and generates nothing. It is no supply."""
    PAGE_LIVELOCK = "PageLivelock"
    """Engines of a model with a recurrent state generate nothing while requests wait and the KV cache has room."""
    IMBALANCED = "Imbalanced"
    """Requests wait at one replica or rank while others have room. The router or the gateway decides that."""
    PROMISE_MISSED = "PromiseMissed"
    """The measured times miss the promise, and more replicas of this kind would not help."""
    IDLE = "Idle"
    """Fewer replicas have been enough for a while."""
    ADDITIONS_IN_VAIN = "AdditionsInVain"
    """The last additions do not serve, or change nothing in the figure that called for them."""
    OUTGROWN = "Outgrown"
    """The GPU type and split give less memory than the declared load needs."""
    TOO_SLOW = "TooSlow"
    """The GPU type and split are too slow for the promise, however many replicas there are."""
    CHEAPER_ELSEWHERE = "CheaperElsewhere"
    """Nothing is wrong, and the same load would cost clearly less on other GPUs that are free."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One diagnosis: its kind, the public reason, the numbers that prove it, and how many replicas it asks for.

    ``place`` is the GPU type and split that it asks for; None: it names none. ``engine`` is another engine that it asks
    for there; empty: none.
    """

    kind: DiagnosisKind
    reason: DecisionReason
    numbers: Numbers = ()
    replicas: int = 0
    place: Place | None = None
    engine: str = ""


_UNKNOWN_BECAUSE = {
    SignalState.UNAVAILABLE: DecisionReason.METRICS_UNAVAILABLE,
    SignalState.INVALID: DecisionReason.METRICS_INVALID,
    SignalState.MISSING: DecisionReason.METRICS_MISSING,
    SignalState.STALE: DecisionReason.METRICS_STALE,
    SignalState.COLD: DecisionReason.WINDOW_NOT_COVERED,
}

_BOUND_BY = {
    ConcurrencyLimit.KV_CACHE: DiagnosisKind.KV_BOUND,
    ConcurrencyLimit.BATCH: DiagnosisKind.BATCH_BOUND,
    ConcurrencyLimit.TOKEN_TIME: DiagnosisKind.DECODE_BOUND,
    ConcurrencyLimit.FIRST_TOKEN_TIME: DiagnosisKind.PREFILL_BOUND,
}

_BECAUSE = {
    Need.ARRIVALS: DecisionReason.ARRIVALS_EXCEED_CAPACITY,
    Need.BACKLOG: DecisionReason.BACKLOG_TOO_LONG,
    Need.GATEWAY: DecisionReason.REQUESTS_WAIT_AT_GATEWAY,
    Need.KV_CACHE: DecisionReason.SUSTAINED_KV_PRESSURE,
    Need.PREEMPTIONS: DecisionReason.PREEMPTION_STORM,
    Need.QUEUE: DecisionReason.SUSTAINED_QUEUE,
    Need.RISE: DecisionReason.RISE_EXPECTED,
}

_KINDS_OF_NEEDS = {
    Need.KV_CACHE: DiagnosisKind.KV_BOUND,
    Need.PREEMPTIONS: DiagnosisKind.PREEMPTION_STORM,
    Need.RISE: DiagnosisKind.MORE_EXPECTED,
}

_ON_GPUS = (DiagnosisKind.DECODE_BOUND, DiagnosisKind.HOST_BOUND, DiagnosisKind.PREFILL_BOUND)
"""Findings about which the activity of the GPUs says something."""

_OF_QUEUES = (Need.QUEUE, Need.BACKLOG)
"""Needs that engines without an answer cause."""

ABOUT_A_REPLICA = frozenset((DiagnosisKind.REPLICA_SLOW, DiagnosisKind.REPLICA_SILENT))
"""The kinds that ask for another replica in the place of one."""

ABOUT_THE_PLACE = frozenset((DiagnosisKind.OUTGROWN, DiagnosisKind.TOO_SLOW, *ABOUT_A_REPLICA))
"""The kinds that ask for another place, of all replicas or of one."""

MISSED_SECONDS = 300.0
"""How long a promise is missed before it is called out of reach. Most of the slowness is learned by then."""


BINDING_SHARE = 0.6
"""The part of the engines' own limit that is in use when it is called full. Chance leaves some of it free."""


def diagnose(situation: Situation, judged: Judged) -> Diagnosis:
    """Diagnose once. The user's bounds and declarations come first, then the place, then the load."""
    return (
        _at_zero(situation)
        or _by_bounds(situation)
        or _by_additions(situation)
        or _by_place(situation, judged)
        or _by_replica(situation, judged)
        or diagnose_load(situation, judged)
    )


def diagnose_load(situation: Situation, judged: Judged) -> Diagnosis:
    """Diagnose the load alone: what a number of replicas or a setting can help, at the place as it is."""
    return (
        _by_load(situation, judged)
        or _by_missing_data(situation, judged)
        or _by_idleness(situation, judged)
        or _by_batch_limit(situation, judged)
        or _by_slack(situation, judged)
        or _by_distress(situation, judged)
        or _within_band(situation, judged)
    )


def _by_place(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find whether the place itself is wrong, so that no number of replicas is the remedy."""
    need, placement, load = situation.need, situation.placement, situation.load
    return _by_capacity(need, load) or _by_estimate(need, placement, load) or _by_promise(situation, judged)


def _at_zero(situation: Situation) -> Diagnosis | None:
    """If no replica is wanted, only the gateway's queue and a schedule decide. Somebody can also scale the deployment.

    A number of 0 that the user wrote is no time without requests: no schedule changes it.
    """
    queue, policy = situation.load.gateway, situation.policy
    if situation.placement.replicas > 0 or policy.cut_off or (policy.sleeps and policy.scheduled is not None):
        return None
    if not policy.wakes or queue is None or (queue.is_known and not queue.waiting):
        return Diagnosis(DiagnosisKind.NOTHING_TO_CHANGE, DecisionReason.NO_REQUEST_WAITS)
    if queue.waiting > 0:
        wish = wish_for_queue(queue.waiting, situation.placement.model)
        reason = DecisionReason.REQUESTS_WAIT_AT_GATEWAY
        return Diagnosis(DiagnosisKind.QUEUE_BOUND, reason, load_numbers(situation, wish), wish.replicas)
    if queue.state is SignalState.UNAVAILABLE:
        return Diagnosis(DiagnosisKind.NOT_DIAGNOSED, DecisionReason.METRICS_UNAVAILABLE)
    return Diagnosis(DiagnosisKind.NOTHING_TO_CHANGE, DecisionReason.NO_REQUEST_WAITS)


def _by_bounds(situation: Situation) -> Diagnosis | None:
    """Compare the number of replicas with the user's bounds. This needs no metrics, so no outage delays it."""
    placement, policy = situation.placement, situation.policy
    bounds: Numbers = (("replicas", placement.replicas), ("min", policy.min_replicas), ("max", policy.max_replicas))
    if placement.replicas < policy.min_replicas:
        kind, reason = DiagnosisKind.TOO_FEW_REPLICAS, DecisionReason.BELOW_MIN_REPLICAS
        if policy.scheduled is not None:
            reason, bounds = DecisionReason.SCHEDULED_MINIMUM, (*bounds, *_ready_by(situation, policy.scheduled))
        elif policy.cut_off:
            reason = DecisionReason.NOT_ROUTED
        return Diagnosis(kind, reason, bounds, policy.min_replicas)
    if placement.replicas > policy.max_replicas:
        kind, reason = DiagnosisKind.TOO_MANY_REPLICAS, DecisionReason.ABOVE_MAX_REPLICAS
        return Diagnosis(kind, reason, bounds, policy.max_replicas)
    return None


def _ready_by(situation: Situation, scheduled: ScheduledMinimum) -> Numbers:
    """Return the time of a scheduled minimum that is still to come, and the start-up that is expected until then."""
    if scheduled.opening.is_open:
        return ()
    startup = round(situation.memory.expected_startup_seconds)
    return ("ready_by", to_rfc3339(scheduled.opening.opens_at)), ("startup_seconds", startup)


def _by_additions(situation: Situation) -> Diagnosis | None:
    """Find whether the last additions were in vain, and are to be taken back. Those without service need no metrics."""
    brake, replicas = brake_of(situation), replicas_without(situation)
    if brake is None or replicas >= situation.placement.replicas:
        return None
    last = last_try(brake, situation.now, situation.now + TRY_SECONDS)
    numbers: Numbers = (*brake.numbers, ("next_try", ""), *last)
    return Diagnosis(DiagnosisKind.ADDITIONS_IN_VAIN, brake.reason, numbers, replicas)


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


def _by_promise(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find whether a promise has been missed for a while that no number of replicas would keep."""
    traffic, model, since = judged.traffic, judged.model, judged.memory.missed_since
    if traffic is None or traffic.lengths is None or model is None or since is None or situation.unknown:
        return None
    figure = unreachable(model, traffic.lengths, traffic) if situation.now - since >= MISSED_SECONDS else None
    if figure is None:
        return None
    alone = figure.of(times_of(model, traffic.lengths, 1.0))
    learned = (("alone_ms", to_milliseconds(alone)), ("slowness_percent", to_percent(model.slowness)))
    numbers = (("replicas", situation.placement.replicas), *figure.numbers, *learned)
    return Diagnosis(DiagnosisKind.TOO_SLOW, DecisionReason.PROMISE_OUT_OF_REACH, numbers)


def _by_replica(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find the replica that has been slow or silent for long. The one that is being replaced comes first."""
    certain = [each for each in judged.memory.suspects if is_certain(each, situation)]
    replaced = None if situation.replacement is None else situation.replacement.pod
    worst = next((each for each in sorted(certain, key=lambda each: each.pod != replaced)), None)
    if worst is None:
        return None
    kind = DiagnosisKind(worst.reason.value)
    return Diagnosis(kind, worst.reason, suspect_numbers(worst, situation))


def _by_load(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find whether the load needs more replicas than are wanted. Starting ones count, stuck ones do not."""
    wish, replicas, stuck = judged.wish, situation.placement.replicas, situation.stuck
    if wish is None or wish.replicas + stuck <= replicas:
        return None
    numbers: Numbers = (*load_numbers(situation, wish), ("stuck", stuck))
    if wish.replicas <= replicas or wish.need in _OF_QUEUES:
        locked = _locked(situation, numbers)
        if locked is not None:
            return replace(locked, replicas=wish.replicas + stuck)
    if wish.replicas <= replicas:
        longest = int(situation.memory.stuck_after_seconds)
        numbers = (*numbers, ("bound_seconds", longest))
        return Diagnosis(DiagnosisKind.STUCK_REPLICA, DecisionReason.REPLICAS_STUCK, numbers, wish.replicas + stuck)
    kind = _bound_by(wish)
    if wish.use < 1.0:
        numbers = (*numbers, ("start_percent", to_percent(wish.use)))
    if kind in _ON_GPUS:
        numbers = (*numbers, *gpu_numbers(situation.load.gpus))
    return Diagnosis(kind, _BECAUSE[wish.need], numbers, wish.replicas + stuck)


def _locked(situation: Situation, numbers: Numbers) -> Diagnosis | None:
    """Find whether requests wait if no number of replicas is too small for them."""
    figures = page_livelock(situation.stalled_loads, has_states=situation.placement.has_states)
    if not figures:
        return None
    return Diagnosis(DiagnosisKind.PAGE_LIVELOCK, DecisionReason.PAGE_LIVELOCK, (*numbers, *figures))


def _bound_by(wish: Wish) -> DiagnosisKind:
    if wish.need in _KINDS_OF_NEEDS:
        return _KINDS_OF_NEEDS[wish.need]
    if wish.capacity is None:
        return DiagnosisKind.QUEUE_BOUND
    kind = _BOUND_BY[wish.capacity.limit]
    is_host = kind is DiagnosisKind.DECODE_BOUND and wish.capacity.bound is Bound.HOST
    return DiagnosisKind.HOST_BOUND if is_host else kind


def load_numbers(situation: Situation, wish: Wish) -> Numbers:
    """Return the figures behind a wish. Rates are requests a minute."""
    traffic, capacity = situation.load.traffic, wish.capacity
    lengths = None if traffic is None else traffic.lengths
    queue = situation.load.gateway
    found: dict[str, int | str] = {"replicas": situation.placement.replicas, "needed": wish.replicas}
    if queue is not None and queue.waiting > 0:
        found["at_gateway"] = math.ceil(queue.waiting)
    if traffic is not None:
        found |= {"waiting": round(traffic.waiting), "running": round(traffic.running)}
        found |= {"used_tokens": round(traffic.used_tokens), "held_tokens": situation.load.held_tokens}
        found |= {"kv_percent": to_percent(traffic.used_tokens / max(1, situation.load.held_tokens))}
    if lengths is not None:
        found |= {"prompt_tokens": round(lengths.prompt), "output_tokens": round(lengths.output)}
    if capacity is not None:
        found |= {
            "arrivals_per_minute": to_per_minute(wish.rate),
            "capacity_per_minute": to_per_minute(capacity.per_second),
            "limit": capacity.limit.value,
        }
    return (*found.items(), *(_coming(wish.coming, situation.now) if wish.need is Need.RISE else ()))


def _coming(expected: Expected | None, now: float) -> Numbers:
    """Return the figures of a forecast: what is expected, when, from how many days, and its error."""
    if expected is None:
        return ()
    return (
        ("expected_per_minute", to_per_minute(expected.per_second)),
        ("minutes", round((expected.at - now) / 60)),
        ("days", expected.days),
        ("error_percent", to_percent(expected.error)),
    )


def _by_missing_data(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find a ready pod without usable metrics: unknown never counts as zero, so no replica is superfluous.

    One that has been silent for long holds nothing up: it counts as a replica of its own load, and is to be replaced.
    """
    placement, silent = situation.placement, silent_pods(judged.memory, situation)
    load = situation.load.without(silent)
    if placement.ready == 0:
        return _starting(situation)
    known: Numbers = (("fresh", load.fresh_pods), ("ready", placement.ready))
    worst = load.worst_pod
    if load.state is SignalState.FRESH and load.fresh_pods + len(silent) >= placement.ready:
        return None
    if load.state is SignalState.FRESH or worst is None:
        state = SignalState.UNAVAILABLE if load.state is SignalState.UNAVAILABLE else SignalState.MISSING
        return Diagnosis(DiagnosisKind.NOT_DIAGNOSED, _UNKNOWN_BECAUSE[state], (*known, ("pod", "")))
    age: Numbers = () if worst.age_seconds is None else (("age_seconds", int(worst.age_seconds)),)
    numbers = (*known, ("pod", worst.pod), *age)
    return Diagnosis(DiagnosisKind.NOT_DIAGNOSED, _UNKNOWN_BECAUSE[load.state], numbers)


def _by_idleness(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find whether no request has come for so long that nothing has to run. Each reversal makes the time longer."""
    bound, since, quiet = situation.policy.idle_seconds, judged.memory.quiet_since, situation.load.quiet
    if (
        bound is None
        or situation.policy.min_replicas
        or since is None
        or quiet is None
        or judged.memory.quiet_at < situation.now
    ):
        return None
    seconds = quiet.known_until - since
    if seconds < bound * (1 + situation.history.reversals(situation.now) / 2):
        return None
    numbers = (("replicas", situation.placement.replicas), ("seconds", round(seconds)))
    return Diagnosis(DiagnosisKind.IDLE, DecisionReason.NO_REQUESTS, numbers)


def _by_batch_limit(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find whether the load would fit on fewer replicas if their engines ran more requests at the same time."""
    wish, traffic, most = judged.wish, situation.load.traffic, situation.placement.most_sequences
    if wish is None or wish.capacity is None or wish.capacity.limit is not ConcurrencyLimit.BATCH or most is None:
        return None
    if traffic is None or traffic.lengths is None or judged.model is None:
        return None
    is_full = traffic.running >= BINDING_SHARE * traffic.pods * judged.model.limits.sequences
    fewer = after_retune(judged.model, traffic.lengths, most)
    if not is_full or fewer is None:
        return None
    stakes = stakes_of(judged.model, wish.capacity, judged.memory.expected_startup_seconds)
    if fewer.replicas_for(wish.rate, stakes.use(wish.rate)) >= situation.placement.replicas:
        return None
    return Diagnosis(DiagnosisKind.BATCH_BOUND, DecisionReason.BATCH_LIMIT_BINDS, load_numbers(situation, wish))


def _by_distress(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find what is wrong although there are enough replicas: then no number of them is the remedy."""
    traffic, wish = situation.load.traffic, judged.wish
    if traffic is None or wish is None or not traffic.loads:
        return None
    numbers, busiest = load_numbers(situation, wish), max(traffic.loads, key=lambda load: load.waiting)
    locked = _locked(situation, (*numbers, ("stuck", situation.stuck)))
    if locked is not None:
        return locked
    others = (traffic.in_engines - busiest.waiting) / max(1, traffic.pods - 1)
    favoured = () if judged.alike is None else judged.alike.favoured
    is_suspect = any(each.pod == busiest.pod for each in judged.memory.suspects)  # then no router is at fault
    if favoured or (traffic.pods > 1 and busiest.waiting >= LONG_QUEUE and others < 1 and not is_suspect):
        waits = ("pod", busiest.pod), ("pod_waiting", round(busiest.waiting))
        found = (*numbers, *waits, *share_numbers(busiest, traffic.loads))
        more = _relief(situation, judged, wish) if favoured and _missed(traffic, judged) else 0
        return Diagnosis(DiagnosisKind.IMBALANCED, DecisionReason.LOAD_IMBALANCED, found, more)
    uneven = uneven_ranks(traffic.loads)
    if uneven:
        return Diagnosis(DiagnosisKind.IMBALANCED, DecisionReason.RANKS_IMBALANCED, (*numbers, *uneven))
    missed = _missed(traffic, judged)
    if missed:
        backlog: Numbers = (("backlog", round(traffic.waiting)),) if wish.clears else ()
        return Diagnosis(DiagnosisKind.PROMISE_MISSED, DecisionReason.PROMISE_MISSED, (*numbers, *missed, *backlog))
    return None


def _relief(situation: Situation, judged: Judged, wish: Wish) -> int:
    """Return one replica more against an uneven load that misses a promise, once a day; 0: it was tried.

    It stays as long as the promise is kept with it. Otherwise it goes as any replica that the load does not need.
    """
    replicas = situation.placement.replicas
    if relief_at(situation) is not None or replicas > wish.replicas:
        return 0  # one was added already, or is there beyond what the total needs
    lasts = judged.memory.missed_since is not None and situation.now - judged.memory.missed_since >= MISSED_SECONDS
    return replicas + 1 if lasts else 0


def _missed(traffic: Traffic, judged: Judged) -> Numbers:
    missed = () if judged.model is None else missed_figures(traffic, judged.model.slo)
    return missed[0].numbers if missed else ()


def _by_slack(situation: Situation, judged: Judged) -> Diagnosis | None:
    """Find whether replicas are superfluous: stuck ones are if those that serve suffice. Each ready pod is known here.

    Of engines that pool nothing shows how much of them is used, so only a time without requests removes their replicas.
    """
    placement, wish = situation.placement, judged.wish
    if wish is None:
        return _starting(situation)
    if not placement.generates:
        return _starting(situation) if placement.ready < placement.replicas else None
    enough = max(wish.kept, *(look.enough for look in judged.memory.looks))
    if placement.ready < enough:
        enough += situation.stuck
    is_quiet = judged.traffic is not None and judged.traffic.waiting < 1
    seconds = situation.now - judged.memory.looks[0].at
    if _is_kept_for_shares(situation, judged):
        enough = placement.replicas
    if enough >= placement.replicas or not is_quiet or seconds < cooldown_seconds(situation):
        return _starting(situation) if placement.ready < placement.replicas else None
    return Diagnosis(
        DiagnosisKind.IDLE,
        DecisionReason.SUSTAINED_SLACK,
        (*load_numbers(situation, wish), ("enough", enough), ("seconds", round(seconds))),
        max(enough, -(-placement.replicas // 2)),
    )


def _is_kept_for_shares(situation: Situation, judged: Judged) -> bool:
    """Whether no replica goes although the total needs fewer: the load is uneven, and one more may help, or does."""
    is_missed, is_tried = judged.memory.missed_since is not None, relief_at(situation) is not None
    return is_missed != is_tried and uneven(judged.traffic)


def _within_band(situation: Situation, judged: Judged) -> Diagnosis:
    numbers = () if judged.wish is None else load_numbers(situation, judged.wish)
    return Diagnosis(DiagnosisKind.NOTHING_TO_CHANGE, DecisionReason.WITHIN_BAND, numbers)


def _starting(situation: Situation) -> Diagnosis:
    """Return that replicas start, or why those that start do not begin to serve, if that is known of all of them."""
    placement, brake = situation.placement, brake_of(situation)
    last = () if brake is None else last_try(brake, situation.now, brake.tries_until)
    if brake is not None and last and brake.pause_seconds:
        return Diagnosis(DiagnosisKind.NOT_DIAGNOSED, brake.reason, (*brake.numbers, ("next_try", ""), *last))
    startup: Numbers = (("startup_seconds", round(situation.memory.expected_startup_seconds)),)
    return Diagnosis(DiagnosisKind.NOT_DIAGNOSED, DecisionReason.REPLICAS_STARTING, (*placement.numbers, *startup))
