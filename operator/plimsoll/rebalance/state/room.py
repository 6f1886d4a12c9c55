"""Room that others make for one more replica, after people have approved it.

The deployment that needs the room keeps the order: which pods leave their nodes, by whose approval. Each pod is moved
or ended by its own deployment, which reads the order in every pass and keeps its own bounds. So an order that does not
count any more is left undone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.placement.demands.failed_moves import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind

ROOM_SECONDS = 7200.0
"""How long room may be made at most: two replacements of one replica at their longest, one after the other."""

TAKEN_SECONDS = 120.0
"""How long after all its pods have gone an order waits for the room. A pod that Kubernetes made in the place of one
that was evicted may be there for some passes."""

ID_DIGITS = 12
"""The digits of the id of a proposal."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A pod that leaves its node, by its uid: for another node, or for good if it ``ends``."""

    pod: str
    node: str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class RoomOrder:
    """An approved proposal to make room, as the status of the deployment that needs it keeps it.

    Attributes:
        proposal: the id of the proposal that was approved.
        basis: the id without the pods; together with them it gives ``proposal``.
        approval: the uid of the approval.
        generation: the generation of the spec that needs the room.
        began: when it was decided, in POSIX seconds.
        leaving: the pods that make room.
        gone: since when all of them are gone, in POSIX seconds; None: they are not.
    """

    proposal: str
    basis: str
    approval: str
    generation: int
    began: float
    leaving: tuple[Leaving, ...]
    gone: float | None = None

    @property
    def is_as_approved(self) -> bool:
        """Whether these pods are those of the proposal."""
        return sealed(self.basis, self.leaving) == self.proposal


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of somebody else's order for one pod of a deployment. ``whom`` says for which deployment, in words."""

    pod: str
    node: str
    whom: str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class RoomProgress:
    """How many pods of an order are still ``there``, and ``why`` it counts no longer; empty while it does."""

    there: int
    why: str


def leaving_of(proposal: Proposal) -> tuple[Leaving, ...]:
    """Return the pods that a proposal asks of others."""
    return tuple(Leaving(pod, each.node, each.to is None) for each in proposal.changes for pod in each.pods)


def sealed(basis: str, leaving: Iterable[Leaving]) -> str:
    """Return the id of a proposal with the pods that others would move or end: other pods are another proposal."""
    pods = sorted(f"{'end' if each.ends else 'move'} {each.pod} {each.node}" for each in leaving)
    return hashlib.sha256("\n".join((basis, *pods)).encode()).hexdigest()[:ID_DIGITS]


def last_failure(history: ChangeHistory) -> tuple[float | None, float]:
    """Return when a move for others failed last, in POSIX seconds (None: none did), and the seconds of pause after it.

    The pause grows as that of a place that failed does (:mod:`plimsoll.placement.demands.failed_moves`).
    """
    known = history.only(DecisionReason.MAKES_ROOM.value)
    times = sum(mark.kind is ChangeKind.ROLL_BACK for mark in known.changes)
    pause = FIRST_PAUSE_SECONDS * 2.0 ** min(max(0, times - 1), 10)
    return known.last(ChangeKind.ROLL_BACK), min(LONGEST_PAUSE_SECONDS, pause)


def rests(history: ChangeHistory, now: float) -> bool:
    """Whether a deployment moves for nobody, because such a move of it has failed."""
    failed, pause = last_failure(history.clamped(now))
    return failed is not None and now - failed < pause
