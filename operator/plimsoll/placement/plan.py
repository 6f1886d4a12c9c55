"""One pass over every deployment: the planner's whole answer as a value.

1. Promise GPUs to what was decided earlier and is not bound yet.
2. Read every deployment's demand: what it keeps, what it has to replace, move or add.
3. Solve: who gets which of the GPUs that are left, oldest deployment first.
4. Turn each award into pools, new ones before old ones go, and say why nothing else was taken.

Nothing that runs is ever given up for somebody else, and every deployment takes from the same stock.
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
    """Decide every deployment, in the order of the answer's tuple: oldest first, names breaking ties.

    ``catalog`` is only consulted for remedies (which GPUs would help if there were any). ``standing`` are pools of
    deployments that cannot be planned now, e.g. because a hub does not answer: their pods will bind all the same.
    ``quotas`` are the GPUs that namespaces may still ask for; those of one namespace share them.
    ``memo`` carries answers from one pass to the next: it saves time and changes no decision. ``solver`` says who gets
    which GPUs; see :mod:`plimsoll.placement.solvers`.

    It never raises for one deployment's sake: an error is written into that deployment's decision.
    """
    memo = Memo() if memo is None else memo
    demands = list(demands_of(tenants, fleet, memo))
    return tuple(decisions(demands, fleet, catalog, standing, quotas, memo, solver))


def demands_of(tenants: Sequence[Tenant], fleet: Fleet, memo: Memo) -> Iterator[Demand]:
    """Read every demand, in the order of decisions, each as soon as it is read: whoever waits sees the work go on."""
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
    """The decisions of :func:`plan`, each as soon as it is made."""
    adviser = Adviser(fleet, catalog, memo)
    ledger = _promised(demands, standing, fleet, Ledger.of(fleet, quotas))
    awards = solver(_open(demands), Stock(fleet, ledger))
    for number, demand in enumerate(demands):
        if demand.settled is not None:
            yield demand.settled
            continue
        award = next(awards)
        decision = _decided(award, fleet, adviser)
        if decision.failure:  # it gets nothing, so those after it are solved anew on what it would have taken
            awards = solver(_open(demands[number + 1 :]), Stock(fleet, ledger))
        else:
            ledger = award.left
        yield decision


def _open(demands: Sequence[Demand]) -> list[Demand]:
    """Those that a solver has to answer."""
    return [demand for demand in demands if demand.settled is None]


def _promised(demands: Sequence[Demand], standing: Sequence[Pool], fleet: Fleet, ledger: Ledger) -> Ledger:
    """What is left when everything that was decided earlier has its GPUs."""
    for pool in standing:
        ledger = promise_standing(pool, fleet, ledger)
    for demand in demands:
        ledger = promise_earlier(demand.tenant, fleet, ledger)
    return ledger


def _read(tenant: Tenant, fleet: Fleet, memo: Memo) -> Demand:
    """A deployment's demand. It is settled where the deployment is suspended, or cannot be read."""
    if tenant.suspended:
        return Demand(tenant, settled=Decision(tenant.request, tuple(as_it_is(pool) for pool in tenant.pools)))
    try:
        return demand_of(tenant, fleet, memo)
    except Exception as error:  # noqa: BLE001 - whatever one deployment provokes must not cost the others their plan
        return Demand(tenant, settled=_failed(tenant, error))


def _decided(award: Award, fleet: Fleet, adviser: Adviser) -> Decision:
    if award.failure is not None:
        return _failed(award.demand.tenant, award.failure)
    try:
        return decision_of(award, fleet, adviser)
    except Exception as error:  # noqa: BLE001 - same
        return _failed(award.demand.tenant, error)


def _failed(tenant: Tenant, error: Exception) -> Decision:
    """Everything as it is, and what was wrong. An error of ours names something that cannot be used."""
    pools = tuple(as_it_is(pool) for pool in tenant.pools)
    if isinstance(error, PlimsollError):
        return Decision(tenant.request, pools, failure=str(error), is_refusal=True)
    return Decision(tenant.request, pools, failure=f"{type(error).__name__}: {error}")
