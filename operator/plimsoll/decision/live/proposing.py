"""The replicas that run, for proposals, and the proposals of the last pass: most passes ask the same again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from plimsoll.decision.outcome import Ready
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.placement.options.nodes import need_of_pool
from plimsoll.placement.proposing.proposals import proposals
from plimsoll.placement.proposing.running import Running
from plimsoll.placement.transition.hypothesis import Plan

Found = Mapping[ObjectKey, tuple[Proposal, ...]]


@dataclass(slots=True)
class Proposer:
    """Finds proposals for those who wait, and again only if something has changed that they depend on."""

    _last: tuple[tuple[object, ...], Found] | None = field(default=None, repr=False)

    def proposals(self, planned: Iterable[Ready], plan: Plan) -> Found:
        """Return the proposals of a pass for those without a place. ``planned`` are all deployments with a decision."""
        waiting = tuple(
            (plan.tenants[key], decision.pools, decision.missing)
            for key, decision in plan.decisions.items()
            if decision.missing
        )
        if not waiting:
            return {}
        running = tuple(running_of(planned, plan.left.fleet))
        asked = waiting, running, plan.left
        if self._last is None or self._last[0] != asked:
            self._last = asked, proposals(plan, running)
        return self._last[1]


def running_of(planned: Iterable[Ready], fleet: Fleet) -> Iterator[Running]:
    """Yield every replica of ours that is on a node, and not on its way out.

    A deployment that could not be planned is not among them: nobody knows what its pools need elsewhere.
    """
    prices = {gpu.name: gpu for gpu in fleet.gpu_types()}
    for ready in planned:
        placed = ready.deployment.placed
        for pool in placed.pools:
            gpu = prices.get(pool.gpu_type)
            price = None if gpu is None else hourly_price(gpu, pool.split)
            for pod in placed.around.pods.get(pool.name, ()):
                if pod.node and not pod.terminating:
                    yield Running(
                        ready.key,
                        pool.target,
                        pod.node,
                        ready.deployment.asked.priority.value,
                        need_of_pool(ready.request, pool.gpu_type, pool.split, fleet),
                        price or Decimal(0),
                        pod.startup_seconds,
                    )
