"""Finished plans on small fleets, on which hypotheses are asked."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.placement.advice.remedies import Adviser
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.ledger import Quotas
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import demands_of, stock_for
from plimsoll.placement.solvers import DEFAULT_SOLVER, Solver
from plimsoll.placement.transition.answers import answers
from plimsoll.placement.transition.hypothesis import Plan


def planned(
    tenants: Sequence[Tenant], where: Fleet, quotas: Quotas | None = None, solver: Solver = DEFAULT_SOLVER
) -> Plan:
    """The plan of all these deployments, as a pass makes it."""
    memo = Memo()
    demands = list(demands_of(tenants, where, memo))
    stock = stock_for(demands, where, memo, quotas=quotas)
    adviser = Adviser(where, (), memo)
    return Plan.of(answers(demands, stock, adviser, solver), stock, adviser, solver)
