"""The difference between an object as it runs and as the operator would decide it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from plimsoll.app.plan.case import Case
from plimsoll.app.review.comparing import Decided, are_restarted, compared
from plimsoll.app.review.values import Place, Review
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.outcomes import Split
from plimsoll.placement.feasibility import hourly_price
from plimsoll.placement.pools import PlannedPool, Pool, PoolState
from plimsoll.status.reading import read, whole_status


def review_of(before: Sequence[Case], after: Sequence[Case], places: Mapping[ObjectKey, str], fleet: Fleet) -> Review:
    """Compare two passes over one cluster: one without and one with the user's files.

    Args:
        before: the cases of the pass without them.
        after: the cases of the pass with them.
        places: the place in the files, for each object in them.
        fleet: the fleet of both passes.
    """
    prices = _Prices(fleet, (*before, *after))
    without, decided = ([_decided(case, prices) for case in cases] for cases in (before, after))
    return compared(without, decided, places, fleet)


class _Prices:
    """The price of one replica: as it was decided in one of the passes, else that of the fleet's GPU type."""

    def __init__(self, fleet: Fleet, cases: Iterable[Case]) -> None:
        self._fleet = fleet
        self._decided: dict[tuple[ObjectKey, str], Decimal | None] = {}
        for case in cases:
            for pool in () if case.decision is None else case.decision.pools:
                if pool.choice is not None:
                    self._decided.setdefault((case.key, pool.name), pool.choice.hourly_price)

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


def _decided(case: Case, prices: _Prices) -> Decided:
    before = prices.places(case.key, case.pools)
    return Decided(
        key=case.key,
        before=before,
        after=before if case.decision is None else prices.places(case.key, case.decision.pools),
        status=whole_status(read(case.new_status)),
        restarts=are_restarted(case.manifests, case.around.workloads),
        has_problem=case.problem is not None,
        is_stuck=_is_stuck(case),
        is_suspended=case.resource is not None and case.resource.spec.suspend,
        manifests=tuple(case.manifests),
    )


def _is_stuck(case: Case) -> bool:
    """Whether pods find no node and their replicas get no other place: the operator leaves them where they are."""
    stranded = {pool.name for pool in case.pools if pool.leaving and pool.state is PoolState.ACTIVE}
    if case.problem is not None or case.decision is None or case.decision.missing:
        return False
    return any(pool.name in stranded and pool.replicas for pool in case.decision.pools)
