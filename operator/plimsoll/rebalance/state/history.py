"""The changes that the live loop made of a deployment. The object's status keeps them across restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise

from plimsoll.rebalance.state.decisions import DecisionReason

HOUR_SECONDS = 3600.0

KEPT = 10
"""Changes that people can read about, however old they are."""

ONE_ADDITION_SECONDS = 60.0
"""A rise is often seen in several scrapes."""

REVERSAL_SECONDS = 1800.0
"""An addition so soon after a removal says that the removal was wrong."""

READ_SECONDS = HOUR_SECONDS + REVERSAL_SECONDS
"""How long bounds read a change: the removal before an addition of the last hour is older."""


STEP_REASONS = (DecisionReason.PROMPT_STEP_TOO_SMALL, DecisionReason.PROMPT_STEP_TOO_LARGE)
"""The reasons of changes of the engines' step, one for each direction."""

STEP_AGAIN_SECONDS = 7 * 24 * HOUR_SECONDS
"""How long a change of the engines' step is remembered. The first one goes to the best step at once, so one more in the
same direction would say that the first did not help as expected."""


IN_VAIN_SECONDS = 3 * HOUR_SECONDS
"""How long an addition in vain is remembered: a replica of it may start for long, one goes on for half an hour, and the
longest pause after that is 80 minutes (:mod:`plimsoll.rebalance.state.additions`)."""


REPLACE_REASONS = (DecisionReason.REPLICA_SLOW, DecisionReason.REPLICA_SILENT, DecisionReason.LOAD_IMBALANCED)
"""The reasons of changes for one replica that is not like the others."""

REPLACE_AGAIN_SECONDS = 24 * HOUR_SECONDS
"""How long such a change is remembered. If it did not help, the next one would not either."""


ROOM_REASONS = (DecisionReason.MAKES_ROOM, DecisionReason.GIVES_WAY)
"""The reasons of changes that make room for another deployment: a replica moves, or ends."""

ROOM_AGAIN_SECONDS = 7 * 24 * HOUR_SECONDS
"""How long a move for others that failed is remembered: it lengthens the next pause."""


class ChangeKind(StrEnum):
    """The kind of a change."""

    ADD = "Add"
    REMOVE = "Remove"
    MOVE = "Move"
    RETUNE = "Retune"
    REPLACE = "Replace"
    ROLL_BACK = "RollBack"
    TAKE_BACK = "TakeBack"


ENDINGS = (ChangeKind.REMOVE, ChangeKind.TAKE_BACK, ChangeKind.RETUNE, ChangeKind.MOVE)
"""Changes by which pods end: what these served is in no count of the others."""


class Verdict(StrEnum):
    """The kind of result of an addition."""

    SERVES = "Serves"
    HELPS = "Helps"
    DOES_NOT_SERVE = "DoesNotServe"
    DOES_NOT_HELP = "DoesNotHelp"
    NOT_KNOWN = "NotKnown"


@dataclass(frozen=True, slots=True)
class Called:
    """The figure of the load that called for an addition, by its name, with its value.

    ``arrivals`` and ``served`` are the requests a minute that came and that were begun at that time: another load is no
    test of the addition, and more requests served are a result of it. ``read_tokens`` are the KV tokens that were read
    a minute (:class:`~plimsoll.rebalance.signals.counted.Counted`), counted like ``served`` over ``seconds``.
    """

    figure: str
    value: int
    arrivals: int = 0
    served: int = 0
    seconds: int = 0
    read_tokens: int = 0


@dataclass(frozen=True, slots=True)
class AdditionResult:
    """The result of an addition, since ``at`` (POSIX seconds).

    ``in_a_row`` counts the additions in vain up to this one, and this one; 0 if it serves and is not in vain. One of
    which it is not known whether it helps leaves that number as it is.
    ``value`` is the figure that called for it, once it was judged. ``words`` are the kubelet's, the engine's or the
    scheduler's about pods that do not serve.
    """

    verdict: Verdict
    at: float
    in_a_row: int = 0
    value: int | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change: its time in POSIX seconds, its kind, its public reason, and the replicas wanted from then on.

    Of an addition, ``added`` are the replicas that it added, ``called`` what it was for, and ``result`` what became of
    it; None: that is not known yet. Of a move to another engine, ``engine`` is that one's name.
    """

    at: float
    kind: ChangeKind
    reason: str = ""
    replicas: int | None = None
    added: int = 0
    called: Called | None = None
    result: AdditionResult | None = None
    engine: str = ""

    @property
    def wanted(self) -> int:
        """The replicas wanted from then on; 0 if they are not known."""
        return self.replicas or 0


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """The changes, the oldest first."""

    changes: tuple[ChangeRecord, ...] = ()

    def recorded(self, mark: ChangeRecord) -> ChangeHistory:
        """Return the history with one more change, without those that no bound reads and that are not among the last.

        Of additions within a minute only the last one is kept, so that the status stays short. The first one after
        another change stays, because it shows whether a removal was wrong.
        """
        known = self.clamped(mark.at).changes
        kinds = [each.kind for each in known[-2:]] + [mark.kind]
        if kinds == 3 * [ChangeKind.ADD] and mark.at - known[-1].at < ONE_ADDITION_SECONDS:
            mark = replace(mark, added=mark.added + known[-1].added, called=known[-1].called or mark.called)
            known = known[:-1]
        old = len(known) - KEPT
        kept = [each for number, each in enumerate(known) if mark.at - each.at < _read_for(each) or number >= old]
        return ChangeHistory((*kept, mark))

    def clamped(self, now: float) -> ChangeHistory:
        """Return the history with every time in the future replaced by ``now``. A clock set back leaves future times.

        Store the result when it differs. Then a cool-down lasts its full time from the moment when the clock step was
        noticed. It is not skipped, and it does not last until the clock reaches the old time again.
        """
        return ChangeHistory(tuple(map(partial(_clamped, now), self.changes)))

    def budget_spent(self, now: float) -> int:
        """Return the changes of the last hour but additions, which are never bounded: they serve requests."""
        return sum(mark.kind is not ChangeKind.ADD for mark in self._of_last_hour(now))

    def reversals(self, now: float) -> int:
        """Return how often in the last hour an addition followed a removal within :data:`REVERSAL_SECONDS`.

        A move that was taken back is a reversal, too. A replica that ended for others is none when it comes back.
        """
        known = self.without(DecisionReason.GIVES_WAY.value).clamped(now).changes
        scales = [mark for mark in known if mark.kind in (ChangeKind.ADD, ChangeKind.REMOVE)]
        taken_back = sum(mark.kind is ChangeKind.ROLL_BACK for mark in self._of_last_hour(now))
        return taken_back + sum(
            earlier.kind is ChangeKind.REMOVE and later.kind is ChangeKind.ADD
            for earlier, later in pairwise(scales)
            if later.at - earlier.at <= REVERSAL_SECONDS and now - later.at < HOUR_SECONDS
        )

    def replaced_within_hour(self, now: float) -> int:
        """Return how many replicas were replaced in the last hour because they were slow or silent."""
        marks = (mark for mark in self._of_last_hour(now) if mark.reason in REPLACE_REASONS)
        return sum(mark.kind is ChangeKind.REPLACE for mark in marks)

    def only(self, reason: str) -> ChangeHistory:
        """Return the changes with a reason."""
        return ChangeHistory(tuple(mark for mark in self.changes if mark.reason == reason))

    def without(self, reason: str) -> ChangeHistory:
        """Return the changes with other reasons."""
        return ChangeHistory(tuple(mark for mark in self.changes if mark.reason != reason))

    def last(self, *kinds: ChangeKind) -> float | None:
        """Return the time of the last change of these kinds; None if there was none."""
        return max((mark.at for mark in self.changes if mark.kind in kinds), default=None)

    def newest(self, *kinds: ChangeKind) -> ChangeRecord | None:
        """Return the last change of these kinds; None if there was none."""
        return max((mark for mark in self.changes if mark.kind in kinds), key=lambda mark: mark.at, default=None)

    def _of_last_hour(self, now: float) -> list[ChangeRecord]:
        return [mark for mark in self.clamped(now).changes if now - mark.at < HOUR_SECONDS]


def _clamped(now: float, mark: ChangeRecord) -> ChangeRecord:
    result = mark.result
    if result is not None and result.at > now:
        mark = replace(mark, result=replace(result, at=now))
    return mark if mark.at <= now else replace(mark, at=now)


def _read_for(mark: ChangeRecord) -> float:
    if mark.reason in STEP_REASONS:
        return STEP_AGAIN_SECONDS
    if mark.reason == DecisionReason.MAKES_ROOM and mark.kind is ChangeKind.ROLL_BACK:
        return ROOM_AGAIN_SECONDS
    if mark.result is not None and mark.result.in_a_row:
        return IN_VAIN_SECONDS
    return REPLACE_AGAIN_SECONDS if mark.reason in REPLACE_REASONS else READ_SECONDS
