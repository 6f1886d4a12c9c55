"""The moments at which an object changes by time alone. A pass runs then, instead of every few seconds."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.decision.outcome import Outcome
from plimsoll.decision.surroundings import CERTAIN_SECONDS, ENDING_SECONDS, Surroundings
from plimsoll.domain.engines.failures import ACCEPTED_SECONDS, tries_again_at
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.demands.failed_moves import still_refused

PASSING_SECONDS = 5.0
"""How soon to look again at GPUs that are reserved for refused pods: the reservation ends after a fixed time."""

_SLACK_SECONDS = 0.2
"""Added to each deadline: at the exact moment "older than" is not true yet."""


def deadlines_of(outcome: Outcome, stranded_seconds: float, now: float) -> Iterator[float]:
    """Yield the moments (POSIX seconds) at which this object must be planned again, including past ones."""
    placed, under_way, request = outcome.deployment.placed, outcome.under_way, outcome.deployment.asked.request
    if any(pool.refused and not pool.promise_over for pool in placed.pools):
        yield now + PASSING_SECONDS
    if outcome.besides.coming.until is not None:
        yield outcome.besides.coming.until + _SLACK_SECONDS
    if placed.move is not None:
        yield placed.move.due + _SLACK_SECONDS
    if under_way.retune is not None and under_way.retune_due is not None:
        yield under_way.retune_due + _SLACK_SECONDS
    yield from (due + _SLACK_SECONDS for _, due in under_way.updates_due)
    failed = placed.failed if request is None else still_refused(request, placed.failed)
    yield from (each.until + _SLACK_SECONDS for each in failed)
    weights = outcome.deployment.asked.weights
    if weights is not None and weights.again_at is not None:
        yield weights.again_at + _SLACK_SECONDS
    around = placed.around
    rejecting = (around.rejecting(pool.name, pool.replicas, now, pool.target.avoids) for pool in placed.pools)
    yield from (tries_again_at(rejections) + _SLACK_SECONDS for rejections in rejecting if rejections)
    for pods in around.pods.values():
        for pod in pods:
            yield from (due + _SLACK_SECONDS for due in _of_pod(around, pod, stranded_seconds))


def _of_pod(around: Surroundings, pod: PodFacts, stranded_seconds: float) -> Iterator[float]:
    if pod.unscheduled_since is not None:
        yield pod.unscheduled_since + stranded_seconds
    if around.rejections and pod.bound_since is not None:
        yield pod.bound_since + ACCEPTED_SECONDS
    if pod.failure is not None and pod.failure.is_of_place and pod.bound_since is not None:
        yield pod.bound_since + CERTAIN_SECONDS
    if pod.gone_by is not None:
        yield pod.gone_by + ENDING_SECONDS
