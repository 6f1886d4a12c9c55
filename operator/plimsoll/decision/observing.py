"""Engines report their memory, and that becomes part of their deployment's request, and of those of others."""

from __future__ import annotations

from plimsoll.decision.capacities import about_cache, observed_capacities, reported_tokens, silent_pools, told_now
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.kept import ChangedRequests
from plimsoll.decision.lessons import CommonLessons, Contribution, contribution, lessons, merged, remembered
from plimsoll.decision.observations import capacities, failed_starts, observed_now
from plimsoll.decision.outcome import Observed, Ready
from plimsoll.decision.turns import Standing
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.errors import PlimsollError
from plimsoll.placement.memo import Memo
from plimsoll.rebalance.signals.reading import Reading


def observe(deployment: Deployment, reading: Reading | None, fleet: Fleet, memo: Memo) -> Observed:
    """Return what the engines of a deployment report about their memory, now and earlier."""
    record, around, identity = deployment.record, deployment.placed.around, deployment.identity
    request, pools, spec = deployment.asked.request, deployment.placed.pools, deployment.identity.digests.engine
    seen = remembered(record.observations, spec)
    reading = about_cache(reading, request)
    now = told_now(around, reading)
    reported = reported_tokens(record, identity.generation, now)
    silent = silent_pools(around, reading, record, reported)
    if request is None:
        return Observed(seen, reported, silent)
    try:
        found = observed_now(request, pools, around, now, fleet, generation=identity.generation, spec=spec, memo=memo)
        now = capacities(request, pools, now, fleet, memo)
    except PlimsollError:
        return Observed(seen, reported, silent)  # the model has no memory law: planning reports that
    return Observed(merged(seen, found), reported_tokens(record, identity.generation, now), silent)


def contribution_of(deployment: Deployment, found: Observed) -> Contribution:
    """Return the observations of a deployment's engines that count for others."""
    spec = deployment.identity.digests.engine
    return contribution(deployment.key, spec, found.seen, teaches=deployment.asked.teaches)


def ready_of(deployment: Deployment, found: Observed, common: CommonLessons, changed: ChangedRequests) -> Ready | None:
    """Return a deployment with what engines taught, for the replicas that its live loop wants; None: it has no request.

    Args:
        deployment: the deployment.
        found: what its engines report.
        common: what the engines of others teach.
        changed: gives equal requests as the same Python object, pass after pass.
    """
    request, identity, placed = deployment.asked.request, deployment.identity, deployment.placed
    if request is None or deployment.spec is None:
        return None
    spec, reported = identity.digests.engine, found.reported
    request = changed.of(
        identity.uid,
        request,
        observed=observed_capacities(deployment.record, spec, placed.pools, placed.around, reported),
        corrections=lessons(found.seen, (*common.of(deployment.key, request.model.name), *request.corrections)),
        failed_starts=failed_starts(request, found.seen),
    )
    standing = Standing.read(
        deployment.spec, deployment.record, request.replicas, came_back=deployment.writes.came_back
    )
    target = min(standing.target_replicas, 1) if request.mounts_alone else standing.target_replicas
    return Ready(deployment, changed.of(identity.uid, request, replicas=target), standing, found)
