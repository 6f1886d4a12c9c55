"""Conditions as kstatus defines them: Ready is the summary; Reconciling, Stalled and Troubled exist only when true.

The questions in order: is there a plan (Planned), do the pods have nodes (Placed), do they serve (Available), and do
they serve as well as asked (Troubled). Each names what helps, so that nobody has to look it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from plimsoll.domain.public_words import NODE_LACKS, LiveTrouble, PublicWord, Reason
from plimsoll.domain.public_words import ConditionReason as Why
from plimsoll.domain.public_words import ConditionType as Kind
from plimsoll.domain.requests.weights import WeightsState
from plimsoll.domain.units import agreed, counted, counted_of, to_rfc3339
from plimsoll.placement.advice.remedies import only_waits
from plimsoll.placement.demands.failed_moves import Delay, settings_words
from plimsoll.placement.demands.pools import Decision, Pool, active, is_at
from plimsoll.placement.demands.rehoming import MAX_REHOMINGS_PER_HOUR
from plimsoll.placement.explain import (
    estimate_sentence,
    nearest_sentence,
    one_node_sentence,
    place_words,
    rejection_sentence,
    remedy_sentence,
)
from plimsoll.status.record.report import PoolView, Report
from plimsoll.status.words.routing import routing_trouble
from plimsoll.status.words.weights import weights_sentence
from plimsoll.status.words.what_helps import why_and_help

CRASH_RESTARTS = 1
"""From this many restarts a failed start counts as stalled: the same arguments will fail again."""


@dataclass(frozen=True, slots=True)
class Since:
    """The earlier ``status`` of a condition, and since when it has it (RFC 3339)."""

    status: str
    at: str


@dataclass(frozen=True, slots=True)
class StatedCondition:
    """One condition without its time; ``status`` is True, False or Unknown.

    ``helps`` is what helps, if more is known of it than the reason says. ``afterwards`` ends the message.
    """

    status: str
    reason: PublicWord
    message: str
    stalled: bool = False
    helps: str = ""
    afterwards: str = ""

    @property
    def words(self) -> str:
        """The whole message: why, what helps, and what else is to be said."""
        said = why_and_help(self.reason, self.message, self.helps)
        return f"{said} {self.afterwards}" if self.afterwards else said


def conditions(report: Report, earlier: Mapping[str, Since], now: str) -> list[dict[str, Any]]:
    """All conditions, with transition times kept if the status did not change.

    Args:
        report: the data of the status.
        earlier: the conditions of the earlier status, by type.
        now: RFC 3339.
    """
    planned, placed, available = _planned(report), _placed(report), _available(report, now)
    planned = replace(planned, afterwards=" ".join(filter(None, (report.kept, _taken_back(report, now)))))
    ready = _ready(report, planned, placed, available)
    verdicts = {Kind.READY: ready, Kind.PLANNED: planned, Kind.PLACED: placed, Kind.AVAILABLE: available}
    stalled = next((verdict for verdict in (planned, placed, available) if verdict.stalled), None)
    troubled = _troubled(report)
    if stalled is not None:
        verdicts[Kind.STALLED] = replace(stalled, status="True")
    elif ready.status != "True":
        verdicts[Kind.RECONCILING] = replace(ready, status="True")
    if troubled is not None:
        verdicts[Kind.TROUBLED] = troubled
    return [_condition(kind, verdict, earlier.get(kind), report.generation, now) for kind, verdict in verdicts.items()]


def planned_sentence(report: Report) -> str:
    """Return what the condition ``Planned`` says: why, and what helps."""
    return _planned(report).words


def _condition(kind: Kind, verdict: StatedCondition, before: Since | None, generation: int, now: str) -> dict[str, Any]:
    return {
        "type": kind.value,
        "status": verdict.status,
        "observed_generation": generation,
        "last_transition_time": before.at if before is not None and before.status == verdict.status else now,
        "reason": str(verdict.reason),
        "message": verdict.words,
    }


_AT_REST = "spec.suspend is true: nothing is planned or changed."
_EMPTY = "spec.replicas is 0, so no replica runs. What starts one: spec.replicas."


def _planned(report: Report) -> StatedCondition:
    if report.problem is not None:
        return StatedCondition(
            "False" if report.problem.permanent else "Unknown",
            report.problem.reason,
            report.problem.message,
            stalled=report.problem.permanent,
        )
    if report.name_conflict:
        return StatedCondition("False", Why.NAME_CONFLICT, report.name_conflict, stalled=True)
    decision = report.decision
    if report.suspended:
        return StatedCondition("Unknown", Why.SUSPENDED, _AT_REST)
    if decision is None:
        return StatedCondition("Unknown", Why.PENDING, "The planner has not come to this object yet.")
    if decision.change_blocked:
        return _unplaced(
            report,
            decision,
            Why.CHANGE_WAITS_FOR_GPUS,
            "The last change has no place yet. The previous placement keeps serving. ",
        )
    if decision.missing:
        opening = f"{counted_of(decision.missing, report.replicas, 'replica', 'has', 'have')} no place. "
        return _unplaced(report, decision, _waits_for(decision), opening)
    old = decision.outgrown
    if old is not None:
        message = f"{place_words(old.gpu_type, old.split)} would not be chosen any more: {rejection_sentence(old)}."
        return StatedCondition("True", Why.PLACEMENT_TOO_SMALL, message)
    choice = decision.choice
    if choice is None:
        return StatedCondition("True", Why.PLACEMENT_KEPT, "The placement stays as it is.")
    warned = f" Warning: {' '.join(decision.warnings)}" if decision.warnings else ""
    estimate = estimate_sentence(choice.estimate)
    return StatedCondition(
        "True", Why.PLACEMENT_DECIDED, f"{place_words(choice.gpu.name, choice.split)}: {estimate}.{warned}"
    )


def _waits_for(decision: Decision) -> Why:
    """The reason for waiting. GPUs come first: if some would be suitable but are taken, those must be freed."""
    reasons = {rejection.reason for rejection in decision.rejections}
    if Reason.GPUS_TAKEN not in reasons and not reasons.isdisjoint(NODE_LACKS):
        return Why.WAITING_FOR_NODE_RESOURCES
    if Reason.GPUS_TAKEN not in reasons and Reason.QUOTA_EXCEEDED in reasons:
        return Why.WAITING_FOR_QUOTA
    return Why.WAITING_FOR_GPUS


def _unplaced(report: Report, decision: Decision, waiting_reason: Why, opening: str) -> StatedCondition:
    """The verdict if nothing fits, or if something fits and must wait. Only the first case does not end by itself."""
    waits = only_waits(decision.rejections)
    advice = "; or ".join(remedy_sentence(remedy) for remedy in decision.remedies[:3])
    nearest = nearest_sentence(decision.rejections)
    alone = one_node_sentence(decision.rejections)
    closest = (f"Nearest: {nearest}. " if nearest else "") + (f"{alone} " if alone else "")
    reason = waiting_reason if waits else Why.NO_GPU_FITS
    unused = f"{report.left_out} " if report.left_out else ""
    coming = f"{report.coming} " if report.coming else ""
    stalled = not (waits or report.coming)
    return StatedCondition("False", reason, f"{opening}{closest}{unused}{coming}", stalled=stalled, helps=advice)


def _placed(report: Report) -> StatedCondition:
    if report.decision is None or not report.decision.pools:
        return StatedCondition("False", Why.NOT_PLANNED, "No placement has been decided.")
    verdict = _placed_by(report, report.decision)
    return replace(verdict, message=f"{verdict.message}{_leaving_words(report)}")


def _placed_by(report: Report, decision: Decision) -> StatedCondition:
    views = _active_views(report)
    if report.refused:
        return StatedCondition("False", Why.PODS_NOT_CREATED, report.refused, stalled=not report.refusal_passes)
    if report.contested:
        return StatedCondition("False", Why.REPLICAS_CONTESTED, report.contested, stalled=True)
    weights = _awaited_weights(report)
    if weights is not None and not any(view.pods for view in views):
        return weights
    error = next((view.workload_error for view in views if view.workload_error), "")
    if error:
        return StatedCondition("False", Why.PODS_NOT_CREATED, error)
    unbound = sum(view.unbound for view in views)
    wanted = sum(pool.split.shape.pods_of(pool.replicas) for pool in active(decision.pools))
    bound = sum(view.pods - view.unbound for view in views)
    rejecting = next((view for view in views if view.rejected), None)
    if rejecting is not None and rejecting.accepted < report.wanted_pods(rejecting.name):
        return StatedCondition("False", Why.PODS_REJECTED, _rejected_words(decision, rejecting), stalled=True)
    queued = next((view for view in views if view.queued), None)
    if queued is not None and unbound == sum(view.queued for view in views):
        return StatedCondition("False", Why.WAITING_FOR_QUEUE, f"{_queue_words(queued, unbound)}.")
    if unbound and report.awaits:
        groups = ", ".join(report.awaits)
        message = f"{_waiting(unbound)} for new nodes of {groups}, which an autoscaler starts."
        return StatedCondition("False", Why.WAITING_FOR_NODES, message)
    if unbound:
        return StatedCondition("False", Why.WAITING_FOR_SCHEDULER, _waiting_words(decision, views, unbound))
    if bound < wanted:
        return StatedCondition("False", Why.CREATING_PODS, f"{counted_of(bound, wanted, 'pod', 'exists', 'exist')}.")
    placed = f"{counted(bound, 'pod')} {agreed(bound, 'is bound to its node', 'are bound to their nodes')}."
    return StatedCondition("True", Why.PODS_SCHEDULED, placed)


def _awaited_weights(report: Report) -> StatedCondition | None:
    """The verdict while the weights of this spec are not on their claim; None: they are, or none are wanted."""
    view = report.weights
    if view is None or view.is_ready:
        return None
    has_failed = view.state is WeightsState.FAILED
    why = Why.WEIGHTS_FAILED if has_failed else Why.WEIGHTS_ARRIVING
    return StatedCondition("False", why, weights_sentence(view), stalled=has_failed)


def _waiting(pods: int) -> str:
    return f"{counted(pods, 'pod')} {agreed(pods, 'waits', 'wait')}"


def _leaving_words(report: Report) -> str:
    if not report.leaving:
        return ""
    nodes = ", ".join(report.leaving)
    if not report.replacing:
        return f" All replicas move away from nodes that go soon ({nodes}), and serve there until their successors do."
    return f" There is one more for each pod on nodes that go soon ({nodes}): {report.replacing} in all."


def _waiting_words(decision: Decision, views: Sequence[PoolView], unbound: int) -> str:
    """The message about waiting pods: the cause in plain words, then the scheduler's own message."""
    waiting = next((view for view in views if view.scheduler_message), PoolView(""))
    plain = f" ({agreed(unbound, 'it waits', 'they wait')} for {waiting.waits_for})" if waiting.waits_for else ""
    message = f"{_waiting(unbound)} for a node{plain}: {waiting.scheduler_message or 'no node chosen yet'}"
    if decision.stranded_by:
        whom, nearest = agreed(unbound, "it", "them"), nearest_sentence(decision.stranded_by)
        message = f"{message.rstrip('.')}. No other place takes {whom}: {nearest}."
    if not decision.rehomings_spent:
        return message
    stays = agreed(unbound, "It stays where it is", "They stay where they are")
    return (
        f"{message.rstrip('.')}. {stays}: replicas of this deployment were moved off "
        f"{MAX_REHOMINGS_PER_HOUR} placements within the last hour, see status.rehomings."
    )


def _queue_words(view: PoolView, pods: int) -> str:
    """The message about pods that Kueue has not admitted: it holds each behind a scheduling gate."""
    whom, whose = agreed(pods, "it", "them"), agreed(pods, "its", "their").capitalize()
    return f"{_waiting(pods)} for the queue {view.queue}, which has not admitted {whom} yet. {whose} GPUs stay reserved"


def _rejected_words(decision: Decision, view: PoolView) -> str:
    """The message about pods that a kubelet rejects: who, how many, its words, and what happens next."""
    words = f"{view.rejected[0].upper()}{view.rejected[1:]}, so it does not run pool {view.name}."
    again = "" if view.next_try is None else f" The next pod is made at {to_rfc3339(view.next_try)}."
    if not decision.stranded_by:
        return f"{words}{again}"
    return f"{words} No other place takes it: {nearest_sentence(decision.stranded_by)}.{again}"


def _whose(view: PoolView) -> str:
    return f"pool {view.name} on node {view.failed_on}" if view.failed_on else f"pool {view.name}"


def _available(report: Report, now: str) -> StatedCondition:
    views = _active_views(report)
    ready = sum(view.ready for view in report.pools)
    if report.late is not None and ready:
        return StatedCondition("True", Why.REPLACEMENT_LATE, _late_words(report.late), stalled=True)
    late = next((view for view in views if _is_not_coming_up(report, view)), None)
    if late is not None:
        return _not_coming_up(report, late, ready, now)
    failed = next((view for view in views if view.failure is not None and view.ready == 0), None)
    if failed is not None and failed.failure is not None:
        cause = failed.failure
        said = [f"{cause.message.rstrip('.')} ({_whose(failed)}, {counted(failed.restarts, 'restart')})."]
        if cause.is_of_place and report.decision is not None and report.decision.stranded_by:
            said.append(f"No other place takes it: {nearest_sentence(report.decision.stranded_by)}.")
        return StatedCondition(
            "True" if ready else "False",
            cause.reason,
            " ".join(said),
            stalled=failed.restarts >= CRASH_RESTARTS and (ready == 0 or failed.updating),
        )
    if report.replicas == 0:
        return StatedCondition("False", Why.SCALED_TO_ZERO, report.asleep or _EMPTY)
    return _served(report, views, ready)


def _served(report: Report, views: Sequence[PoolView], ready: int) -> StatedCondition:
    """The verdict about replicas of which none fails."""
    weights = _awaited_weights(report)
    if ready and weights is not None:
        message = f"The replicas serve on with the weights of before. {weights.message}"
        return replace(weights, status="True", message=message)
    if ready and any(view.updating for view in views):
        return StatedCondition(
            "True",
            Why.ROLLING_OUT,
            "Replicas with the new settings are being started; the old ones serve on.",
        )
    if ready >= report.replicas:
        return StatedCondition("True", Why.ALL_REPLICAS_SERVE, f"{_serving(ready, report)}.")
    if ready:
        return StatedCondition("True", Why.SOME_REPLICAS_SERVE, f"{_serving(ready, report)}.")
    if any(view.pods - view.unbound for view in views):
        return StatedCondition("False", Why.ENGINES_STARTING, "The engines are loading their weights.")
    return StatedCondition("False", Why.NO_REPLICA_SERVES, "No replica serves yet.")


def _serving(ready: int, report: Report) -> str:
    return counted_of(ready, report.replicas, "replica", "serves", "serve")


def _is_not_coming_up(report: Report, view: PoolView) -> bool:
    """Whether replicas with another template fail, or should serve by now, while earlier ones serve.

    Pods that started before settings were taken back there are the last ones of a change that is over.
    """
    if not (view.updating and view.ready) or (view.failure is None and view.name not in report.late_updates):
        return False
    settings = [each for each in report.failed_moves if each.is_of_settings]
    over = [each.at for each in settings if is_at(view.name, *each.place)]
    return view.starting_since is None or all(view.starting_since > at for at in over)


def _not_coming_up(report: Report, view: PoolView, ready: int, now: str) -> StatedCondition:
    """The verdict when replicas with another template do not come up. Nothing that serves ends for them.

    A change of settings that the live loop made is taken back in time. Any other change is somebody's wish, and stays.
    """
    retune = report.retune_due if report.retune is not None and report.retune.of(view.name) else None
    is_undone = retune is not None and to_rfc3339(retune) > now
    since = "" if view.starting_since is None else f" since {to_rfc3339(view.starting_since)}"
    what = "engines with the settings of the live loop's last change" if retune else "replicas with the last change"
    what_then = (
        f"The change is taken back at {to_rfc3339(retune)} unless they serve by then."
        if retune is not None and is_undone
        else "The change is not taken back by itself."
    )
    return StatedCondition(
        "True",
        Why.REPLACEMENT_LATE if view.failure is None else view.failure.reason,
        f"{what[0].upper()}{what[1:]} have not come up{since} ({_pod_words(view)}). "
        f"{_serving(ready, report)}. {what_then}",
        stalled=not is_undone and (view.restarts >= CRASH_RESTARTS or view.name in report.late_updates),
    )


def _pod_words(view: PoolView) -> str:
    """Return why a pod does not serve, as the pod, the API server or the scheduler says it."""
    if view.failure is None:
        queued = _queue_words(view, view.queued) if view.queued and view.queued == view.unbound else ""
        words = view.workload_error or queued or view.scheduler_message or "its pods did not get ready"
        return f"pool {view.name}: {words.rstrip('.')}"
    again = "" if view.restarts < CRASH_RESTARTS else f", CrashLoopBackOff, {counted(view.restarts, 'restart')}"
    return f"{_whose(view)}{again}: {view.failure.message.rstrip('.')}"


def _late_words(pool: Pool) -> str:
    """The message about a move that failed and cannot be taken back, because the spec rules the old placement out."""
    where = place_words(pool.gpu_type, pool.split)
    return (
        f"The replicas on {where} do not serve in time ({_delay_words(pool.delay)}). The previous replicas serve on, "
        "but the spec does not allow their placement any more."
    )


def _delay_words(delay: Delay | None) -> str:
    if delay is None:
        return ""
    return f"{delay.reason}: {delay.message.rstrip('.')}" if delay.message else delay.reason


def _taken_back(report: Report, now: str) -> str:
    """Describe the last move or change of settings that failed, while it is not tried again; empty if none is."""
    standing = [each for each in report.failed_moves if to_rfc3339(each.until) > now]
    if not standing:
        return ""
    last = standing[-1]
    if last.is_of_settings:
        return (
            f"A change of {place_words(*last.place)} to "
            f"{settings_words(last.limits)} was taken back at {to_rfc3339(last.at)} "
            f"({_delay_words(last.delay)}). The settings are not changed there again before "
            f"{to_rfc3339(last.until)}."
        )
    return (
        f"A move to {place_words(*last.place)} was taken back at {to_rfc3339(last.at)} ({_delay_words(last.delay)}). "
        f"It is not moved there again before {to_rfc3339(last.until)}."
    )


def _ready(
    report: Report, planned: StatedCondition, placed: StatedCondition, available: StatedCondition
) -> StatedCondition:
    """True when all wanted replicas serve. Otherwise the first question without a yes gives the reason."""
    if report.suspended:
        stalled = next((verdict for verdict in (planned, placed, available) if verdict.stalled), None)
        return _at_rest(report) if stalled is None else replace(stalled, status="False")
    if report.replicas == 0 and planned.status == "True":
        if report.refused and any(view.pods for view in report.pools):
            return replace(placed, status="False")
        return StatedCondition("True", Why.SCALED_TO_ZERO, report.asleep or _EMPTY)
    if planned.status != "True":
        return planned
    if available.status != "True" and available.reason not in (
        Why.ENGINES_STARTING,
        Why.NO_REPLICA_SERVES,
    ):
        return replace(available, status="False")
    if placed.status != "True":
        return replace(placed, status="False")
    if available.reason != Why.ALL_REPLICAS_SERVE:
        return replace(available, status="False")
    return StatedCondition("True", Why.SERVING, available.message)


def _at_rest(report: Report) -> StatedCondition:
    """The verdict while nothing is changed: that is what was asked for, with pods or without any."""
    ready = sum(view.ready for view in report.pools)
    runs = "No replica serves." if not ready else f"{counted(ready, 'replica')} {agreed(ready, 'serves', 'serve')} on."
    return StatedCondition("True", Why.SUSPENDED, f"{_AT_REST} {runs}")


def _troubled(report: Report) -> StatedCondition | None:
    """The verdict about what serves and does so worse than asked, as the live loop diagnosed it; None: it does not.

    A router that requests do not go through is said without a replica, too: then nothing else says why none comes.
    """
    live = report.rebalancing
    if live is None or live.trouble is None or not any(view.ready for view in report.pools):
        missed = routing_trouble(report)
        return None if missed is None else StatedCondition("True", missed.reason, missed.message, helps=missed.helps)
    return StatedCondition("True", live.trouble, f"{_TROUBLE_WORDS[live.trouble]} {live.message}")


_TROUBLE_WORDS: Mapping[LiveTrouble, str] = MappingProxyType(
    {
        LiveTrouble.KV_BOUND: "The KV cache limits how many requests are served, and more come.",
        LiveTrouble.BATCH_BOUND: "The engines' own limit of requests at the same time is reached, and more come.",
        LiveTrouble.DECODE_BOUND: "More requests come than are served with the promised time per token.",
        LiveTrouble.HOST_BOUND: "More requests come than are served: the host takes most of the time per token.",
        LiveTrouble.PREFILL_BOUND: "More requests come than are served with the promised time to the first token.",
        LiveTrouble.QUEUE_BOUND: "Requests wait, and what limits the replicas is not known.",
        LiveTrouble.PREEMPTION_STORM: "Requests lose their KV cache to others and are computed again.",
        LiveTrouble.REPLICA_SLOW: "A replica is slower than the others.",
        LiveTrouble.REPLICA_SILENT: "A replica is ready and reports nothing, while others do.",
        LiveTrouble.STUCK_REPLICA: "A replica does not get ready, or has a queue and answers nothing.",
        LiveTrouble.PAGE_LIVELOCK: "Engines answer nothing although requests wait and the KV cache has room.",
        LiveTrouble.IMBALANCED: "Requests wait at one replica or rank while the others have room.",
        LiveTrouble.PROMISE_MISSED: "The measured times miss the promise.",
        LiveTrouble.TOO_SLOW: "The promise is out of reach on these GPUs.",
    }
)


def _active_views(report: Report) -> list[PoolView]:
    if report.decision is None:
        return []
    return [report.view(pool.name) for pool in active(report.decision.pools)]
