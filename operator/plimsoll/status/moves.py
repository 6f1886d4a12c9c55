"""Moves and changes of settings, under way or taken back, as a status keeps them."""

from __future__ import annotations

from plimsoll.api.v1alpha1.status import EarlierSettingsStatus, FailedMoveStatus, MoveStatus, RetuneStatus
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.demands.clocks import LONGEST_SECONDS, MOST_EXTENSIONS, EarlierSettings, MoveClock, RetuneClock
from plimsoll.placement.demands.failed_moves import MOST_TIMES, Delay, FailedMove, pause_seconds
from plimsoll.status.forms import Field, Form, all_entries, listed, number, time, unless
from plimsoll.status.places import SETTINGS, SPLIT


def _span_doubt(first: tuple[str, float], last: tuple[str, float], longest: float) -> str:
    """The error in two times, each with its name. Times are written in whole seconds, so a second more is allowed."""
    if 0 <= last[1] - first[1] <= longest + 1:
        return ""
    begin, end = (f"{name} {to_rfc3339(at)}" for name, at in (first, last))
    return f"{end} is not within {longest:.0f} s after {begin}"


def _move_doubt(clock: MoveClock) -> str:
    return _span_doubt(("beganAt", clock.began), ("dueAt", clock.due), MOST_EXTENSIONS * LONGEST_SECONDS)


def _failed_doubt(failed: FailedMove) -> str:
    if not failed.delay.reason.isalnum():
        return f"reason {failed.delay.reason!r} is not one word"
    return _span_doubt(("at", failed.at), ("until", failed.until), pause_seconds(failed.times))


MOVE = Form(MoveClock, MoveStatus, pools=listed("pools"), began=time("began_at"), due=time("due_at"), doubt=_move_doubt)

FAILED_MOVE = Form(
    FailedMove,
    FailedMoveStatus,
    split=SPLIT,
    at=time("at"),
    until=time("until"),
    times=number("times", 1, MOST_TIMES),
    delay=Form(Delay),
    sequences=SETTINGS["max_sequences"],
    batched_tokens=SETTINGS["batched_tokens"],
    doubt=_failed_doubt,
)

EARLIER = Form(
    EarlierSettings,
    EarlierSettingsStatus,
    pool=Field("name"),
    sequences=SETTINGS["max_sequences"],
    batched_tokens=SETTINGS["batched_tokens"],
    drain_seconds=SETTINGS["drain_seconds"],
    inputs=unless("inputs", ""),
)

RETUNE = Form(
    RetuneClock,
    RetuneStatus,
    beside=("due_at",),
    before=all_entries("pools", EARLIER),
    began=time("began_at"),
    each=number("replica_seconds", 1, LONGEST_SECONDS),
)
