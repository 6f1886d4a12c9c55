"""The replicas that run, for proposals, and the proposals of the last pass: most passes ask the same again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from plimsoll.app.plan.case import Case
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.proposals import Proposal
from plimsoll.placement.feasibility import hourly_price
from plimsoll.placement.host import need_of_pool
from plimsoll.placement.hypothesis import Plan
from plimsoll.placement.proposing.proposals import proposals
from plimsoll.placement.proposing.running import Running

logger = logging.getLogger("plimsoll.proposing")

Found = Mapping[ObjectKey, tuple[Proposal, ...]]


@dataclass(slots=True)
class Proposer:
    """Finds proposals for those who wait, and again only if something has changed that they depend on."""

    _last: tuple[tuple[object, ...], Found] | None = field(default=None, repr=False)

    def propose(self, cases: Sequence[Case], plan: Plan) -> None:
        """Write the proposals of this pass into the cases."""
        found: Found = {}
        if any(decision.missing for decision in plan.decisions.values()):
            found = self._guarded(cases, plan)
        for case in cases:
            case.proposals = found.get(case.key, ())

    def _guarded(self, cases: Sequence[Case], plan: Plan) -> Found:
        try:
            return self._found(plan, tuple(running_of(cases, plan.left.fleet)))
        except Exception:
            logger.exception("no proposals in this pass")  # they are advice: the plan itself stands
            return {}

    def _found(self, plan: Plan, running: tuple[Running, ...]) -> Found:
        waiting = tuple(
            (plan.tenants[key], decision.pools, decision.missing)
            for key, decision in plan.decisions.items()
            if decision.missing
        )
        asked = waiting, running, plan.left
        if self._last is None or self._last[0] != asked:
            self._last = asked, proposals(plan, running)
        return self._last[1]


def running_of(cases: Iterable[Case], fleet: Fleet) -> Iterator[Running]:
    """Yield every replica of ours that is on a node, and not on its way out.

    A deployment that could not be planned is left out: nobody knows what its pods need elsewhere.
    """
    prices = {gpu.name: gpu for gpu in fleet.gpu_types()}
    for case in cases:
        if case.request is None or case.decision is None:
            continue
        for pool in case.pools:
            gpu = prices.get(pool.gpu_type)
            price = None if gpu is None else hourly_price(gpu, pool.split)
            for pod in case.around.pods.get(pool.name, ()):
                if pod.node and not pod.terminating:
                    yield Running(
                        case.key,
                        pool.target,
                        pod.node,
                        case.priority.value,
                        need_of_pool(case.request, pool.gpu_type, pool.split, fleet),
                        price or Decimal(0),
                        pod.startup_seconds,
                    )
