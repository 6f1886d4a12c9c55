"""The copy of a model's weights on a claim, as the Job that makes it shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.api.conversion.convert import weights_of
from plimsoll.decision.deployment import Deployment
from plimsoll.domain.requests.weights import Weights, WeightsProgress, WeightsState, WeightsView
from plimsoll.domain.units import from_rfc3339
from plimsoll.render.weights import job_name

RETRY_SECONDS = 600.0
"""How long after the last try of a Job a new one is made. It goes on with the files that are there."""

Body = Mapping[str, Any]


def wanted_job(deployment: str, weights: Weights | None) -> str | None:
    """Return the name of the Job that makes the copy; None if no copy is wanted."""
    return None if weights is None or weights.claim is None else job_name(deployment, weights)


def view_of(weights: Weights, job: Body | None, progress: WeightsProgress | None = None, said: str = "") -> WeightsView:
    """Return how far a copy is.

    Args:
        weights: what is wanted, on a claim.
        job: the Job that makes the copy; None: there is none yet.
        progress: what the download reports.
        said: the last words of a download that failed.
    """
    status = {} if job is None else job.get("status") or {}
    if job is None or job["metadata"].get("deletionTimestamp"):
        return WeightsView(weights, WeightsState.AWAITED)
    ended = {str(each.get("type")): each for each in status.get("conditions") or () if each.get("status") == "True"}
    if "Complete" in ended:
        return WeightsView(weights, WeightsState.READY)
    failure = ended.get("Failed")
    if failure is None:
        return WeightsView(weights, WeightsState.ARRIVING, progress, said)
    at = from_rfc3339(str(failure.get("lastTransitionTime") or ""))
    words = said or str(failure.get("message") or failure.get("reason") or "the Job failed")
    return WeightsView(weights, WeightsState.FAILED, None, words, None if at is None else at + RETRY_SECONDS)


def jobs_to_go(deployment: Deployment, now: float) -> tuple[Body, ...]:
    """Return the Jobs that are not wanted any more: those of other copies, and one that failed and is tried again.

    ``now`` is in POSIX seconds.
    """
    spec, view = deployment.spec, deployment.asked.weights
    if spec is None:
        return ()
    wanted = wanted_job(deployment.key.name, weights_of(spec))
    is_over = view is not None and view.again_at is not None and now >= view.again_at
    jobs = deployment.placed.around.jobs
    return tuple(job for name, job in jobs.items() if name != wanted or is_over)
