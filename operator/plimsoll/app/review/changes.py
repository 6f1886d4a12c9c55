"""The difference between an object as it runs and as it would be decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from plimsoll.adapters.kinds import DEPLOYMENTS
from plimsoll.app.case import Case
from plimsoll.app.record.reading import read, whole_status
from plimsoll.app.review.values import Bill, Change, Place, Review, Verdict
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.outcomes import Split
from plimsoll.domain.public_words import ConditionType
from plimsoll.placement.feasibility import hourly_price
from plimsoll.placement.pools import PoolState
from plimsoll.render.inputs import INPUTS_ANNOTATION
from plimsoll.render.names import POOL_LABEL


def review_of(before: Sequence[Case], after: Sequence[Case], places: Mapping[ObjectKey, str], fleet: Fleet) -> Review:
    """Compare two passes over one cluster: one without and one with the user's files.

    Args:
        before: the cases of the pass without them.
        after: the cases of the pass with them.
        places: the place in the files, for each object in them.
        fleet: the fleet of both passes.
    """
    prices = _Prices(fleet, (*before, *after))
    without = {case.key: _change(case, "", prices) for case in before}
    changes = [_with_baseline(_change(case, places.get(case.key, ""), prices), without.get(case.key)) for case in after]
    order = {key: number for number, key in enumerate(places)}
    ours = sorted((each for each in changes if each.where), key=lambda each: order[each.key])
    rest = [each for each in changes if not each.where]
    shown = [each for each in rest if each.verdict in _CHANGES or not each.regardless]
    hidden = [each for each in rest if each not in shown]
    return Review(
        (*ours, *shown),
        _bill(changes),
        others=len(hidden),
        others_unserved=sum(not each.is_served for each in hidden),
        fleet=fleet,
    )


_CHANGES = frozenset({Verdict.PLACED, Verdict.MOVED, Verdict.CHANGED})


def _with_baseline(change: Change, without: Change | None) -> Change:
    same = without is not None and _decided(change) == _decided(without)
    return replace(change, regardless=same)


def _decided(change: Change) -> object:
    return change.verdict, change.reason, change.after, change.restarts


def _bill(changes: Iterable[Change]) -> Bill:
    changes = list(changes)
    before = [place.hourly_price for change in changes for place in change.before]
    after = [place.hourly_price for change in changes for place in change.after]
    known = [[price for price in prices if price is not None] for prices in (before, after)]
    unpriced = sum(price is None for price in (*before, *after))
    return Bill(sum(known[0], Decimal(0)), sum(known[1], Decimal(0)), unpriced)


class _Prices:
    """The price of one replica: as it was decided in one of the passes, else that of the fleet's GPU type."""

    def __init__(self, fleet: Fleet, cases: Iterable[Case]) -> None:
        self._fleet = fleet
        self._decided: dict[tuple[ObjectKey, str], Decimal | None] = {}
        for case in cases:
            for pool in () if case.decision is None else case.decision.pools:
                if pool.choice is not None:
                    self._decided.setdefault((case.key, pool.name), pool.choice.hourly_price)

    def place(self, key: ObjectKey, name: str, gpu_type: str, split: Split, replicas: int) -> Place:
        gpu = self._fleet.named(gpu_type)
        each = self._decided.get((key, name), None if gpu is None else hourly_price(gpu, split))
        return Place(gpu_type, split, replicas, None if each is None else each * replicas)


def _change(case: Case, where: str, prices: _Prices) -> Change:
    before = tuple(
        prices.place(case.key, pool.name, pool.gpu_type, pool.split, pool.replicas)
        for pool in case.pools
        if pool.state is PoolState.ACTIVE and pool.replicas
    )
    after = before
    if case.decision is not None:
        after = tuple(
            prices.place(case.key, pool.name, pool.gpu_type, pool.split, pool.replicas)
            for pool in case.decision.pools
            if pool.state is PoolState.ACTIVE and pool.replicas
        )
    restarts = _restarts(case)
    status = whole_status(read(case.new_status))
    question = ConditionType.PLACED if _is_stuck(case) else ConditionType.PLANNED
    planned = next((each for each in status.conditions or () if each.type == question), None)
    return Change(
        key=case.key,
        where=where,
        verdict=_verdict(case, before, after, restarts=restarts),
        reason="" if planned is None else planned.reason,
        message="" if planned is None else planned.message,
        before=before,
        after=after,
        restarts=restarts,
        regardless=False,
        status=status,
        manifests=tuple(case.manifests),
    )


def _verdict(case: Case, before: tuple[Place, ...], after: tuple[Place, ...], *, restarts: bool) -> Verdict:
    conditions = {each["type"]: each for each in (case.new_status or {}).get("conditions") or ()}
    planned = conditions.get(ConditionType.PLANNED.value, {})
    is_suspended = case.resource is not None and case.resource.spec.suspend
    if case.problem is not None or (planned.get("status") == "False" and not is_suspended):
        stalled = conditions.get(ConditionType.STALLED.value, {})
        return Verdict.REFUSED if stalled.get("reason") == planned.get("reason") else Verdict.WAITING
    if _is_stuck(case):
        return Verdict.WAITING
    if not before and after:
        return Verdict.PLACED
    if {_spot(place) for place in before} != {_spot(place) for place in after} and after:
        return Verdict.MOVED
    return Verdict.CHANGED if before != after or restarts else Verdict.KEPT


def _is_stuck(case: Case) -> bool:
    """Whether pods find no node and their replicas get no other place: the operator leaves them where they are."""
    stranded = {pool.name for pool in case.pools if pool.stranded and pool.state is PoolState.ACTIVE}
    if case.problem is not None or case.decision is None or case.decision.missing:
        return False
    return any(pool.name in stranded and pool.replicas for pool in case.decision.pools)


def _spot(place: Place) -> tuple[str, Split]:
    return place.gpu_type, place.split


def _restarts(case: Case) -> bool:
    """Whether an engine that stays where it is gets another template."""
    for manifest in case.manifests:
        live = case.around.workloads.get((manifest["metadata"].get("labels") or {}).get(POOL_LABEL, ""))
        if manifest["kind"] != DEPLOYMENTS.kind or live is None:
            continue
        inputs = (live["metadata"].get("annotations") or {}).get(INPUTS_ANNOTATION)
        if inputs is not None and inputs != manifest["metadata"]["annotations"][INPUTS_ANNOTATION]:
            return True
    return False
