"""One deployment as the planner and the live loop see it."""

from __future__ import annotations

from functools import partial

from plimsoll.decision.deployment import Deployment
from plimsoll.decision.outcome import Ready
from plimsoll.decision.surroundings import is_updating
from plimsoll.decision.turns import Running
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import MemoryEstimate
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.models.model import Task
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.failed_moves import settings_refused, still_refused
from plimsoll.placement.demands.pools import Decision, Pool, SeenAnswers, Tenant, active, as_it_runs
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.engine_limits import other_steps
from plimsoll.placement.options.feasibility import sized
from plimsoll.rebalance.law.capacity import model_of
from plimsoll.rebalance.state.memory import Learned


def tenant_of(ready: Ready) -> Tenant:
    """Return the planner's view of a deployment."""
    deployment, spec = ready.deployment, ready.deployment.spec
    placed = deployment.placed
    return Tenant(
        ready.request,
        deployment.identity.generation,
        placed.pools,
        spec is not None and spec.suspend,
        left=placed.left,
        spec=deployment.identity.digests.engine,
        priority=deployment.asked.priority,
        answers=_answers(deployment.record.learned, ready.request.engine.name),
        overdue=placed.is_late,
        failed=still_refused(ready.request, placed.failed),
    )


def _answers(learned: Learned | None, engine: str) -> SeenAnswers | None:
    """The answers as the live loop knows them and the status keeps them: small differences change nothing.

    The slowness of another engine says nothing of ``engine``.
    """
    if learned is None or learned.output_tokens is None:
        return None
    seen = SeenAnswers(learned.output_tokens, learned.pool, learned.slowness)
    return seen if learned.engine == engine else seen.of_length


def figures_of(request: Request, pools: tuple[Pool, ...], fleet: Fleet, memo: Memo) -> MemoryEstimate | None:
    """Return the estimate on the first active pool's GPU, whether it fits there or not."""
    first = next(iter(active(pools)), None)
    gpu = None if first is None else fleet.named(first.gpu_type)
    if first is None or gpu is None:
        return None
    try:
        return sized(as_it_runs(request, first), gpu, first.split, memo)[1]
    except PlimsollError:
        return None


def running_of(
    ready: Ready, decision: Decision | None, figures: MemoryEstimate | None, fleet: Fleet, memo: Memo
) -> Running:
    """Return the placement as it runs, for the live loop.

    Args:
        ready: the deployment.
        decision: what the plan decided for it.
        figures: those of :func:`figures_of`, if they are about this spec.
        fleet: the nodes.
        memo: estimates of earlier passes.
    """
    request, placed = ready.request, ready.deployment.placed
    wanted = placed.active
    first = next(iter(wanted), None)
    gpu = None if first is None else fleet.named(first.gpu_type)
    taken_back = decision is not None and bool(decision.rolled_back)
    moving = taken_back or len(wanted) < len(placed.pools) or bool(placed.of_other_engines)
    if first is None or gpu is None:
        return Running(figures, moving=moving)
    runs = as_it_runs(request, first)
    engine = engine_of(runs.engine.name)
    failed = still_refused(request, placed.failed)
    is_refused = any(settings_refused(failed, pool.place, pool.engine) for pool in wanted)
    tokens = ready.observed.reported.get(first.name) or (0 if figures is None else figures.kv_capacity_tokens)
    return Running(
        figures=figures,
        model=model_of(runs, gpu, first.split, tokens),
        most_sequences=None if is_refused else first.split.data_parallel * engine.most_sequences(runs, gpu),
        steps=tuple if is_refused else partial(other_steps, request, runs, gpu, first.split, tokens, memo),
        pool=first.name,
        engine=first.engine,
        shape=first.split.shape,
        moving=moving,
        retuning=any(pool.earlier is not None and not pool.overdue for pool in wanted),
        rolling=_is_rolling(ready.deployment, first),
        generates=request.model.task is Task.GENERATE,
        mounts_alone=request.mounts_alone,
    )


def _is_rolling(deployment: Deployment, pool: Pool) -> bool:
    """Whether engines of a pool are replaced by others with another template, or are about to be.

    While an earlier decision is being written, its Deployment may be older than its status. A router that is refused
    comes after it.
    """
    writes = deployment.writes
    is_current = pool.generation == deployment.identity.generation
    is_refused = writes.refusal is not None and not writes.refusal.of_router
    is_decided = is_current and not writes.is_under_way and not is_refused
    return not is_decided or is_updating(deployment.placed.around.workloads.get(pool.name))
