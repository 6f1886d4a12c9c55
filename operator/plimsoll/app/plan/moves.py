"""A move of one object: its clock in the status, why its new replicas do not serve yet, and what failed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plimsoll.app.plan.case import Case
from plimsoll.app.reading.objects import pool_views
from plimsoll.domain.kubelet_rejections import rejection_words
from plimsoll.domain.public_words import ConditionReason
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.facts.cluster.scheduler_words import chief_obstacle
from plimsoll.placement.failed_moves import Delay, standing
from plimsoll.placement.move_clock import trusted
from plimsoll.placement.pools import Pool
from plimsoll.placement.roll_back import NOT_READY, is_late

LONGEST_WORDS = 600
"""The most characters of a pod's words that a status holds."""


def read_move(case: Case, least_seconds: float, now: float) -> None:
    """Read the move that is under way, and the places that failed before, into the case.

    Args:
        case: the object, with its pools.
        least_seconds: the least time for a move.
        now: POSIX seconds.
    """
    case.move_seconds = least_seconds
    case.clock = trusted(case.record.move, case.start_digest, now)
    case.failed = standing(case.record.failed_moves, case.start_digest, now)
    case.overdue = case.clock is not None and case.clock.is_over(now)
    if case.overdue:
        case.pools = tuple(
            replace(pool, delay=delay_of(case, pool, now)) if is_late(pool) else pool for pool in case.pools
        )


def delay_of(case: Case, pool: Pool, now: float) -> Delay:
    """Return why a pool does not serve: its engines' words, or the API server's, or the scheduler's."""
    pods = [pod for pod in case.around.pods.get(pool.name, ()) if not (pod.ready or pod.terminating)]
    found = _failure(pods) or _rejection(case, pool, now) or _refusal(case, pool) or _without_node(pods) or NOT_READY
    return replace(found, message=found.message[:LONGEST_WORDS])


def _failure(pods: Sequence[PodFacts]) -> Delay | None:
    failed = max((pod for pod in pods if pod.failure is not None), key=lambda pod: pod.restarts, default=None)
    if failed is None or failed.failure is None:
        return None
    return Delay(failed.failure.reason.value, failed.failure.message)


def _rejection(case: Case, pool: Pool, now: float) -> Delay | None:
    """Return the kubelet's words about pods that it rejects."""
    rejected = case.around.rejecting(pool.name, pool.replicas, now, pool.target.avoids)
    return Delay(ConditionReason.PODS_REJECTED.value, rejection_words(rejected)) if rejected else None


def _refusal(case: Case, pool: Pool) -> Delay | None:
    """Return the API server's words about pods that it refuses: a quota, a policy, a template that is invalid."""
    if pool.uncreated == 0 and not pool.refused:
        return None
    views = pool_views(case.around, case.record, {})
    words = next((view.workload_error for view in views if view.name == pool.name), "")
    words = words or ("" if case.refusal is None else case.refusal.sentence())
    return Delay(ConditionReason.PODS_NOT_CREATED.value, words) if words else None


def _without_node(pods: Sequence[PodFacts]) -> Delay | None:
    waiting = next((pod for pod in pods if pod.unscheduled_since is not None), None)
    if waiting is None:
        return None
    return Delay(chief_obstacle(waiting.obstacles).value, waiting.scheduler_message)
