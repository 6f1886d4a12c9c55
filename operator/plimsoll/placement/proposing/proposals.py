"""The proposals of a pass: for each deployment that waits, what would make room for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.outcomes import Option
from plimsoll.domain.proposals import Proposal, Share
from plimsoll.placement.hypothesis import Plan
from plimsoll.placement.options import options
from plimsoll.placement.pools import Decision, PoolState, Tenant
from plimsoll.placement.proposing.defragmentation import defragmentation
from plimsoll.placement.proposing.preemption import Spare, Waiting, preemption
from plimsoll.placement.proposing.running import Running
from plimsoll.placement.rehoming import is_closed

MOST_WAITING = 5
"""The most deployments that proposals are looked for in one pass, the first in the order of decisions. Who comes behind
them would be served after them anyway."""


def proposals(plan: Plan, running: Sequence[Running]) -> Mapping[ObjectKey, tuple[Proposal, ...]]:
    """Return what would make room, by the deployment that waits. Two proposals may exclude each other.

    Moves come before preemption, since they take nothing from anybody.
    """
    waiting = [
        (plan.tenants[key], decision)
        for key, decision in plan.decisions.items()
        if decision.missing and not decision.failure and not plan.tenants[key].suspended
    ]
    found = {
        tenant.request.key: proposals_for(tenant, decision, plan, running)
        for tenant, decision in waiting[:MOST_WAITING]
    }
    return {key: each for key, each in found.items() if each}


def proposals_for(
    tenant: Tenant, decision: Decision, plan: Plan, running: Sequence[Running], spare: Spare | None = None
) -> tuple[Proposal, ...]:
    """Return what would make room for the replicas of one deployment that a plan has no place for.

    ``spare`` is how many replicas others can do without; None: all of them.
    """
    fleet, ledger = plan.left.fleet, plan.left.ledger
    request = decision.request
    closed = [each.place for each in tenant.left]
    judged = options(request, fleet, plan.adviser.memo).verdicts
    waiting = Waiting(
        request=request,
        missing=decision.missing,
        options=tuple(
            each for each in judged if isinstance(each, Option) and not is_closed(closed, each.gpu.name, each.split)
        ),
        priority=tenant.priority.value,
        before=tuple(Share(pool.target, pool.replicas) for pool in decision.pools if pool.state is PoolState.ACTIVE),
    )
    owners = {key: each.request for key, each in plan.tenants.items()}
    moved = defragmentation(waiting, running, owners, fleet, ledger)
    ended = preemption(waiting, running, fleet, ledger, spare) if tenant.priority.preempts else None
    return tuple(each for each in (moved, ended) if each is not None)
