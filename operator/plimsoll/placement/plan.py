"""Plan one pass over all deployments, and return all decisions as values.

1. Promise GPUs to replicas that were decided earlier and are not bound yet.
2. Find every deployment's demand: the pools that it keeps, and the replicas to replace, move or add.
3. Solve: decide which deployment gets which of the remaining GPUs: those of the highest priority first,
   and among equals the oldest.
4. Turn each award into pools (new pools start before old ones stop), with the reasons against other candidates.
5. Suggest what would make new placements cheaper, on the GPUs that all awards together leave free.

A running replica never stops for another deployment. All deployments take from the same stock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.placement.advice.remedies import Adviser
from plimsoll.placement.advice.suggestions import Relatives, Suggester, no_relatives
from plimsoll.placement.demands.demand import Demand, with_spot_limits
from plimsoll.placement.demands.pools import Decision, Pool, Tenant
from plimsoll.placement.demands.promises import keep, promise_of_unplanned, promises_to
from plimsoll.placement.ledger import Grid, Ledger, Quotas
from plimsoll.placement.memo import Memo
from plimsoll.placement.solvers import DEFAULT_SOLVER, Solver, Stock
from plimsoll.placement.transition.answers import answers, remembered_demand


def plan(
    tenants: Sequence[Tenant],
    fleet: Fleet,
    catalog: Sequence[GpuType] = (),
    unplanned: Sequence[Pool] = (),
    quotas: Quotas | None = None,
    memo: Memo | None = None,
    solver: Solver = DEFAULT_SOLVER,
    relatives: Relatives = no_relatives,
    groups: Sequence[NodeGroup] = (),
) -> tuple[Decision, ...]:
    """Decide for every deployment: higher priorities first, then older ones. The returned tuple has the same order.

    ``catalog`` is read only for remedies (which GPUs would help if there were any). ``unplanned`` are pools of
    deployments that cannot be planned now, e.g. because a hub does not answer: their pods will still bind.
    ``quotas`` are what namespaces may still take; the deployments of one namespace share it.
    ``memo`` carries answers from one pass to the next: it saves time and changes no decision. ``solver`` decides which
    deployment gets which GPUs; see :mod:`plimsoll.placement.solvers`. ``relatives`` names other checkpoints of a model,
    for suggestions. ``groups`` are nodes that could be added: they are suggested, and nothing is placed on them.

    An error in one deployment is not raised: it is written into that deployment's decision.
    """
    memo = Memo() if memo is None else memo
    demands = list(demands_of(tenants, fleet, memo))
    stock = stock_for(demands, fleet, memo, unplanned, quotas)
    answered = tuple(answers(demands, stock, Adviser(fleet, catalog, memo, groups), solver))
    suggester = Suggester(fleet, answered[-1].left if answered else stock.ledger, memo, relatives)
    return tuple(suggester.advised(answer.decision) for answer in answered)


def demands_of(tenants: Sequence[Tenant], fleet: Fleet, memo: Memo) -> Iterator[Demand]:
    """Yield every demand in the order of decisions, each as soon as it is known, so that a caller sees progress."""
    memo.last.forget_all_but({tenant.request.key for tenant in tenants})
    layout = memo.last.layout(fleet)
    for tenant in sorted(tenants, key=attrgetter("turn")):
        yield remembered_demand(tenant, fleet, memo, layout)


def stock_for(
    demands: Sequence[Demand],
    fleet: Fleet,
    memo: Memo,
    unplanned: Sequence[Pool] = (),
    quotas: Quotas | None = None,
) -> Stock:
    """Return what is left for these demands after all earlier decisions have their GPUs.

    If it is equal to that of the last pass, it has the same amounts, so that comparing awards with the last ones is
    quick. Its cached answers are new: they are about nodes, which each pass reads anew.
    """
    promises = [promise_of_unplanned(pool, fleet) for pool in unplanned]
    for demand in demands:
        if demand.awaits:
            promises += promises_to(demand.tenant, fleet)
    limits = with_spot_limits(quotas or {}, demands)
    ledger = keep(promises, Ledger.of(fleet, limits, memo.last.of_layout("grid", fleet, lambda: Grid.of(fleet))))
    left = memo.last.same("stock", ledger.read_anew()).read_anew()
    return Stock(fleet, left, (memo.last.layout(fleet), fleet.claimed))
