"""The input and the output of a remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from plimsoll.domain.proposals import Proposal
from plimsoll.placement.answers import Answer
from plimsoll.placement.pools import Decision, Tenant
from plimsoll.rebalance.decisions import Change, Wait
from plimsoll.rebalance.diagnose import Diagnosis
from plimsoll.rebalance.situation import Situation


@dataclass(frozen=True, slots=True)
class Offer:
    """A change that no bound forbids.

    ``proposal`` and ``answer`` are its destination: for people, and for the plan. Both are None where the change has no
    place. Such an offer is made in Recommend mode only, where nothing is carried out.
    """

    change: Change
    proposal: Proposal | None = None
    answer: Answer | None = None


class Ask(Protocol):
    """Asks the solver for the destination of a change. It is the only source of offers."""

    @property
    def tenant(self) -> Tenant:
        """The deployment as it is; a remedy asks for a changed copy of it."""

    @property
    def decision(self) -> Decision:
        """The plan's decision for the deployment without any change."""

    def __call__(self, change: Change, tenant: Tenant) -> Offer | Wait:
        """Return an offer. Return a wait where a bound forbids the change or nothing has room, with the reason."""


Remedy = Callable[[Diagnosis, Situation, Ask], Offer | Wait | None]
"""Answers a diagnosis: with what ``ask`` returned for its change, or with None where it does not treat the diagnosis.

A remedy that compares several changes asks for each of them and returns one of the answers.
"""
