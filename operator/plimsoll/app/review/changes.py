"""The difference between an object as it runs and as the operator would decide it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from plimsoll.app.plan.desired import Desired
from plimsoll.app.review.comparing import Decided, are_restarted, compared
from plimsoll.app.review.values import Place, Review
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.demands.pools import PlannedPool, Pool, PoolState
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.status.reading import read, whole_status


def review_of(
    before: Sequence[Desired], after: Sequence[Desired], places: Mapping[ObjectKey, str], fleet: Fleet
) -> Review:
    """Compare two passes over one cluster: one without and one with the user's files.

    Args:
        before: the decisions of the pass without them.
        after: the decisions of the pass with them.
        places: the place in the files, for each object in them.
        fleet: the fleet of both passes.
    """
    prices = _Prices(fleet, (*before, *after))
    without, decided = ([_decided(each, prices) for each in pass_] for pass_ in (before, after))
    return compared(without, decided, places, fleet)


class _Prices:
    """The price of one replica: as it was decided in one of the passes, else that of the fleet's GPU type."""

    def __init__(self, fleet: Fleet, desired: Iterable[Desired]) -> None:
        self._fleet = fleet
        self._decided: dict[tuple[ObjectKey, str], Decimal | None] = {}
        for each in desired:
            decision = each.outcome.decision
            for pool in () if decision is None else decision.pools:
                if pool.choice is not None:
                    self._decided.setdefault((each.key, pool.name), pool.choice.hourly_price)

    def places(self, key: ObjectKey, pools: Iterable[Pool | PlannedPool]) -> tuple[Place, ...]:
        """The places of the pools that are in force; retiring ones are left out."""
        return tuple(
            self._place(key, pool.name, pool.gpu_type, pool.split, pool.replicas)
            for pool in pools
            if pool.state is PoolState.ACTIVE and pool.replicas
        )

    def _place(self, key: ObjectKey, name: str, gpu_type: str, split: Split, replicas: int) -> Place:
        gpu = self._fleet.named(gpu_type)
        each = self._decided.get((key, name), None if gpu is None else hourly_price(gpu, split))
        return Place(gpu_type, split, replicas, None if each is None else each * replicas)


def _decided(desired: Desired, prices: _Prices) -> Decided:
    outcome = desired.outcome
    placed, spec = outcome.deployment.placed, outcome.deployment.spec
    before = prices.places(desired.key, placed.pools)
    return Decided(
        key=desired.key,
        before=before,
        after=before if outcome.decision is None else prices.places(desired.key, outcome.decision.pools),
        status=whole_status(read(desired.new_status)),
        restarts=are_restarted(desired.manifests, desired.workloads),
        has_problem=outcome.problem is not None,
        is_stuck=_is_stuck(outcome),
        is_suspended=spec is not None and spec.suspend,
        manifests=desired.manifests,
    )


def _is_stuck(outcome: Outcome) -> bool:
    """Whether pods find no node and their replicas get no other place: the operator leaves them where they are."""
    stranded = {pool.name for pool in outcome.deployment.placed.active if pool.leaving}
    decision = outcome.decision
    if outcome.problem is not None or decision is None or decision.missing:
        return False
    return any(pool.name in stranded and pool.replicas for pool in decision.pools)
