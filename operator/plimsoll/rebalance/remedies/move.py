"""Place a deployment again on another GPU type or split."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.state.decisions import DecisionReason, Move, Wait
from plimsoll.rebalance.state.situation import Situation


def move(diagnosis: Diagnosis, _: Situation, ask: Ask) -> Offer | Wait | None:
    """Leave a place that gives less memory than the declared load needs."""
    if diagnosis.kind is not DiagnosisKind.OUTGROWN:
        return None
    return ask(Move(diagnosis.reason, diagnosis.numbers), replace(ask.tenant, accepts_move=True))


def move_for_promise(diagnosis: Diagnosis, _: Situation, ask: Ask) -> Offer | Wait | None:
    """Leave a place that is too slow for the promise, if a faster one is known."""
    if diagnosis.kind is not DiagnosisKind.TOO_SLOW:
        return None
    if diagnosis.place is None:
        return Wait(DecisionReason.NO_FASTER_PLACE, (*diagnosis.numbers, ("wanted", diagnosis.reason.value)))
    return move_to_place(diagnosis, ask)


def move_for_price(diagnosis: Diagnosis, _: Situation, ask: Ask) -> Offer | Wait | None:
    """Go to a cheaper place. It is only worth it while its GPUs are free, so nothing waits for it."""
    if diagnosis.kind is not DiagnosisKind.CHEAPER_ELSEWHERE:
        return None
    found = move_to_place(diagnosis, ask)
    return found if isinstance(found, Offer) and found.answer is not None else None


def move_to_place(diagnosis: Diagnosis, ask: Ask) -> Offer | Wait:
    """Go to the place of a diagnosis, and to its engine if it names one."""
    tenant = ask.tenant.on_engine(diagnosis.engine) if diagnosis.engine else ask.tenant
    change = Move(diagnosis.reason, diagnosis.numbers, diagnosis.engine)
    request = tenant.request.with_replicas(diagnosis.replicas)
    return ask(change, replace(tenant, request=request, goes_to=diagnosis.place))
