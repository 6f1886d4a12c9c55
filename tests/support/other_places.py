"""Deployments that run at one place, on fleets with others: for moves that the live loop makes for speed or price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.pools import Tenant, pool_name
from plimsoll.placement.transition.hypothesis import Plan, WhatIf
from plimsoll.rebalance.decide import LoopResult
from plimsoll.rebalance.law.capacity import model_of
from plimsoll.rebalance.places.elsewhere import moment_of
from plimsoll.rebalance.state.memory import Look, LoopMemory
from plimsoll.rebalance.state.situation import DeclaredNeed, Situation
from tests.support import live_situations as live
from tests.support.engine_loads import NOW, Serves
from tests.support.live_situations import AUTO
from tests.support.planning import fleet, gpu, pool, request, tenant
from tests.support.world_plans import planned

EVERY = 15.0
DUE = moment_of(request().key, NOW) + 5
"""A moment after :data:`NOW` at which the usual deployment may look for another place. The last look was 15 s ago."""

PROMISE = Slo(ttft_seconds=2.0, tpot_seconds=0.03)


def runs(kind: str, replicas: int = 1, degree: int = 1, wanted: Request | None = None, **changed: Any) -> Tenant:
    """Return a deployment whose replicas all serve on one GPU type."""
    asked = request(**changed) if wanted is None else wanted
    return tenant(asked.with_replicas(replicas), pool(kind, degree, replicas, limits=StepLimits(sequences=64)))


def on(one: Tenant, *nodes: GpuNode, others: Sequence[Tenant] = ()) -> WhatIf:
    """Return the hypotheses about a deployment on a planned fleet."""
    return plan_of(one, fleet(*nodes), others).what_if(one.request.key)


def plan_of(one: Tenant, where: Fleet, others: Sequence[Tenant] = ()) -> Plan:
    """Return the plan of a pass."""
    return planned([one, *others], where)


def looks(
    rate: float, *, enough: int = 1, seconds: float = 3 * AUTO.cooldown_seconds, now: float = NOW
) -> tuple[Look, ...]:
    """Return the turns of a steady load, for which so many replicas have been enough."""
    count = int(seconds // EVERY)
    moments = (now - EVERY * index for index in range(count, 0, -1))
    return tuple(Look(at, enough, at, rate) for at in moments)


def serving(
    one: Tenant,
    *loads: Serves,
    slowness: float = 1.0,
    memory: LoopMemory | None = None,
    now: float = NOW,
    enough: int | None = None,
    **changed: Any,
) -> Situation:
    """Return the situation of a deployment of :func:`runs` with these loads, of which the loop has learned for long."""
    [active] = one.pools
    wanted = one.request
    model = model_of(wanted, gpu(active.gpu_type), active.split, 100_000)
    assert model is not None
    seen = looks(sum(each.rate for each in loads), enough=len(loads) if enough is None else enough, now=now)
    learned = LoopMemory(pool=active.name, slowness=slowness, looks=seen)
    facts: dict[str, Any] = {"model": model.limited(StepLimits(sequences=64)), "most_sequences": 64}
    facts["need"] = DeclaredNeed(kv_tokens=50_000, bytes_per_gpu=60)
    return live.situation(*loads, memory=learned if memory is None else memory, now=now, **facts | changed)


def place_after(decided: LoopResult) -> dict[tuple[str, int], int]:
    """Return the replicas by GPU type and degree that a change leads to."""
    assert decided.proposal is not None
    return {
        (share.target.gpu_type, share.target.split.tensor_parallel): share.replicas for share in decided.proposal.after
    }


def name_of(kind: str, degree: int = 1) -> str:
    """Return the name of the pool at a place."""
    return pool_name(kind, Split(degree))
