"""Why the replicas of a pool do not serve: their engines' words, or a kubelet's, the API server's, the scheduler's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plimsoll.decision.deployment import Refusal
from plimsoll.decision.surroundings import Surroundings, pool_views
from plimsoll.domain.engines.failures import rejection_words
from plimsoll.domain.public_words import ConditionReason
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.facts.cluster.scheduler_words import chief_obstacle
from plimsoll.placement.demands.failed_moves import Delay
from plimsoll.placement.demands.pools import Pool
from plimsoll.placement.demands.roll_back import NOT_READY
from plimsoll.status.reading import Record

LONGEST_WORDS = 600
"""The most characters of a pod's words that a status holds."""


def delay_of(pool: Pool, around: Surroundings, record: Record, refusal: Refusal | None, now: float) -> Delay:
    """Return why a pool does not serve: its engines' words, or the API server's, or the scheduler's."""
    pods = [pod for pod in around.pods.get(pool.name, ()) if not (pod.ready or pod.terminating)]
    found = (
        _failure(pods)
        or _rejection(pool, around, now)
        or _refusal(pool, around, record, refusal)
        or _without_node(pods)
        or NOT_READY
    )
    return replace(found, message=found.message[:LONGEST_WORDS])


def _failure(pods: Sequence[PodFacts]) -> Delay | None:
    failed = max((pod for pod in pods if pod.failure is not None), key=lambda pod: pod.restarts, default=None)
    if failed is None or failed.failure is None:
        return None
    return Delay(failed.failure.reason.value, failed.failure.message)


def _rejection(pool: Pool, around: Surroundings, now: float) -> Delay | None:
    rejected = around.rejecting(pool.name, pool.replicas, now, pool.target.avoids)
    return Delay(ConditionReason.PODS_REJECTED.value, rejection_words(rejected)) if rejected else None


def _refusal(pool: Pool, around: Surroundings, record: Record, refusal: Refusal | None) -> Delay | None:
    """Return the API server's words about pods that it refuses: a quota, a policy, a template that is invalid."""
    if pool.uncreated == 0 and not pool.refused:
        return None
    views = pool_views(around, record, {})
    words = next((view.workload_error for view in views if view.name == pool.name), "")
    words = words or ("" if refusal is None else refusal.sentence())
    return Delay(ConditionReason.PODS_NOT_CREATED.value, words) if words else None


def _without_node(pods: Sequence[PodFacts]) -> Delay | None:
    waiting = next((pod for pod in pods if pod.unscheduled_since is not None), None)
    if waiting is None:
        return None
    return Delay(chief_obstacle(waiting.obstacles).value, waiting.scheduler_message)
