"""The pools of a deployment as they run: read from its status and its pods, with the changes that are under way.

Why the replicas of a pool do not serve: their engines' words, or a kubelet's, the API server's, the scheduler's.

The engine that an open choice stays with follows from the pools, too.

A change of settings that the live loop made in a pool has a clock in the status, and its engines come up or not.
Replicas with another pod template have such a time, too: the status says when they do not come up. Kubernetes starts
them one after another, and the earlier ones serve on. A change of the spec is never undone here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from plimsoll.api.v1alpha1 import EngineSpec
from plimsoll.decision.deployment import Deployment, Identity, PlacedPools, RefusedWrite
from plimsoll.decision.surroundings import Surroundings, held_back, is_updating, read_pools, workload_error
from plimsoll.decision.turns import LoopTurn
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.engines.failures import rejection_words
from plimsoll.domain.public_words import ConditionReason
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.facts.cluster.scheduler_words import chief_obstacle
from plimsoll.placement.demands.clocks import EarlierSettings, RetuneClock, trusted, trusted_retune
from plimsoll.placement.demands.failed_moves import Delay, standing
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, is_at, running_engine
from plimsoll.placement.demands.rehoming import of_last_hour
from plimsoll.placement.demands.roll_back import NOT_READY, is_late
from plimsoll.rebalance.state.decisions import Retune
from plimsoll.rebalance.state.history import ChangeKind
from plimsoll.render.inputs import INPUTS_ANNOTATION
from plimsoll.status.record.reading import Record

LONGEST_WORDS = 600
"""The most characters of a pod's words that a status holds."""


def engine_that_runs(spec: EngineSpec, pools: Iterable[Pool]) -> str | None:
    """Return the engine that an open choice stays with, which is that of the pools; None: it is open, or not asked for.

    An engine that this release does not know is none.
    """
    running = running_engine(pools) if spec.is_open else None
    return running if running in spec.engines else None


def engines_that_run(spec: EngineSpec, bare: Deployment) -> tuple[str, ...]:
    """Return the engines with which an open choice may stay, the first one first; none if it is open, or not asked for.

    They are that of an approved move, that of the pods that serve, if none of them has the pools' engine yet, and that
    of the pools.
    """
    placed = bare.placed
    decided, serving = engine_that_runs(spec, placed.pools), Counter(placed.engines.values())
    if decided is None:
        return ()
    ordered = _ordered(spec, bare)
    known = sorted((name for name in serving if name in spec.engines), key=lambda name: (-serving[name], name))
    found = (decided,) if decided in serving else (*known[:1], decided)
    return found if ordered is None else tuple(dict.fromkeys((ordered, *found)))


def _ordered(spec: EngineSpec, bare: Deployment) -> str | None:
    """Return the engine to which an approved move leads while the move has time; None: none is under way.

    The status has the move among the changes. A pool alone that names another engine is no order.
    """
    placed, digests = bare.placed, bare.identity.digests
    if placed.move is None or placed.is_late or not spec.is_open:
        return None
    last = bare.record.history.newest(ChangeKind.MOVE, ChangeKind.ROLL_BACK)
    engine = "" if last is None else last.engine
    is_going = all((pool.engine, pool.spec) == (engine, digests.engine) for pool in placed.active)
    return engine if engine in spec.engines and is_going else None


def delay_of(pool: Pool, around: Surroundings, refusal: RefusedWrite | None, now: float) -> Delay:
    """Return why a pool does not serve: its engines' words, or the API server's, or the scheduler's."""
    pods = [pod for pod in around.pods.get(pool.name, ()) if not (pod.ready or pod.terminating)]
    found = (
        _failure(pods)
        or _rejection(pool, around, now)
        or _refusal(pool, around, refusal)
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


def _refusal(pool: Pool, around: Surroundings, refusal: RefusedWrite | None) -> Delay | None:
    """Return the API server's words about pods that it refuses: a quota, a policy, a template that is invalid."""
    if pool.uncreated == 0 and not pool.refused:
        return None
    words = workload_error(around.workloads.get(pool.name)) or ("" if refusal is None else refusal.sentence())
    return Delay(ConditionReason.PODS_NOT_CREATED.value, words) if words else None


def _without_node(pods: Sequence[PodFacts]) -> Delay | None:
    waiting = next((pod for pod in pods if pod.unscheduled_since is not None), None)
    if waiting is None:
        return None
    return Delay(chief_obstacle(waiting.obstacles).value, waiting.scheduler_message)


def placed_now(
    identity: Identity,
    record: Record,
    around: Surroundings,
    *,
    wanted: int,
    concurrency: object,
    now: float,
    grace_seconds: float,
    refusal: RefusedWrite | None = None,
) -> PlacedPools:
    """Return the pools of one object, and the changes of them that are under way.

    Args:
        identity: which object.
        record: its status.
        around: its pods and Deployments.
        wanted: the upper limit for a pool's replicas when it is read from its workload, because anyone can scale that.
        concurrency: ``spec.concurrency`` as it is written.
        now: POSIX seconds.
        grace_seconds: how long a pod may be without a node before it counts as stranded.
        refusal: what the API server refused last.
    """
    names = [*(pool.name for pool in record.pools), *around.workloads]
    refused = {} if refusal is None else refusal.since_by_pool(names)
    pools = read_pools(record, around, wanted=wanted, now=now, grace_seconds=grace_seconds, refused_since=refused)
    pools = _with_sequences(pools, identity, record, concurrency)
    move = trusted(record.move, identity.digests.start, now)
    is_over = move is not None and move.is_over(now)
    if is_over:
        pools = tuple(
            replace(pool, delay=delay_of(pool, around, refusal, now)) if is_late(pool) else pool for pool in pools
        )
    placed = PlacedPools(
        around,
        pools,
        left=of_last_hour(record.rehomings, now),
        failed=standing(record.failed_moves, identity.digests.start, now),
        move=move,
        is_late=is_over,
        held_back=tuple(_held_back(pools, around, now)),
    )
    return placed if record.retune is None else with_retune(placed, identity, record, refusal, now)


def _held_back(pools: Sequence[Pool], around: Surroundings, now: float) -> list[tuple[str, int]]:
    held = ((pool.name, held_back(around, pool, now)) for pool in pools)
    return [(name, most) for name, most in held if most is not None]


def _with_sequences(
    pools: tuple[Pool, ...], identity: Identity, record: Record, concurrency: object
) -> tuple[Pool, ...]:
    """Return the pools with the most requests at the same time that their engines got.

    Earlier releases recorded it for the deployment only, and it was always ``spec.concurrency``. The engines keep it as
    long as that is so: an upgrade of the operator must not restart them.
    """
    number = record.max_sequences
    if number is None or all(pool.limits.sequences for pool in pools):
        return pools
    if record.status.observed_generation != identity.generation and number != concurrency:
        return pools
    own, spec = StepLimits(sequences=number), identity.digests.engine
    return tuple(
        pool if pool.limits.sequences else replace(pool, limits=pool.limits.over(own), spec=spec) for pool in pools
    )


def with_retune(
    placed: PlacedPools, identity: Identity, record: Record, refusal: RefusedWrite | None, now: float
) -> PlacedPools:
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
    pools = (_under_way(pool, placed, clock, refusal, now) for pool in placed.pools)
    return replace(placed, pools=tuple(pools))


def _is_open(pool: Pool, around: Surroundings, earlier: EarlierSettings | None) -> bool:
    """Whether a pool's engines are still to come up with other settings. If none is wanted, none can.

    A Deployment that is not seen shows nothing.
    """
    if earlier is None or not pool.is_active or pool.replicas == 0:
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


def _under_way(pool: Pool, placed: PlacedPools, clock: RetuneClock, refusal: RefusedWrite | None, now: float) -> Pool:
    """Return the pool with its earlier settings, and with the reason why it is late if it is.

    The replica that an update starts first is one more than wanted. It finds another place by the roll-back.
    """
    earlier = clock.of(pool.name)
    if earlier is None:
        return pool
    is_over = placed.retune_due is not None and now >= placed.retune_due
    pods = sum(not pod.terminating for pod in placed.around.pods.get(pool.name, ()))
    stranded = max(0, pool.stranded - max(0, pool.split.shape.replicas_of(pods) - pool.replicas))
    delay = delay_of(pool, placed.around, refusal, now) if is_over else pool.delay
    return replace(pool, earlier=earlier, overdue=is_over, stranded=stranded, failing=0, delay=delay)


def retune_after(
    deployment: Deployment, decision: Decision | None, turn: LoopTurn | None, allowed_seconds: float, now: float
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
        undone = [each for each in decision.rolled_back if each.is_of_settings]
        clock = clock.without(
            {each.pool for each in clock.before if any(is_at(each.pool, *failed.place) for failed in undone)}
        )
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
    if planned is None or not pool.limits.sequences or planned.limits == pool.limits:
        return None
    return EarlierSettings(pool.name, pool.limits, pool.drain_seconds, _inputs_of(pool.name, around))


def updates_due(placed: PlacedPools, allowed_seconds: float) -> tuple[tuple[str, float], ...]:
    """Return each pool that is being updated, and by when the oldest of its replicas without service must serve.

    Args:
        placed: the pools.
        allowed_seconds: how long new replicas may take until they serve.
    """
    updating = [pool.name for pool in placed.active if is_updating(placed.around.workloads.get(pool.name))]
    since = ((pool, placed.around.starting_since(pool)) for pool in updating)
    return tuple((pool, at + allowed_seconds) for pool, at in since if at is not None)
