"""Which changes of the live loop are carried out at once, and which ones people are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard, get_args

from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import LoopResult
from plimsoll.rebalance.inbox import AnsweredProposals, PendingProposals, Vote, proposal_id
from plimsoll.rebalance.state.decisions import Change, LoopDecision
from plimsoll.rebalance.state.policy import RebalancePolicy
from plimsoll.rebalance.state.room import leaving_of, sealed

_CHANGES: tuple[type, ...] = get_args(Change)


@dataclass(frozen=True, slots=True)
class Offered:
    """A change that was found and can be approved: what is decided ``now``, and what would be ``then``.

    ``proposal`` describes it. If it has changes of others, they come first. If an approval has these carried out, they
    are part of the ``id``, and ``basis`` is the id without them.
    """

    id: str
    now: Decision
    then: Decision
    change: Change
    proposal: Proposal | None = None
    basis: str = ""


def is_change(decision: LoopDecision) -> TypeGuard[Change]:
    """Whether a decision changes something."""
    return isinstance(decision, _CHANGES)


def is_carried_out(policy: RebalancePolicy, decided: LoopResult) -> bool:
    """Whether the policy lets the loop make this change without an approval."""
    has_place = decided.answer is not None and is_change(decided.decision)
    return has_place and policy.carries_out(decided.decision)


def offered_by(decided: LoopResult, what_if: WhatIf, pending: PendingProposals | None) -> Offered | None:
    """Return the change that people may decide: one with a destination, or one that others can make room for."""
    if pending is None:
        return None
    now, change = what_if.decision, decided.decision if decided.room is None else decided.room.change
    if decided.room is not None:
        then = decided.room.then
    elif decided.answer is not None:
        then = decided.answer.decision
    else:
        return None
    if not is_change(change):
        return None
    basis, proposal = proposal_id(pending.uid, pending.generation, change, now, then), decided.proposal
    known = sealed(basis, leaving_of(proposal)) if proposal is not None and proposal.by_loop else basis
    return Offered(known, now, then, change, proposal, basis)


def approval_of(
    offered: Offered | None, pending: PendingProposals | None, answered: AnsweredProposals, now: float
) -> Vote | None:
    """Return the approval that lets the loop make this change now."""
    return None if pending is None or offered is None else pending.approval(answered, offered.id, now)
