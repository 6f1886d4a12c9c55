"""Decide whether the live load needs another number of replicas or another placement.

A diagnosis says what is wrong, remedies answer it with changes, and each change must be within the bounds and have a
destination in the plan. So no order is given that cannot be carried out, and none is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from plimsoll.domain.proposals import Proposal
from plimsoll.placement.answers import Answer
from plimsoll.placement.hypothesis import WhatIf
from plimsoll.rebalance.asking import Asking
from plimsoll.rebalance.diagnosis.diagnose import ABOUT_THE_PLACE, Diagnosis, DiagnosisKind, diagnose, diagnose_load
from plimsoll.rebalance.diagnosis.judging import Judged, judged, without_promise
from plimsoll.rebalance.guard import under_way
from plimsoll.rebalance.law.wishes import Wish
from plimsoll.rebalance.places.elsewhere import elsewhere
from plimsoll.rebalance.remedies import REMEDIES, Remedy
from plimsoll.rebalance.remedies.protocol import AtOthers, Offer
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    Change,
    DecisionReason,
    Keep,
    LoopDecision,
    Move,
    RemoveReplica,
    Retune,
    Wait,
)
from plimsoll.rebalance.state.history import ChangeKind
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import Situation


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and its destination if it is a change: ``proposal`` for people, ``answer`` for the plan.

    A change without a destination is decided in Recommend mode only, where nothing is carried out. ``room`` is what
    others could do for it; then ``proposal`` is that. ``memory`` is to be given to the next turn. ``kind`` and ``wish``
    are what the decision comes from.
    """

    decision: LoopDecision
    proposal: Proposal | None = None
    answer: Answer | None = None
    memory: LoopMemory = field(default_factory=LoopMemory)
    kind: DiagnosisKind = DiagnosisKind.UNKNOWN
    wish: Wish | None = None
    room: AtOthers | None = None


def decide(situation: Situation, what_if: WhatIf, remedies: Sequence[Remedy] = REMEDIES) -> Decided:
    """Decide once. The same arguments always give the same decision.

    The first remedy with an offer decides. A wait for a bound or for a place is reported only when a change would have
    been made otherwise. While a move is only proposed or held back, the number of replicas follows the load. While the
    cluster's switch is set, the load is looked at and learned from, and nothing is decided. A caller that makes the
    change records it: ``history.recorded(now, kind_of(decision))``.
    """
    if situation.allowance.suspended and situation.policy.mode is not Mode.OFF:
        return replace(_decided(situation, what_if, ()), decision=Wait(DecisionReason.SUSPENDED_FOR_CLUSTER))
    return _decided(situation, what_if, remedies)


def _decided(situation: Situation, what_if: WhatIf, remedies: Sequence[Remedy]) -> Decided:
    if situation.policy.mode is Mode.OFF:
        return Decided(Keep(DecisionReason.MODE_OFF), memory=situation.memory)
    moving = under_way(situation)
    if moving is not None:
        return Decided(moving, memory=situation.memory)
    look = judged(situation)
    situation = replace(situation, memory=look.memory)
    usual = diagnose(situation, look)
    diagnosis, memory = elsewhere(usual, situation, look, what_if)
    found = Decided(Wait(diagnosis.reason, diagnosis.numbers), None, None, memory, diagnosis.kind, look.wish)
    if diagnosis.kind is DiagnosisKind.UNKNOWN:
        return found
    ask = Asking(situation, what_if)
    treated = _treated(found, diagnosis, ask, remedies)
    if diagnosis.kind is DiagnosisKind.CHEAPER_ELSEWHERE and treated.answer is None:
        return _treated(replace(found, kind=usual.kind), usual, ask, remedies)
    if diagnosis.kind not in ABOUT_THE_PLACE or _is_made(treated, situation):
        return treated
    return _scaled(found, _about_the_load(diagnosis, situation, look), ask, remedies) or treated


def _is_made(decided: Decided, situation: Situation) -> bool:
    """Whether a change is carried out now, and not only proposed or held back."""
    return decided.answer is not None and situation.policy.carries_out(decided.decision)


def _about_the_load(diagnosis: Diagnosis, situation: Situation, look: Judged) -> Diagnosis:
    """Diagnose the load next to a wrong place. A promise that another place keeps asks for no replicas at this one."""
    if diagnosis.kind is DiagnosisKind.TOO_SLOW and diagnosis.place is not None:
        look = without_promise(look, situation, str(dict(diagnosis.numbers)["figure"]))
    return diagnose_load(situation, look)


def _scaled(found: Decided, diagnosis: Diagnosis, ask: Asking, remedies: Sequence[Remedy]) -> Decided | None:
    """Return another number of replicas where the load asks for it and it has a place; None where nothing is changed.

    It comes before a move that waits for people or for a bound: requests wait while nobody decides.
    """
    if diagnosis.kind is DiagnosisKind.UNKNOWN:
        return None
    scaled = _treated(replace(found, kind=diagnosis.kind), diagnosis, ask, remedies)
    is_found = isinstance(scaled.decision, AddReplica | RemoveReplica) and scaled.answer is not None
    return scaled if is_found else None


def _treated(found: Decided, diagnosis: Diagnosis, ask: Asking, remedies: Sequence[Remedy]) -> Decided:
    """Return the first offer; else the first wait; else nothing is to be done."""
    waits: list[Wait] = []
    for remedy in remedies:
        answered = remedy(diagnosis, ask.situation, ask)
        if isinstance(answered, Offer):
            return _offered(found, answered, ask.situation.policy)
        if answered is not None:
            waits.append(answered)
    return replace(found, decision=waits[0] if waits else Keep(diagnosis.reason, diagnosis.numbers))


def _offered(found: Decided, offer: Offer, policy: RebalancePolicy) -> Decided:
    """Return the decision for an offer. What would be carried out now waits where only others could make room."""
    if offer.room is None:
        return replace(found, decision=offer.change, proposal=offer.proposal, answer=offer.answer)
    decision: LoopDecision = offer.change
    if policy.carries_out(decision):
        decision = Wait(DecisionReason.OTHERS_CAN_MAKE_ROOM, offer.room.numbers)
    return replace(found, decision=decision, proposal=offer.room.proposal, room=offer.room)


_KINDS = {
    AddReplica: ChangeKind.ADD,
    RemoveReplica: ChangeKind.REMOVE,
    Retune: ChangeKind.RETUNE,
    Move: ChangeKind.MOVE,
}


def kind_of(change: Change) -> ChangeKind:
    """Return the kind under which a change is recorded."""
    return _KINDS[type(change)]
