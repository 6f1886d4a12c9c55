"""The moments at which an object changes by time alone. A pass runs then, instead of every few seconds."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.app.plan.case import Case
from plimsoll.decision.surroundings import CERTAIN_SECONDS, ENDING_SECONDS
from plimsoll.domain.kubelet_rejections import ACCEPTED_SECONDS, tries_again_at
from plimsoll.facts.cluster.pod_reading import PodFacts

PASSING_SECONDS = 5.0
"""How soon to look again at GPUs that are reserved for refused pods: the reservation ends after a fixed time."""

_SLACK_SECONDS = 0.2
"""Added to each deadline: at the exact moment "older than" is not true yet."""


def deadlines_of(case: Case, stranded_seconds: float, now: float) -> Iterator[float]:
    """Yield the moments (POSIX seconds) at which this object must be planned again, including past ones."""
    if any(pool.refused and not pool.promise_over for pool in case.pools):
        yield now + PASSING_SECONDS
    if case.coming.until is not None:
        yield case.coming.until + _SLACK_SECONDS
    if case.clock is not None:
        yield case.clock.due + _SLACK_SECONDS
    if case.retune is not None and case.retune_due is not None:
        yield case.retune_due + _SLACK_SECONDS
    yield from (due + _SLACK_SECONDS for _, due in case.updates_due)
    yield from (failed.until + _SLACK_SECONDS for failed in case.failed)
    rejecting = (case.around.rejecting(pool.name, pool.replicas, now, pool.target.avoids) for pool in case.pools)
    yield from (tries_again_at(rejections) + _SLACK_SECONDS for rejections in rejecting if rejections)
    for pods in case.around.pods.values():
        for pod in pods:
            yield from (due + _SLACK_SECONDS for due in _of_pod(case, pod, stranded_seconds))


def _of_pod(case: Case, pod: PodFacts, stranded_seconds: float) -> Iterator[float]:
    if pod.unscheduled_since is not None:
        yield pod.unscheduled_since + stranded_seconds
    if case.around.rejections and pod.bound_since is not None:
        yield pod.bound_since + ACCEPTED_SECONDS
    if pod.failure is not None and pod.failure.is_of_place and pod.bound_since is not None:
        yield pod.bound_since + CERTAIN_SECONDS
    if pod.gone_by is not None:
        yield pod.gone_by + ENDING_SECONDS
