"""Proposals that people decide: their identity, which of them stand, and which answers count.

A proposal is only a description. A change is carried out when the live loop decides it anew and its id has been
approved. So an old approval cannot carry out anything that the loop would not propose now.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol, TypeVar

from plimsoll.placement.demands.pools import Decision, PlannedPool, serving
from plimsoll.rebalance.state.decisions import Change, Move, ReplaceReplica, Retune
from plimsoll.rebalance.state.room import ID_DIGITS

LIFE_SECONDS = 24 * 3600.0
"""How long a proposal stands, and how long a rejection holds: a proposal of the evening can be decided the next
morning."""

GRACE_SECONDS = 900.0
"""How long a proposal is kept that the loop does not make any more. Load that wobbles around a bound, and a cool-down
after another change, take some minutes; a list of proposals that come and go helps nobody."""

MOST_PROPOSALS = 4
"""The most proposals of one deployment at the same time. The oldest one goes first."""

MOST_REMEMBERED = 8
"""The most rejections, and the most approvals that were carried out, in the status of one deployment."""

MOST_ANSWERED = 20
"""The most answered approvals of one deployment. The oldest ones are deleted; the audit log keeps them."""


class Answerable(Protocol):
    """A person's answer, which the operator answers in turn."""

    @property
    def is_open(self) -> bool:
        """Whether it has no final outcome yet."""
        ...


A = TypeVar("A", bound=Answerable)


class Standing(StrEnum):
    """The state of a proposal, as its label shows it."""

    OPEN = "Open"
    APPROVED = "Approved"
    REJECTED = "Rejected"


class VoteOutcome(StrEnum):
    """The result of an approval or a rejection. All but WAITING are final."""

    WAITING = "Waiting"
    CARRIED_OUT = "CarriedOut"
    REJECTED = "Rejected"
    STALE = "Stale"
    EXPIRED = "Expired"


@dataclass(frozen=True, slots=True)
class Posted:
    """A proposal that stands in the cluster. Times are POSIX seconds."""

    id: str
    generation: int
    created: float
    expires: float
    state: str = Standing.OPEN


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's answer to a proposal. ``outcome`` is empty until the operator has answered it."""

    uid: str
    proposal: str
    by: str
    approves: bool
    reason: str
    created: float
    outcome: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it has no final outcome yet."""
        return self.outcome in ("", VoteOutcome.WAITING)


@dataclass(frozen=True, slots=True)
class StandingRejection:
    """A rejection in force, ``until`` a time in POSIX seconds."""

    proposal: str
    by: str
    reason: str
    until: float
    generation: int


@dataclass(frozen=True, slots=True)
class AnsweredProposals:
    """The answers that a deployment's status remembers.

    ``carried_out`` are uids of approvals: none of them counts twice, even if the operator ends between two writes.
    """

    refusals: tuple[StandingRejection, ...] = ()
    carried_out: tuple[str, ...] = ()

    def refuses(self, proposal: str | None) -> bool:
        """Whether this proposal was rejected."""
        return any(each.proposal == proposal for each in self.refusals)

    def with_carried_out(self, vote: Vote) -> AnsweredProposals:
        """Return the answers after an approved change was made. An approval after a rejection lifts the rejection."""
        refusals = tuple(each for each in self.refusals if each.proposal != vote.proposal)
        return AnsweredProposals(refusals, (*self.carried_out, vote.uid)[-MOST_REMEMBERED:])


@dataclass(frozen=True)
class PendingProposals:
    """The proposals of one deployment that stand, and the answers to them; ``votes`` are the oldest first.

    Nothing bounds the number of votes. So each question about one of them looks at no other.
    """

    uid: str
    generation: int
    posted: tuple[Posted, ...] = ()
    votes: tuple[Vote, ...] = ()

    def standing(self, proposal: str, now: float) -> Posted | None:
        """Return the proposal of this id if it can still be decided: of this generation, and not expired."""
        current = (each for each in self.posted if each.generation == self.generation and now < each.expires)
        return next((each for each in current if each.id == proposal), None)

    def heard(self, answered: AnsweredProposals, now: float) -> AnsweredProposals:
        """Return the answers with the rejections that are new, and without those that hold no longer."""
        kept = [each for each in answered.refusals if each.generation == self.generation and now < each.until]
        for vote in self.votes:
            posted = self.standing(vote.proposal, now)
            if vote.is_open and not vote.approves and posted is not None:
                kept = [each for each in kept if each.proposal != vote.proposal]
                kept.append(StandingRejection(vote.proposal, vote.by, vote.reason, posted.expires, posted.generation))
        return replace(answered, refusals=tuple(kept[-MOST_REMEMBERED:]))

    def approval(self, answered: AnsweredProposals, proposal: str, now: float) -> Vote | None:
        """Return the approval that lets the loop carry this proposal out.

        None if nobody approved it, if it does not stand, or if somebody rejected it at the same time or later.
        """
        if self.standing(proposal, now) is None:
            return None
        open_votes = (vote for vote in self.votes if vote.is_open and vote.uid not in answered.carried_out)
        counting = (
            vote for vote in open_votes if vote.proposal == proposal and vote.approves and not self._is_overruled(vote)
        )
        return next(counting, None)

    def _is_overruled(self, vote: Vote) -> bool:
        return vote.created <= self._last_rejections.get(vote.proposal, -math.inf)

    @cached_property
    def _last_rejections(self) -> Mapping[str, float]:
        """When each proposal was rejected last, whether the operator has answered that or not."""
        return {vote.proposal: vote.created for vote in self.votes if not vote.approves}

    def outcome(self, vote: Vote, answered: AnsweredProposals, now: float) -> VoteOutcome:
        """Return the outcome of an answer."""
        if vote.uid in answered.carried_out:
            return VoteOutcome.CARRIED_OUT
        posted = next((each for each in self.posted if each.id == vote.proposal), None)
        if posted is None or posted.generation != self.generation:
            return VoteOutcome.STALE
        if now >= posted.expires:
            return VoteOutcome.EXPIRED
        if vote.approves and not self._is_overruled(vote):
            return VoteOutcome.WAITING
        return VoteOutcome.REJECTED if answered.refuses(vote.proposal) else VoteOutcome.WAITING

    def spent(self) -> tuple[Vote, ...]:
        """Return the answered votes that are too many, the oldest first."""
        return spent_of(self.votes)


def spent_of(answers: Sequence[A]) -> tuple[A, ...]:
    """Return the answers with a final outcome that are too many, the oldest first. They come the oldest first."""
    final = [each for each in answers if not each.is_open]
    return tuple(final[: max(0, len(final) - MOST_ANSWERED)])


@dataclass(frozen=True, slots=True)
class Board:
    """The proposals of one deployment after a turn.

    ``withdrawn`` ids are deleted, ``kept`` has the state of every other one that stood before. ``new`` is the id of a
    proposal that does not stand yet.
    """

    kept: tuple[tuple[str, Standing], ...] = ()
    withdrawn: tuple[str, ...] = ()
    new: str | None = None


def board_of(
    pending: PendingProposals,
    answered: AnsweredProposals,
    made: str | None,
    last_made: dict[str, float],
    *,
    acted: bool,
    now: float,
    changed_at: float | None = None,
) -> Board:
    """Decide which proposals stand after a turn.

    Args:
        pending: what stood before the turn.
        answered: the answers, after the turn.
        made: the id of what the loop proposes in this turn; None if it proposes nothing.
        last_made: when each id was proposed last, in POSIX seconds.
        acted: whether a change was carried out in this turn. Then every proposal stands on what is no more.
        now: POSIX seconds.
        changed_at: when the last change was carried out, in POSIX seconds; None if there was none. A proposal from
            before it does not stand, even if the operator ended before it could withdraw it.
    """
    current = [] if acted else [each for each in pending.posted if changed_at is None or each.created >= changed_at]
    kept = [each for each in current if _stays(each, pending, made, last_made, now)]
    is_new = made is not None and not acted and not answered.refuses(made) and made not in {each.id for each in kept}
    most = MOST_PROPOSALS - is_new
    kept = sorted(kept, key=lambda each: (each.id == made, each.created, each.id))[-most:]
    ids = {each.id for each in kept}
    return Board(
        kept=tuple((each.id, _state(each, pending, answered, now)) for each in sorted(kept, key=lambda each: each.id)),
        withdrawn=tuple(sorted({each.id for each in pending.posted} - ids)),
        new=made if is_new and made not in {each.id for each in pending.posted} else None,
    )


def _stays(
    posted: Posted, pending: PendingProposals, made: str | None, last_made: dict[str, float], now: float
) -> bool:
    if pending.standing(posted.id, now) is None:
        return False
    return posted.id == made or now - last_made.get(posted.id, now) < GRACE_SECONDS


def _state(posted: Posted, pending: PendingProposals, answered: AnsweredProposals, now: float) -> Standing:
    if pending.approval(answered, posted.id, now) is not None:
        return Standing.APPROVED
    return Standing.REJECTED if answered.refuses(posted.id) else Standing.OPEN


def proposal_id(uid: str, generation: int, change: Change, before: Decision, after: Decision) -> str:
    """Return the id of a proposal: it changes with the deployment's spec, the target, and the reason.

    The figures of the load are no part of it, so that a proposal keeps its id while they wobble. Engine settings follow
    from the place and from what engines report, which is learned while a proposal stands. So they are part of the id
    only if nothing else changes. So are the pod that is to be replaced, and another engine.
    """
    places, settings = _each(_place, after), _each(_settings, after)
    target = settings if places == _each(_place, before) else places
    step: tuple[str, ...] = ()
    if isinstance(change, Retune) and change.limits.step_tokens:
        step = (f"step {change.limits.step_tokens}",)
    if isinstance(change, ReplaceReplica):
        step = (f"pod {change.pod}",)
    if isinstance(change, Move) and change.engine:
        step = (f"engine {change.engine}",)
    words = (uid, str(generation), type(change).__name__, change.reason.value, *target, *step)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:ID_DIGITS]


def targets(decision: Decision) -> Sequence[PlannedPool]:
    """Return the pools that serve after a decision, in a fixed order."""
    return sorted(serving(decision.pools), key=lambda pool: pool.name)


def _each(words: Callable[[PlannedPool], str], decision: Decision) -> list[str]:
    return [words(pool) for pool in targets(decision)]


def _place(pool: PlannedPool) -> str:
    capacity = pool.target.capacity
    where = (pool.gpu_type, *pool.split, "" if capacity is None else capacity.value, pool.replicas)
    return " ".join(map(str, where))


def _settings(pool: PlannedPool) -> str:
    return f"{_place(pool)} {pool.sequences} {pool.has_narrow_cache}"
