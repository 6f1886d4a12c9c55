"""The report that a status is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.api.v1alpha1 import RebalancingMode
from plimsoll.decision.deployment import Deployment, RefusedWrite
from plimsoll.decision.outcome import Outcome, UnderWay
from plimsoll.decision.pools import retune_after, updates_due
from plimsoll.decision.surroundings import pool_views
from plimsoll.decision.turns import LoopTurn, is_cut_off, kept_sentence, may_sleep, policy_of
from plimsoll.domain.public_words import RESOLVING, ConditionReason
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.demands.clocks import MoveClock, continued, seconds_for_move
from plimsoll.placement.demands.failed_moves import FailedMove, still_refused
from plimsoll.placement.demands.failed_moves import remembered as remembered_failures
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, active, running_engine
from plimsoll.placement.demands.rehoming import Departure, Rehoming
from plimsoll.placement.demands.rehoming import remembered as remembered_places
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.rebalance.state.decisions import DecisionReason, Keep, Move, ReplaceReplica
from plimsoll.status.record.decisions import DECISION, DecisionNote
from plimsoll.status.record.decisions import remembered as remembered_decisions
from plimsoll.status.record.report import Report, RoutingReport
from plimsoll.status.words.engines import approved_offer, kept_offer


def report_of(outcome: Outcome, now: float) -> Report:
    """Return the data that the status is made of. ``now`` is in POSIX seconds."""
    deployment, observed, besides = outcome.deployment, outcome.observed, outcome.besides
    identity, record, placed, spec = deployment.identity, deployment.record, deployment.placed, deployment.spec
    mode = spec.rebalancing.mode if spec else RebalancingMode.OFF
    sized = spec is not None and spec.total_concurrency is not None
    decision, refusal, under_way = outcome.decision, deployment.writes.refusal, outcome.under_way
    kept = "" if spec is None or outcome.standing is None else kept_sentence(spec, outcome.standing)
    turn = outcome.turn or (_at_rest(outcome, kept) if mode is RebalancingMode.OFF else None)
    report = Report(
        name=identity.key.name,
        generation=identity.generation,
        replicas=outcome.request.replicas if outcome.request else deployment.asked.replicas,
        decision=decision,
        too_small=besides.too_small,
        replacing=sum(count for _, count in besides.replacing),
        leaving=besides.leaving,
        awaits=besides.awaits,
        problem=outcome.problem,
        model=deployment.asked.model,
        engine_version=outcome.resource.spec.engine.release_name if outcome.resource else "",
        pools=pool_views(
            placed.around, record, observed.reported, observed.silent, in_host=observed.reported_in_host, now=now
        ),
        suspended=bool(spec and spec.suspend),
        observations=observed.seen,
        spec_digest=identity.digests.engine,
        size_digest=identity.digests.size if sized else None,
        rehomings=_left_places(outcome, decision, now) if decision else (),
        move=_move(outcome, now),
        failed_moves=_failed_moves(outcome, now),
        late=_late(outcome),
        retune=under_way.retune,
        retune_due=under_way.retune_due,
        late_updates=under_way.late_updates,
        decisions=_decisions(outcome, now),
        proposals=besides.proposals,
        rebalancing=None if turn is None else turn.report(record, mode, sized=sized, namespace=identity.key.namespace),
        rebalancing_off=spec is not None and spec.rebalancing.mode is RebalancingMode.OFF,
        routing=_routing(deployment, now),
        contested=_contested(outcome),
        namespace=identity.key.namespace,
        asleep=_asleep(outcome),
        left_out=besides.left_out,
        coming=besides.coming.sentence,
        weights=deployment.asked.weights,
        kept=kept,
        engines=_engines(outcome),
    )
    return report if refusal is None else with_refusal(report, refusal)


def with_refusal(report: Report, refusal: RefusedWrite) -> Report:
    """Return the report with what the API server refused: engines run without the objects of a router."""
    of_engines, of_router = ("", refusal.sentence()) if refusal.of_router else (refusal.sentence(), "")
    return replace(report, refused=of_engines, router_refused=of_router, refusal_passes=refusal.is_passing)


def _engines(outcome: Outcome) -> tuple[EngineOffer, ...] | None:
    """Return the engines that were compared, or the one that runs if the status does not say that of this spec."""
    decision, status = outcome.decision, outcome.deployment.record.status
    if not outcome.deployment.asked.chooses_engine:
        return None
    if decision is None:
        return ()
    made = outcome.turn.decision if outcome.turn is not None and outcome.turn.acted else None
    before = running_engine(outcome.deployment.placed.pools)
    if isinstance(made, Move) and made.engine and before is not None:
        return (approved_offer(decision.request, before),)
    if decision.engines:
        return decision.engines
    kept, known = kept_offer(decision.request), status.engine
    is_said = known is not None and (known.name, known.version) == (kept.engine, kept.release)
    return () if is_said and status.observed_generation == outcome.generation else (kept,)


def _routing(deployment: Deployment, now: float) -> RoutingReport | None:
    spec, router = deployment.spec, deployment.placed.around.router
    if spec is None or not spec.routing.has_router:
        return None
    through, is_due = spec.routing.gateway, router.gateway is not None and now >= router.gateway.answer_due
    has_hostnames, by_tls = (False, False) if through is None else (bool(through.hostnames), through.picker_tls)
    return RoutingReport(spec.routing.mode, router, has_hostnames, is_due, by_tls)


def _at_rest(outcome: Outcome, kept: str) -> LoopTurn | None:
    """Return what the status says of a live loop that is off and whose replicas are kept; None if none are."""
    standing = outcome.standing
    return LoopTurn(standing, Keep(DecisionReason.MODE_OFF), detail=kept.rstrip(".")) if standing and kept else None


def under_way(
    deployment: Deployment, decision: Decision | None, turn: LoopTurn | None, least_seconds: float, now: float
) -> UnderWay:
    """Return the changes that go on after a decision.

    Args:
        deployment: the deployment before it.
        decision: what was decided; None: nothing.
        turn: the turn of the live loop, if there was one.
        least_seconds: the least time of a move.
        now: POSIX seconds.
    """
    allowed = seconds_allowed(deployment, decision, least_seconds)
    retune, due = retune_after(deployment, decision, turn, allowed, now)
    updates = updates_due(deployment.placed, allowed)
    late = frozenset(pool for pool, at in updates if now >= at)
    return UnderWay(retune, due, updates, late, allowed)


def seconds_allowed(deployment: Deployment, decision: Decision | None, least_seconds: float) -> float:
    """Return how long new replicas of a decision may take until they serve."""
    pools = () if decision is None else decision.pools
    weights = map(_weights_bytes, active(pools))
    return seconds_for_move(longest_startup(deployment), weights, least_seconds)


def longest_startup(deployment: Deployment) -> float | None:
    """Return the longest start-up of a deployment's replicas that was ever seen, in seconds; None: none was."""
    ready = deployment.placed.around.ready_pods()
    seen = [pod.startup_seconds for pod in ready if pod.startup_seconds is not None]
    learned = deployment.record.learned
    if learned is not None and learned.startup_seconds is not None:
        seen.append(learned.startup_seconds)
    return max(seen, default=None)


def is_passing(outcome: Outcome) -> bool:
    """Whether a problem ends by itself and the status has something better: earlier conditions or a placement."""
    status, problem = outcome.deployment.record.status, outcome.problem
    if problem is None or problem.permanent or not status.conditions:
        return False
    placed = bool(status.pools) and status.observed_generation == outcome.generation
    return placed or problem.reason in (*RESOLVING, ConditionReason.PLANNING_QUEUED)


def _weights_bytes(pool: PlannedPool) -> int:
    return 0 if pool.choice is None else pool.choice.estimate.weights_bytes * pool.split.gpus


def _left_places(outcome: Outcome, decision: Decision, now: float) -> tuple[Rehoming, ...]:
    """Return what the status keeps of places that were left. A node that was not the cause is forgotten."""
    needed, cleared = outcome.besides.needed_again, () if outcome.turn is None else outcome.turn.cleared
    left = (
        replace(each, used_again=True) if each.is_shunned and each.node in needed else each
        for each in outcome.deployment.placed.left
        if not (each.is_of_one_replica and each.node in cleared)
    )
    return remembered_places(left, (*decision.departures, *_left_node(outcome)), now)


def _left_node(outcome: Outcome) -> Iterator[Departure]:
    """Yield the node that the live loop lets a replica leave in this pass: others keep off it for a while."""
    change = None if outcome.turn is None or not outcome.turn.acted else outcome.turn.decision
    if not isinstance(change, ReplaceReplica) or not change.node:
        return
    placed = outcome.deployment.placed
    for pool in placed.active:
        if any(pod.name == change.pod for pod in placed.around.pods.get(pool.name, ())):
            yield Departure(*pool.place, change.reason.value, change.node)


def _retires(decision: Decision) -> bool:
    return any(pool.state is PoolState.RETIRING for pool in decision.pools)


def _move(outcome: Outcome, now: float) -> MoveClock | None:
    """The clock of the move that is under way after this pass; None if no old pool serves on."""
    decision, deployment = outcome.decision, outcome.deployment
    if decision is None or not _retires(decision):
        return None
    pools = tuple(sorted(pool.name for pool in active(decision.pools)))
    start = deployment.identity.digests.start
    return continued(deployment.placed.move, pools, outcome.under_way.allowed_seconds, start, now)


def _failed_moves(outcome: Outcome, now: float) -> tuple[FailedMove, ...]:
    decision, deployment = outcome.decision, outcome.deployment
    if decision is None:
        return ()
    recorded = still_refused(decision.request, deployment.record.failed_moves)
    return remembered_failures(recorded, decision.rolled_back, deployment.identity.digests.start, now)


def _late(outcome: Outcome) -> Pool | None:
    """The new pool that does not serve although its time is over, and that no serving old pool may replace for good."""
    placed, decision = outcome.deployment.placed, outcome.decision
    serves_on = any(pool.state is PoolState.RETIRING and pool.ready > 0 for pool in placed.pools)
    if decision is None or not (placed.is_late and serves_on and _retires(decision)):
        return None
    return next((pool for pool in placed.pools if pool.delay is not None), None)


def _asleep(outcome: Outcome) -> str:
    """Return why the live loop wants no replica, and what starts one; empty if the user wants none."""
    spec, request = outcome.deployment.spec, outcome.request
    if spec is None or request is None or request.replicas > 0 or not may_sleep(spec.rebalancing):
        return ""
    starts = "spec.replicas"
    if policy_of(spec).wakes:
        is_alone = is_cut_off(spec, outcome.deployment.placed.around.router)
        what = "the operator, as no request reaches the picker" if is_alone else "a request that waits at the gateway"
        starts = f"{what}, or a change of spec.replicas"
    why = "spec.replicas is 0" if not spec.replicas else "No request has come for a while"
    return f"{why}, so no replica runs. What starts one: {starts}."


def _decisions(outcome: Outcome, now: float) -> tuple[DecisionNote, ...]:
    deployment, decision = outcome.deployment, outcome.decision
    earlier = tuple(map(DECISION.read, deployment.record.status.decisions or ()))
    if decision is None:
        return earlier
    return remembered_decisions(earlier, deployment.key, deployment.placed.pools, decision, to_rfc3339(now))


def _contested(outcome: Outcome) -> str:
    planned = {} if outcome.decision is None else {pool.name: pool.replicas for pool in outcome.decision.pools}
    contests = outcome.deployment.writes.contests
    return " ".join(contest.sentence(planned.get(pool, 0)) for pool, contest in contests)
