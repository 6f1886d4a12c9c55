"""The proposals and the approvals of the cluster, by deployment, and what each pass has to write about them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from plimsoll.adapters.cluster.kinds import APPROVALS, INFERENCE_DEPLOYMENTS, PROPOSALS
from plimsoll.api.v1alpha1.inbox import PlacementApprovalSpec, ProposalContent, Verdict
from plimsoll.app.watch.store import Body, Picture, key_of, uid_of
from plimsoll.decision.turns import LoopTurn
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import from_rfc3339, to_rfc3339
from plimsoll.rebalance.inbox import (
    AnsweredProposals,
    Board,
    PendingProposals,
    Posted,
    Vote,
    VoteOutcome,
    board_of,
    spent_of,
)
from plimsoll.rebalance.state.history import ChangeKind
from plimsoll.render.placement_proposals import STATE_LABEL, Found, Owner, in_state, placement_proposal
from plimsoll.status.record.acknowledged import AcknowledgementAnswer, AcknowledgementOutcome, AskedAcknowledgement
from plimsoll.status.record.workload_trust import controller_of
from plimsoll.status.words.approvals import orphan_sentence, outcome_sentence

MOST_COMPLAINTS = 100
"""The most objects that are named in the log because they cannot be read."""

MOST_ORPHANS = 20
"""The most approvals without a deployment that one pass answers. The namespaces take turns."""

logger = logging.getLogger("plimsoll.inbox")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProposalWrites:
    """The writes of one pass about one deployment: proposals to write and to delete, approvals to answer and to delete.

    ``answered`` holds each approval with its new status.
    """

    posted: tuple[Manifest, ...] = ()
    withdrawn: tuple[Body, ...] = ()
    answered: tuple[tuple[Body, Mapping[str, Any]], ...] = ()
    spent: tuple[Body, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        return not (self.posted or self.withdrawn or self.answered or self.spent)


class _Answer(NamedTuple):
    body: Body
    vote: Vote | AskedAcknowledgement


@dataclass(frozen=True, slots=True)
class DeploymentInbox:
    """The objects of one deployment: proposals by id and approvals by uid, as the cluster has them.

    ``acknowledging`` are the approvals that acknowledge findings, the oldest first.
    """

    proposals: Mapping[str, Body]
    approvals: Mapping[str, Body]
    pending: PendingProposals
    acknowledging: tuple[AskedAcknowledgement, ...] = ()


@dataclass(slots=True)
class ProposalInbox:
    """The proposals and approvals that a pass sees, and when each proposal was made last.

    ``is_served`` says whether the cluster has both kinds, and whether the operator may read them. Without them nothing
    is proposed as an object, and nothing can be approved.
    """

    is_served: Callable[[], bool]
    complaints: set[str] = field(default_factory=set)
    _last_made: dict[tuple[str, str], float] = field(default_factory=dict)
    _proposals: dict[ObjectKey, list[Body]] = field(default_factory=dict)
    _approvals: dict[ObjectKey, list[_Answer]] = field(default_factory=dict)
    _votes: dict[str, tuple[Body, Vote | AskedAcknowledgement | None]] = field(default_factory=dict)
    """Each approval as it was read, by uid. Each is read once: there may be thousands, and most stay as they are."""
    _is_open: bool = False

    def begin(self, picture: Picture) -> None:
        """Read all objects once for a pass."""
        self._is_open = self.is_served()
        self._proposals, self._approvals, known = {}, {}, self._votes
        self._votes = {}
        uids = {uid_of(body) for body in picture.all(INFERENCE_DEPLOYMENTS)}
        self._last_made = {key: at for key, at in self._last_made.items() if key[0] in uids}
        if not self._is_open:
            return
        for body in picture.all(PROPOSALS):
            self._proposals.setdefault(_about(body, body), []).append(body)
        for body in picture.all(APPROVALS):
            before, vote = known.get(uid_of(body), (None, None))
            vote = vote if before is body else self._read(body, _vote)
            self._votes[uid_of(body)] = body, vote
            if vote is not None:
                self._approvals.setdefault(_about(body, body["spec"]), []).append(_Answer(body, vote))

    def of(self, owner: Owner) -> DeploymentInbox | None:
        """Return what there is about one deployment; None if the cluster has no such kinds."""
        if not self._is_open:
            return None
        proposals = {
            posted.id: (body, posted)
            for body in self._proposals.get(owner.key, ())
            if (controller_of(body) or {}).get("uid") == owner.uid and (posted := self._read(body, _posted)) is not None
        }
        answers = self._approvals.get(owner.key, ())
        given = sorted((each.vote for each in answers), key=lambda vote: (vote.created, vote.uid))
        votes = tuple(vote for vote in given if isinstance(vote, Vote))
        posted = tuple(found for _, found in proposals.values())
        return DeploymentInbox(
            {name: body for name, (body, _) in proposals.items()},
            {each.vote.uid: each.body for each in answers},
            PendingProposals(owner.uid, owner.generation, posted, votes),
            tuple(vote for vote in given if isinstance(vote, AskedAcknowledgement)),
        )

    def outbox(
        self,
        owner: Owner,
        inbox: DeploymentInbox,
        answered: AnsweredProposals,
        turn: LoopTurn | None,
        acknowledgements: Sequence[AcknowledgementAnswer],
        fleet: Fleet,
        now: float,
    ) -> ProposalWrites:
        """Return what is to be written about one deployment after its turn.

        Args:
            owner: the deployment.
            inbox: what there was before the turn.
            answered: people's answers so far, with those of this turn.
            turn: its turn in this pass; None if it had none.
            acknowledgements: what became of those who acknowledge a finding.
            fleet: where prices are read from.
            now: POSIX seconds.
        """
        made = None if turn is None else turn.offered_id
        board = board_of(
            inbox.pending,
            answered,
            made,
            self._since(inbox, made, now),
            acted=turn is not None and turn.acted,
            now=now,
            changed_at=None if turn is None else turn.standing.history.last(*ChangeKind),
        )
        spent = [vote.uid for vote in inbox.pending.spent()] + [each.uid for each in spent_of(inbox.acknowledging)]
        return ProposalWrites(
            posted=(*_relabelled(inbox, board), *_new(owner, board, turn, fleet, now)),
            withdrawn=tuple(inbox.proposals[each] for each in board.withdrawn),
            answered=(*_answered(owner, inbox, answered, now), *_acknowledged(inbox, acknowledgements, now)),
            spent=tuple(inbox.approvals[uid] for uid in spent),
        )

    def orphans(self, served: Collection[ObjectKey], now: float) -> ProposalWrites:
        """Return the answers to approvals that name no deployment of the cluster."""
        strays = [
            each
            for key, answers in self._approvals.items()
            if key not in served
            for each in answers
            if each.vote.is_open
        ]
        answered = [
            (body, _status(VoteOutcome.STALE, orphan_sentence(_about(body, body["spec"])), now))
            for body, _ in _in_turns(strays)[:MOST_ORPHANS]
        ]
        return ProposalWrites(answered=tuple(answered))

    def _since(self, inbox: DeploymentInbox, made: str | None, now: float) -> dict[str, float]:
        """Return when each proposal was made last. After a restart, the time of the first look counts."""
        uid = inbox.pending.uid
        if made is not None:
            self._last_made[uid, made] = now
        ids = {*inbox.proposals, *([] if made is None else [made])}
        for each in [key for key in self._last_made if key[0] == uid and key[1] not in ids]:
            del self._last_made[each]
        return {each: self._last_made.setdefault((uid, each), now) for each in ids}

    def _read(self, body: Body, read: Callable[[Body], Any]) -> Any:
        """Read one object. What cannot be read is ignored, and said once."""
        try:
            return read(body)
        except Exception as error:  # noqa: BLE001 - people write these objects, and one must not end the pass of all
            complaint = f"{body.get('kind')} {key_of(body)} is ignored: {type(error).__name__} {error}"
            if complaint not in self.complaints and len(self.complaints) < MOST_COMPLAINTS:
                logger.warning("%s", complaint)
                self.complaints.add(complaint)
            return None


def _in_turns(answers: Iterable[_Answer]) -> list[_Answer]:
    """Return the first answer of each namespace, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    places = []
    for each in answers:
        namespace = each.body["metadata"].get("namespace") or ""
        places.append((seen[namespace], each))
        seen[namespace] += 1
    return [each for _, each in sorted(places, key=itemgetter(0))]


def _about(body: Body, content: Any) -> ObjectKey:
    name = content.get("deployment") if isinstance(content, Mapping) else None
    return ObjectKey(body["metadata"].get("namespace") or "", str(name))


def _posted(body: Body) -> Posted:
    content = _content(body)
    labels = body["metadata"].get("labels") or {}
    times = _seconds(content.created_at), _seconds(content.expires_at)
    return Posted(content.id, content.generation, *times, str(labels.get(STATE_LABEL) or ""))


def _content(body: Body) -> ProposalContent:
    content = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    return ProposalContent.model_validate(content, extra="ignore", by_alias=True, by_name=False)


def _vote(body: Body) -> Vote | AskedAcknowledgement:
    spec = PlacementApprovalSpec.model_validate(body["spec"], extra="ignore", by_alias=True, by_name=False)
    outcome = str((body.get("status") or {}).get("state") or "")
    created, reason = _seconds(body["metadata"]["creationTimestamp"]), spec.reason or ""
    if spec.decision is Verdict.ACKNOWLEDGE:
        finding, generation, until = _needed(spec.finding), _needed(spec.generation), _seconds(spec.until)
        return AskedAcknowledgement(uid_of(body), finding, generation, spec.by, until, created, reason, outcome)
    approves = spec.decision is Verdict.APPROVE
    return Vote(
        uid_of(body), _needed(spec.proposal), spec.by, approves, reason=reason, created=created, outcome=outcome
    )


def _needed(value: T | None) -> T:
    """Return a field that the CRD's rules demand: an object from before a rule may lack it."""
    if value is None:
        raise ValueError("a field is missing that its decision needs")
    return value


def _seconds(text: Any) -> float:
    at = from_rfc3339(str(text))
    if at is None:
        raise ValueError(f"{text!r} is no time")
    return at


def _relabelled(inbox: DeploymentInbox, board: Board) -> Iterator[Manifest]:
    """Yield the proposals whose label does not show their state."""
    states = {posted.id: posted.state for posted in inbox.pending.posted}
    for proposal, state in board.kept:
        if states[proposal] != state:
            yield in_state(dict(inbox.proposals[proposal]), state)


def _new(owner: Owner, board: Board, turn: LoopTurn | None, fleet: Fleet, now: float) -> Iterator[Manifest]:
    if board.new is None or turn is None or turn.offered is None:
        return
    offered = turn.offered
    startup = None if turn.decided is None else turn.decided.memory.startup_seconds
    found = Found(offered.id, offered.change, offered.now, offered.then, offered.proposal, startup)
    yield placement_proposal(owner, found, fleet, now)


def _answered(
    owner: Owner, inbox: DeploymentInbox, answered: AnsweredProposals, now: float
) -> Iterator[tuple[Body, Mapping[str, Any]]]:
    """Yield the approvals whose state has changed, each with its new status."""
    for vote in inbox.pending.votes:
        if not vote.is_open:
            continue
        outcome = inbox.pending.outcome(vote, answered, now)
        if outcome != vote.outcome:
            message = outcome_sentence(outcome, vote, owner.key, _end_of(inbox, vote))
            yield inbox.approvals[vote.uid], _status(outcome, message, now)


def _acknowledged(
    inbox: DeploymentInbox, answers: Iterable[AcknowledgementAnswer], now: float
) -> Iterator[tuple[Body, Mapping[str, Any]]]:
    for each in answers:
        if each.outcome != each.asked.outcome and each.asked.uid in inbox.approvals:
            yield inbox.approvals[each.asked.uid], _status(each.outcome, each.message, now)


def _status(outcome: VoteOutcome | AcknowledgementOutcome, message: str, now: float) -> Mapping[str, Any]:
    return {"state": outcome.value, "message": message, "at": to_rfc3339(now)}


def _end_of(inbox: DeploymentInbox, vote: Vote) -> float | None:
    return next((posted.expires for posted in inbox.pending.posted if posted.id == vote.proposal), None)
