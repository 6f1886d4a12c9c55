"""A change of settings that the live loop made in a pool: its clock in the status, and whether the engines came up.

Replicas with another pod template have such a time, too: the status says when they do not come up. Kubernetes starts
them one after another, and the earlier ones serve on. A change of the spec is never undone here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from plimsoll.decision.deployment import Deployment, Identity, Placed, Refusal
from plimsoll.decision.pools.delays import delay_of
from plimsoll.decision.surroundings import Surroundings, is_updating
from plimsoll.decision.turns import Turn
from plimsoll.placement.demands.clocks import EarlierSettings, RetuneClock, trusted_retune
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, pool_name
from plimsoll.rebalance.state.decisions import Retune
from plimsoll.render.inputs import INPUTS_ANNOTATION
from plimsoll.status.reading import Record


def with_retune(placed: Placed, identity: Identity, record: Record, refusal: Refusal | None, now: float) -> Placed:
    """Return what is placed with the change of settings that is under way. ``now`` is in POSIX seconds."""
    clock = trusted_retune(record.retune, identity.digests.engine, now)
    if clock is None:
        return placed
    changed = [pool for pool in placed.pools if _is_open(pool, placed.around, clock.of(pool.name))]
    clock = clock.without({each.pool for each in clock.before} - {pool.name for pool in changed})
    if clock is None:
        return placed
    due = clock.due(_served_since(placed.around, clock), sum(pool.replicas for pool in changed))
    placed = replace(placed, retune=clock, retune_due=due)
    pools = (_under_way(pool, placed, clock, record, refusal, now) for pool in placed.pools)
    return replace(placed, pools=tuple(pools))


def _is_open(pool: Pool, around: Surroundings, earlier: EarlierSettings | None) -> bool:
    """Whether a pool's engines are still to come up with other settings. If none is wanted, none can.

    A Deployment that is not seen shows nothing.
    """
    if earlier is None or pool.state is not PoolState.ACTIVE or pool.replicas == 0:
        return False
    body = around.workloads.get(pool.name)
    if body is None or is_updating(body):
        return True
    return _inputs_of(pool.name, around) == earlier.inputs or pool.ready == 0


def _inputs_of(pool: str, around: Surroundings) -> str:
    """Return the digest of what the pool's template was made from; empty if there is no Deployment or no digest."""
    body = around.workloads.get(pool) or {"metadata": {}}
    return str((body["metadata"].get("annotations") or {}).get(INPUTS_ANNOTATION) or "")


def _served_since(around: Surroundings, clock: RetuneClock) -> Iterator[float]:
    """Yield since when replicas serve that were started after the change."""
    for earlier in clock.before:
        for pod in around.pods.get(earlier.pool, ()):
            if pod.ready and pod.ready_since is not None and (pod.bound_since or 0.0) >= clock.began:
                yield pod.ready_since


def _under_way(
    pool: Pool, placed: Placed, clock: RetuneClock, record: Record, refusal: Refusal | None, now: float
) -> Pool:
    """Return the pool with its earlier settings, and with the reason why it is late if it is.

    The replica that an update starts first is one more than wanted. It finds another place by the roll-back.
    """
    earlier = clock.of(pool.name)
    if earlier is None:
        return pool
    is_over = placed.retune_due is not None and now >= placed.retune_due
    pods = sum(not pod.terminating for pod in placed.around.pods.get(pool.name, ()))
    stranded = max(0, pool.stranded - max(0, pods - pool.replicas))
    delay = delay_of(pool, placed.around, record, refusal, now) if is_over else pool.delay
    return replace(pool, earlier=earlier, overdue=is_over, stranded=stranded, failing=0, delay=delay)


def retune_after(
    deployment: Deployment, decision: Decision | None, turn: Turn | None, allowed_seconds: float, now: float
) -> tuple[RetuneClock | None, float | None]:
    """Return the clock of the change of settings that is under way after a decision, and when its engines must serve.

    A change that was decided in this pass begins, and those that the decision takes back end.

    Args:
        deployment: the deployment before the decision.
        decision: what was decided; None: nothing.
        turn: the turn of the live loop, if there was one.
        allowed_seconds: how long new replicas may take until they serve.
        now: POSIX seconds.
    """
    clock, due = deployment.placed.retune, deployment.placed.retune_due
    if decision is None:
        return clock, due
    if turn is not None and turn.acted and isinstance(turn.decision, Retune):
        clock = _begun(deployment, decision, allowed_seconds, now)
        return clock, None if clock is None else clock.due((), 0)
    if clock is not None:
        undone = [pool_name(*each.place) for each in decision.rolled_back if each.is_of_settings]
        clock = clock.without(undone)
    return clock, due


def _begun(deployment: Deployment, decision: Decision, allowed_seconds: float, now: float) -> RetuneClock | None:
    """Return the clock of a change. A pool whose settings are not known cannot get them back."""
    planned = {pool.name: pool for pool in decision.pools if pool.choice is not None}
    around = deployment.placed.around
    before = (_earlier(pool, around, planned.get(pool.name)) for pool in deployment.placed.active)
    known = tuple(each for each in before if each is not None)
    spec = deployment.identity.digests.engine
    return RetuneClock(known, now, math.ceil(allowed_seconds), spec) if known else None


def _earlier(pool: Pool, around: Surroundings, planned: PlannedPool | None) -> EarlierSettings | None:
    if planned is None or pool.max_sequences is None:
        return None
    if (planned.sequences, planned.step_tokens) == (pool.max_sequences, pool.batched_tokens):
        return None
    inputs = _inputs_of(pool.name, around)
    return EarlierSettings(pool.name, pool.max_sequences, pool.batched_tokens, pool.drain_seconds, inputs)


def updates_due(placed: Placed, allowed_seconds: float) -> tuple[tuple[str, float], ...]:
    """Return each pool that is being updated, and by when the oldest of its replicas without service must serve.

    Args:
        placed: the pools.
        allowed_seconds: how long new replicas may take until they serve.
    """
    updating = [pool.name for pool in placed.active if is_updating(placed.around.workloads.get(pool.name))]
    since = ((pool, placed.around.starting_since(pool)) for pool in updating)
    return tuple((pool, at + allowed_seconds) for pool, at in since if at is not None)
