"""The input and the output of a remedy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from plimsoll.domain.decisions.proposals import Proposal, ProposalReason
from plimsoll.domain.public_words import Numbers
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.transition.answers import Answer
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis
from plimsoll.rebalance.state.decisions import AddReplica, Change, Wait
from plimsoll.rebalance.state.situation import Situation


@dataclass(frozen=True, slots=True)
class AtOthers:
    """A change that has a place once others have made room for it.

    ``proposal`` says whose replicas would move or end, and ``then`` is the plan's decision after that. ``lacking`` is
    its answer before that. The loop carries nothing out that nobody has approved. What it may carry out after an
    approval has ``by_loop`` in its proposal, and may begin now if it ``is_open``.
    """

    change: AddReplica
    proposal: Proposal
    then: Decision
    lacking: Answer
    is_open: bool

    @property
    def numbers(self) -> Numbers:
        """The figures of the proposal for the sentence of a wait."""
        figures = dict(self.proposal.numbers)
        minutes = math.ceil(int(figures["seconds"]) / 60)
        who = "ended" if self.proposal.reason == ProposalReason.PREEMPT_LOWER_PRIORITY else "moved"
        how = ("how", str(self.proposal.reason))
        by_loop: Numbers = (("by_loop", 1),) if self.proposal.by_loop else ()
        return (("wanted", self.change.reason.value), how, (who, figures[who]), ("minutes", minutes), *by_loop)


@dataclass(frozen=True, slots=True)
class Offer:
    """A change that no bound forbids.

    ``proposal`` and ``answer`` are its destination: for people, and for the plan. Both are None if the change has no
    place. Such an offer is made in Recommend mode, in which nothing is carried out, or with ``room`` that others could
    make.
    """

    change: Change
    proposal: Proposal | None = None
    answer: Answer | None = None
    room: AtOthers | None = None


class Ask(Protocol):
    """Asks the solver for the destination of a change. It is the only source of offers."""

    @property
    def tenant(self) -> Tenant:
        """The deployment as it is; a remedy asks for a changed copy of it."""

    def __call__(self, change: Change, tenant: Tenant) -> Offer | Wait:
        """Return an offer. Return a wait if a bound forbids the change or nothing has room, with the reason."""


Remedy = Callable[[Diagnosis, Situation, Ask], Offer | Wait | None]
"""Answers a diagnosis: with what ``ask`` returned for its change, or with None if it does not treat the diagnosis.

A remedy that compares several changes asks for each of them and returns one of the answers.
"""
