"""The difference between what is in force and what a plan decides, in one word for each object.

Where the plan comes from makes no difference: a pass of the operator, or manifests on the nodes of a file. Nothing here
needs an extra of the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any

from plimsoll.adapters.cluster.kinds import DEPLOYMENTS
from plimsoll.api.v1alpha1.status import Condition
from plimsoll.app.review.values import Bill, DecidedDeployment, DeploymentChange, PricedReplicas, Review, ReviewVerdict
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionType
from plimsoll.domain.requests.workload import Manifest
from plimsoll.render.inputs import INPUTS_ANNOTATION
from plimsoll.render.names import POOL_LABEL

Body = Mapping[str, Any]

_CHANGES = frozenset({ReviewVerdict.PLACED, ReviewVerdict.MOVED, ReviewVerdict.CHANGED})


def compared(
    without: Iterable[DecidedDeployment],
    decided: Iterable[DecidedDeployment],
    places: Mapping[ObjectKey, str],
    fleet: Fleet,
) -> Review:
    """Return the review of a plan.

    Args:
        without: the objects as they are planned without the user's files.
        decided: the objects as they are planned with them.
        places: the place in the files, for each object in them.
        fleet: the fleet before any change.
    """
    baseline = {each.key: _decision(each) for each in without}
    changes = [_change(each, places.get(each.key, ""), baseline.get(each.key)) for each in decided]
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


def are_restarted(manifests: Iterable[Manifest], live: Mapping[str, Body]) -> bool:
    """Whether a Deployment that stays gets another template. ``live`` are those that there are, by pool."""
    for manifest in manifests:
        known = live.get((manifest["metadata"].get("labels") or {}).get(POOL_LABEL, ""))
        if manifest["kind"] != DEPLOYMENTS.kind or known is None:
            continue
        inputs = (known["metadata"].get("annotations") or {}).get(INPUTS_ANNOTATION)
        if inputs is not None and inputs != manifest["metadata"]["annotations"][INPUTS_ANNOTATION]:
            return True
    return False


def _change(decided: DecidedDeployment, where: str, without: object) -> DeploymentChange:
    answer = _answer(decided)
    same: dict[str, Any] = {each.name: getattr(decided, each.name) for each in fields(DecidedDeployment)}
    return DeploymentChange(
        **same,
        where=where,
        verdict=_verdict(decided),
        reason="" if answer is None else answer.reason,
        message="" if answer is None else answer.message,
        regardless=_decision(decided) == without,
    )


def _decision(decided: DecidedDeployment) -> object:
    return _verdict(decided), _reason(_answer(decided)), decided.after, decided.restarts


def _answer(decided: DecidedDeployment) -> Condition | None:
    return decided.condition(ConditionType.PLACED if decided.is_stuck else ConditionType.PLANNED)


def _verdict(decided: DecidedDeployment) -> ReviewVerdict:
    before, after = decided.before, decided.after
    planned = decided.condition(ConditionType.PLANNED)
    is_unplanned = planned is not None and planned.status == "False" and not decided.is_suspended
    if decided.has_problem or is_unplanned:
        stalled = decided.condition(ConditionType.STALLED)
        return ReviewVerdict.REFUSED if _reason(stalled) == _reason(planned) else ReviewVerdict.WAITING
    if decided.is_stuck:
        return ReviewVerdict.WAITING
    if not before and after:
        return ReviewVerdict.PLACED
    if {_spot(place) for place in before} != {_spot(place) for place in after} and after:
        return ReviewVerdict.MOVED
    return ReviewVerdict.CHANGED if before != after or decided.restarts else ReviewVerdict.KEPT


def _reason(condition: Condition | None) -> str | None:
    return None if condition is None else condition.reason


def _spot(place: PricedReplicas) -> tuple[str, Split]:
    return place.gpu_type, place.split


def _bill(changes: Sequence[DeploymentChange]) -> Bill:
    before = [place.hourly_price for change in changes for place in change.before]
    after = [place.hourly_price for change in changes for place in change.after]
    known = [[price for price in prices if price is not None] for prices in (before, after)]
    unpriced = sum(price is None for price in (*before, *after))
    return Bill(sum(known[0], Decimal(0)), sum(known[1], Decimal(0)), unpriced)
