"""Plan one pass over all deployments, and return all decisions as values.

1. Promise GPUs to replicas that were decided earlier and are not bound yet.
2. Find every deployment's demand: the pools that it keeps, and the replicas to replace, move or add.
3. Solve: decide which deployment gets which of the remaining GPUs, the oldest deployment first.
4. Turn each award into pools (new pools start before old ones stop), with the reasons against other candidates.

A running replica never stops for another deployment. All deployments take from the same stock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.placement.demand import Demand, demand_of
from plimsoll.placement.ledger import Ledger, Quotas
from plimsoll.placement.memo import Memo
from plimsoll.placement.pools import Decision, Pool, Tenant, as_it_is
from plimsoll.placement.promises import promise_earlier, promise_standing
from plimsoll.placement.remedies import Adviser
from plimsoll.placement.solvers import DEFAULT_SOLVER, Award, Solver, Stock
from plimsoll.placement.transition import decision_of


def plan(
    tenants: Sequence[Tenant],
    fleet: Fleet,
    catalog: Sequence[GpuType] = (),
    standing: Sequence[Pool] = (),
    quotas: Quotas | None = None,
    memo: Memo | None = None,
    solver: Solver = DEFAULT_SOLVER,
) -> tuple[Decision, ...]:
    """Decide for every deployment, oldest first and then by name. The returned tuple has the same order.

    ``catalog`` is read only for remedies (which GPUs would help if there were any). ``standing`` are pools of
    deployments that cannot be planned now, e.g. because a hub does not answer: their pods will still bind.
    ``quotas`` are the GPUs that namespaces may still request; the deployments of one namespace share them.
    ``memo`` carries answers from one pass to the next: it saves time and changes no decision. ``solver`` decides which
    deployment gets which GPUs; see :mod:`plimsoll.placement.solvers`.

    An error in one deployment is not raised: it is written into that deployment's decision.
    """
    memo = Memo() if memo is None else memo
    demands = list(demands_of(tenants, fleet, memo))
    return tuple(decisions(demands, fleet, catalog, standing, quotas, memo, solver))


def demands_of(tenants: Sequence[Tenant], fleet: Fleet, memo: Memo) -> Iterator[Demand]:
    """Yield every demand in the order of decisions, each as soon as it is known, so that a caller sees progress."""
    for tenant in sorted(tenants, key=lambda tenant: (tenant.request.created, tenant.request.key)):
        yield _read(tenant, fleet, memo)


def decisions(
    demands: Sequence[Demand],
    fleet: Fleet,
    catalog: Sequence[GpuType],
    standing: Sequence[Pool],
    quotas: Quotas | None,
    memo: Memo,
    solver: Solver = DEFAULT_SOLVER,
) -> Iterator[Decision]:
    """Yield the decisions of :func:`plan`, each as soon as it is made."""
    adviser = Adviser(fleet, catalog, memo)
    ledger = _promised(demands, standing, fleet, Ledger.of(fleet, quotas))
    awards = solver(_open(demands), Stock(fleet, ledger))
    for number, demand in enumerate(demands):
        if demand.settled is not None:
            yield demand.settled
            continue
        award = next(awards)
        decision = _decided(award, fleet, adviser)
        if decision.failure:  # it gets nothing, so the later demands are solved again with its GPUs
            awards = solver(_open(demands[number + 1 :]), Stock(fleet, ledger))
        else:
            ledger = award.left
        yield decision


def _open(demands: Sequence[Demand]) -> list[Demand]:
    """Return the demands that a solver has to answer."""
    return [demand for demand in demands if demand.settled is None]


def _promised(demands: Sequence[Demand], standing: Sequence[Pool], fleet: Fleet, ledger: Ledger) -> Ledger:
    """Return the ledger after all earlier decisions have their GPUs."""
    for pool in standing:
        ledger = promise_standing(pool, fleet, ledger)
    for demand in demands:
        ledger = promise_earlier(demand.tenant, fleet, ledger)
    return ledger


def _read(tenant: Tenant, fleet: Fleet, memo: Memo) -> Demand:
    """Return a deployment's demand. It is settled where the deployment is suspended or its demand cannot be found."""
    if tenant.suspended:
        return Demand(tenant, settled=Decision(tenant.request, tuple(as_it_is(pool) for pool in tenant.pools)))
    try:
        return demand_of(tenant, fleet, memo)
    except Exception as error:  # noqa: BLE001 - an error in one deployment must not stop the plan of the others
        return Demand(tenant, settled=_failed(tenant, error))


def _decided(award: Award, fleet: Fleet, adviser: Adviser) -> Decision:
    if award.failure is not None:
        return _failed(award.demand.tenant, award.failure)
    try:
        return decision_of(award, fleet, adviser)
    except Exception as error:  # noqa: BLE001 - an error in one deployment must not stop the plan of the others
        return _failed(award.demand.tenant, error)


def _failed(tenant: Tenant, error: Exception) -> Decision:
    """Return a decision that changes nothing and holds the error. A ``PlimsollError`` counts as a refusal."""
    pools = tuple(as_it_is(pool) for pool in tenant.pools)
    if isinstance(error, PlimsollError):
        return Decision(tenant.request, pools, failure=str(error), is_refusal=True)
    return Decision(tenant.request, pools, failure=f"{type(error).__name__}: {error}")
