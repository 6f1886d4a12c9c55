"""A change of settings that the live loop made in a pool: its clock in the status, and whether the engines came up.

Replicas with another pod template have such a time, too: the status says when they do not come up. Kubernetes starts
them one after another, and the earlier ones serve on. A change of the spec is never undone here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from plimsoll.app.plan.case import Case, seconds_allowed
from plimsoll.app.plan.moves import delay_of
from plimsoll.app.reading.objects import is_updating
from plimsoll.placement.pools import Decision, PlannedPool, Pool, PoolState, pool_name
from plimsoll.placement.retune_clock import EarlierSettings, RetuneClock, trusted
from plimsoll.rebalance.state.decisions import Retune
from plimsoll.render.inputs import INPUTS_ANNOTATION


def read_retune(case: Case, now: float) -> None:
    """Read the change of settings that is under way into the case. ``now`` is in POSIX seconds."""
    clock = trusted(case.record.retune, case.spec_digest, now)
    if clock is None:
        return
    changed = [pool for pool in case.pools if _is_open(case, pool, clock.of(pool.name))]
    case.retune = clock = clock.without({each.pool for each in clock.before} - {pool.name for pool in changed})
    if clock is None:
        return
    case.retune_due = clock.due(_served_since(case, clock), sum(pool.replicas for pool in changed))
    case.pools = tuple(_under_way(case, pool, now) for pool in case.pools)


def _is_open(case: Case, pool: Pool, earlier: EarlierSettings | None) -> bool:
    """Whether a pool's engines are still to come up with other settings. Where none is wanted, none can.

    A Deployment that is not seen shows nothing.
    """
    if earlier is None or pool.state is not PoolState.ACTIVE or pool.replicas == 0:
        return False
    body = case.around.workloads.get(pool.name)
    if body is None or is_updating(body):
        return True
    return _inputs_of(case, pool.name) == earlier.inputs or pool.ready == 0


def _inputs_of(case: Case, pool: str) -> str:
    """Return the digest of what the pool's template was made from; empty where there is no Deployment or no digest."""
    body = case.around.workloads.get(pool) or {"metadata": {}}
    return str((body["metadata"].get("annotations") or {}).get(INPUTS_ANNOTATION) or "")


def _served_since(case: Case, clock: RetuneClock) -> Iterator[float]:
    """Yield since when replicas serve that were started after the change."""
    for earlier in clock.before:
        for pod in case.around.pods.get(earlier.pool, ()):
            if pod.ready and pod.ready_since is not None and (pod.bound_since or 0.0) >= clock.began:
                yield pod.ready_since


def _under_way(case: Case, pool: Pool, now: float) -> Pool:
    """Return the pool with its earlier settings, and with the reason why it is late if it is.

    The replica that an update starts first is one more than wanted. It finds another place by the roll-back.
    """
    earlier = None if case.retune is None else case.retune.of(pool.name)
    if earlier is None:
        return pool
    is_over = case.retune_due is not None and now >= case.retune_due
    pods = sum(not pod.terminating for pod in case.around.pods.get(pool.name, ()))
    stranded = max(0, pool.stranded - max(0, pods - pool.replicas))
    delay = delay_of(case, pool, now) if is_over else pool.delay
    return replace(pool, earlier=earlier, overdue=is_over, stranded=stranded, failing=0, delay=delay)


def begin_retune(case: Case, now: float) -> None:
    """Note the change of settings that was decided in this pass, and forget those that it takes back.

    Args:
        case: the object, with its decision.
        now: POSIX seconds.
    """
    if case.decision is None:
        return
    if case.turn is not None and case.turn.acted and isinstance(case.turn.decision, Retune):
        case.retune = _begun(case, case.decision, now)
        case.retune_due = None if case.retune is None else case.retune.due((), 0)
    elif case.retune is not None:
        undone = [pool_name(*each.place) for each in case.decision.rolled_back if each.is_of_settings]
        case.retune = case.retune.without(undone)


def _begun(case: Case, decision: Decision, now: float) -> RetuneClock | None:
    """Return the clock of a change. A pool whose settings are not known cannot get them back."""
    planned = {pool.name: pool for pool in decision.pools if pool.choice is not None}
    before = [_earlier(case, pool, planned.get(pool.name)) for pool in case.pools if pool.state is PoolState.ACTIVE]
    known = tuple(each for each in before if each is not None)
    return RetuneClock(known, now, math.ceil(seconds_allowed(case)), case.spec_digest) if known else None


def _earlier(case: Case, pool: Pool, planned: PlannedPool | None) -> EarlierSettings | None:
    if planned is None or pool.max_sequences is None:
        return None
    if (planned.sequences, planned.step_tokens) == (pool.max_sequences, pool.batched_tokens):
        return None
    inputs = _inputs_of(case, pool.name)
    return EarlierSettings(pool.name, pool.max_sequences, pool.batched_tokens, pool.drain_seconds, inputs)


def read_updates(case: Case, now: float) -> None:
    """Read which pools have replicas that should serve by now with their new template. ``now`` is in POSIX seconds."""
    case.updates_due = tuple(_dues(case))
    case.late_updates = frozenset(pool for pool, due in case.updates_due if now >= due)


def _dues(case: Case) -> Iterator[tuple[str, float]]:
    """Yield each pool that is being updated, and by when the oldest of its replicas without service must serve."""
    for pool in case.pools:
        if pool.state is PoolState.ACTIVE and is_updating(case.around.workloads.get(pool.name)):
            since = case.around.starting_since(pool.name)
            if since is not None:
                yield pool.name, since + seconds_allowed(case)
