"""The replacement of one replica that is slow or silent: a new one serves first, then the old one ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.history import ROOM_REASONS

PROVEN_SECONDS = 60.0
"""How long a new replica must have served, and not slowly, before the old one ends: four scrapes of 15 s."""

LONGEST_SECONDS = 3600.0
"""How long a replacement may take at most. Then the old replica stays."""

STRAY_SECONDS = 300.0
"""How long new replicas on a node that is to be left are ended, so that the next one starts elsewhere: the scheduler
finds the node full while the one before ends. Where it has much room, that helps nothing."""

MOST_STRAYS = 3
"""The most replicas that one replacement ends for that. The next one stays on the node."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replacement that is under way, as the status keeps it.

    ``pod`` on ``node`` is to end because of ``reason``, and ``began`` is when that was decided, in POSIX seconds. One
    that ends to make room has no successor, and ``whom`` says for which deployment a pod makes room. ``strays`` are the
    new pods on that node that end, so that the next one starts elsewhere.
    """

    pod: str
    node: str
    reason: DecisionReason
    began: float
    whom: str = ""
    strays: tuple[str, ...] = ()

    @property
    def is_for_others(self) -> bool:
        """Whether it makes room for another deployment."""
        return self.reason in ROOM_REASONS

    def may_end(self, pod: str) -> bool:
        """Whether a new pod on the node may end, so that the next one starts elsewhere."""
        return pod in self.strays or len(self.strays) < MOST_STRAYS


class Step(StrEnum):
    """The next step of a replacement."""

    START = "Start"
    """One more replica is there until the new one serves."""
    END_OLD = "EndOld"
    """The new one serves, so the old one ends."""
    END_STRAY = "EndStray"
    """A new one is on the node that is to be left, so it ends, and its successor starts elsewhere."""
    DONE = "Done"
    """The old one is gone, or on its way."""
    RECOVERED = "Recovered"
    """The old one is like the others again, or nobody needs its room any more, and stays."""
    NOT_BETTER = "NotBetter"
    """The new one is slow or silent as well, on another node: it is not the node."""
    SAME_NODE = "SameNode"
    """The new one is slow or silent as well, on the same node: nothing is known about others."""
    NOT_SERVING = "NotServing"
    """The new one did not serve in time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The facts by which a replacement goes on.

    Attributes:
        is_there: the old replica serves, and is not on its way out.
        is_suspect: it is still slow or silent, or its room is still needed.
        spare: replicas that serve beyond those that are wanted, the old one included.
        newest_since: since when the newest of them serves, in POSIX seconds; None: none serves since the replacement
            began. New ones on a node that is to be left for others do not count.
        newest_is_doubtful: the newest one is a suspect as well, and ``newest_is_certain`` says for how long already.
        newest_is_certain: it has been one for long enough.
        newest_is_elsewhere: it is on another node than the old replica, or nobody knows its node.
        patience_seconds: how long the new one may take until it serves.
        stray: a new one on the node that is to be left, which may end; empty: there is none.
    """

    is_there: bool
    is_suspect: bool
    spare: int
    newest_since: float | None
    newest_is_doubtful: bool
    newest_is_certain: bool
    newest_is_elsewhere: bool
    patience_seconds: float
    stray: str = ""


def step_of(replacement: Replacement, progress: Progress, now: float) -> Step:
    """Return what a replacement does next. ``now`` is in POSIX seconds; a clock set back begins it anew."""
    seconds = max(0.0, now - replacement.began)
    if not progress.is_there:
        return Step.DONE
    if not progress.is_suspect:
        return Step.RECOVERED
    if replacement.reason is DecisionReason.GIVES_WAY:
        return Step.END_OLD
    if progress.stray and seconds < STRAY_SECONDS:
        return Step.END_STRAY
    since = progress.newest_since
    if since is not None and progress.newest_is_certain:
        return Step.NOT_BETTER if progress.newest_is_elsewhere else Step.SAME_NODE
    if since is None or progress.spare < 1:
        return Step.NOT_SERVING if seconds >= min(LONGEST_SECONDS, progress.patience_seconds) else Step.START
    if progress.newest_is_doubtful:
        return Step.NOT_SERVING if seconds >= LONGEST_SECONDS else Step.START
    return Step.END_OLD if now - since >= PROVEN_SECONDS else Step.START
