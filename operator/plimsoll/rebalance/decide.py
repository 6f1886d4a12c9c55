"""Decide whether the live load needs another number of replicas or another placement.

A diagnosis says what is wrong, remedies answer it with changes, and each change must be within the bounds and have a
destination in the plan. So no order is given that cannot be carried out, and none is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.domain.proposals import Proposal
from plimsoll.placement.answers import Answer
from plimsoll.placement.hypothesis import WhatIf
from plimsoll.rebalance.asking import Asking
from plimsoll.rebalance.decisions import AddReplica, DecisionReason, Keep, LoopDecision, Wait
from plimsoll.rebalance.diagnose import Diagnosis, DiagnosisKind, diagnose
from plimsoll.rebalance.guard import under_way
from plimsoll.rebalance.history import Ceiling
from plimsoll.rebalance.policy import Mode
from plimsoll.rebalance.remedies import REMEDIES, Remedy
from plimsoll.rebalance.remedies.protocol import Offer
from plimsoll.rebalance.signals import LoadSummary
from plimsoll.rebalance.situation import PlacementState, Situation


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and its destination if it is a change: ``proposal`` for people, ``answer`` for the plan.

    A change without a destination is decided in Recommend mode only, where nothing is carried out.
    """

    decision: LoopDecision
    proposal: Proposal | None = None
    answer: Answer | None = None


def decide(situation: Situation, what_if: WhatIf, remedies: Sequence[Remedy] = REMEDIES) -> Decided:
    """Decide once. The same arguments always give the same decision.

    The first remedy with an offer decides. A wait for a bound or for a place is reported only when a change would have
    been made otherwise. A caller in AUTO mode that makes the change records it:
    ``history.recorded(now, ceiling_of(decision, placement, load, now))``.
    """
    if situation.policy.mode is Mode.OFF:
        return Decided(Keep(DecisionReason.MODE_OFF))
    moving = under_way(situation)
    if moving is not None:
        return Decided(moving)
    diagnosis = diagnose(situation)
    if diagnosis.kind is DiagnosisKind.UNKNOWN:
        return Decided(Wait(diagnosis.reason, diagnosis.numbers))
    return _treated(diagnosis, situation, what_if, remedies)


def _treated(diagnosis: Diagnosis, situation: Situation, what_if: WhatIf, remedies: Sequence[Remedy]) -> Decided:
    """Return the first offer; else the first wait; else nothing is to be done."""
    ask = Asking(situation, what_if)
    waits: list[Wait] = []
    for remedy in remedies:
        answered = remedy(diagnosis, situation, ask)
        if isinstance(answered, Offer):
            return Decided(answered.change, answered.proposal, answered.answer)
        if answered is not None:
            waits.append(answered)
    return Decided(waits[0] if waits else Keep(diagnosis.reason, diagnosis.numbers))


def ceiling_of(decision: LoopDecision, placement: PlacementState, load: LoadSummary, now: float) -> Ceiling | None:
    """Return the throughput per replica to remember when the load needs one more replica; None for other decisions."""
    by_load = (DecisionReason.SUSTAINED_KV_PRESSURE, DecisionReason.SUSTAINED_QUEUE)
    if not isinstance(decision, AddReplica) or decision.reason not in by_load:
        return None
    rates = (load.prompt_tokens_per_second, load.generation_tokens_per_second)
    prompt, generation = (None if rate is None else rate / max(1, placement.ready) for rate in rates)
    return Ceiling(now, prompt, generation)
