"""Measures how many more replicas of one deployment fit on what the operator's decisions leave free."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace

from plimsoll.adapters.cluster.client import Cluster
from plimsoll.app.plan.passes import PassResult
from plimsoll.app.review.deciding import new_decider
from plimsoll.app.review.looking import look, operator_settings
from plimsoll.app.review.overlay import applied, overlaid, stored
from plimsoll.app.review.values import DeploymentWish, Means, Measured
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.placement.demands.pools import PoolState, count
from plimsoll.placement.places.capacity import capacity


async def measure(
    cluster: Cluster,
    wish: DeploymentWish,
    means: Means,
    environment: Mapping[str, str] = os.environ,
    now: float | None = None,
) -> Measured:
    """Return how many more replicas fit after the operator's decisions on all objects, this one included.

    An object that the cluster does not have is decided as suspended: it takes nothing, and all replicas are more.

    Raises:
        PlimsollError: the cluster cannot be read, or the deployment or its model cannot be used.
    """
    now = time.time() if now is None else now
    settings, notes = await operator_settings(cluster, environment)
    if settings.watch_namespaces and wish.key.namespace not in settings.watch_namespaces:
        fix = f"The operator does not serve it. Use one of: {', '.join(settings.watch_namespaces)}."
        raise InvalidInput("metadata.namespace", wish.key.namespace, fix)
    seen = await look(cluster, settings)
    live = seen.live.get(wish.key)
    sent = applied(wish.body, live)
    if live is None:
        sent["spec"] = {**sent["spec"], "suspend": True}
    async with new_decider(cluster, settings, means) as (decider, about_prices):
        done = await decider.decided(overlaid(seen.picture, [stored(sent, live, now)]), now)
    return replace(measured(done, wish), notes=(*notes, *seen.notes, *about_prices))


def measured(done: PassResult, wish: DeploymentWish) -> Measured:
    """Return the answer from a pass with the object."""
    outcome = next(each.outcome for each in done.desired if each.key == wish.key)
    if outcome.problem is not None or outcome.request is None:
        why = "It cannot be planned." if outcome.problem is None else outcome.problem.message
        raise PlimsollError(f"{wish.where}: {why}")
    closed = [each.place for each in outcome.deployment.placed.left if not each.node]
    pools = () if outcome.decision is None else outcome.decision.pools
    return Measured(
        wish.key,
        count(pool for pool in pools if pool.state is PoolState.ACTIVE),
        capacity(outcome.request, done.left.fleet, done.left.ledger, closed),
        done.left.fleet,
    )
