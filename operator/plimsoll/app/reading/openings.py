"""The maintenance windows that are open and the scheduled minima that count, by the time zone database."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim

from plimsoll.api.checks.schedules import Window
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.policy import ScheduledMinimum

_MINUTE = 60
_CLOCK_CHANGE_SECONDS = 3 * 3600
"""No clock is changed by more than this. When it is set back, an hour of the wall clock comes twice. So the search
begins so long before or after the moment."""

_REMEMBERED = 4096


def opening_of(windows: Iterable[Window], now: float) -> Opening:
    """Return whether one of the windows is open. Without any window, it is always.

    Args:
        windows: the windows of one deployment.
        now: POSIX seconds.
    """
    each = [_opening(window, int(now // _MINUTE)) for window in windows]
    if not each or any(opening.is_open for opening in each):
        return Opening()
    return Opening(is_open=False, opens_at=min(opening.opens_at for opening in each))


def scheduled_at(minima: Iterable[tuple[Window, int]], now: float) -> tuple[ScheduledMinimum, ...]:
    """Return whether each scheduled minimum counts, or when it will.

    Args:
        minima: when each counts, and its replicas.
        now: POSIX seconds.
    """
    return tuple(ScheduledMinimum(replicas, _opening(window, int(now // _MINUTE))) for window, replicas in minima)


@lru_cache(_REMEMBERED)
def _opening(window: Window, minute: int) -> Opening:
    """Return whether one window is open in a minute (of POSIX time). It opens and closes at full minutes."""
    now = minute * _MINUTE
    earlier = _times(window.schedule, window.zone, now + _CLOCK_CHANGE_SECONDS, reverse=True)
    last = next((at for at in earlier if at <= now), None)
    if last is not None and now < _end(window, last):
        return Opening()
    return Opening(is_open=False, opens_at=_next(window.schedule, window.zone, now))


def _end(window: Window, begin: float) -> float:
    return _next(window.until, window.zone, begin) if window.until else begin + window.seconds


def _next(schedule: str, zone: ZoneInfo, now: float) -> float:
    """Return the first time after now. The rarest day, a Sunday that is 29 February, comes again."""
    return next(at for at in _times(schedule, zone, now - _CLOCK_CHANGE_SECONDS) if at > now)


def _times(schedule: str, zone: ZoneInfo, start: float, *, reverse: bool = False) -> Iterable[float]:
    """Yield the times of a cron schedule, in POSIX seconds, from a moment on."""
    begin = datetime.fromtimestamp(start, UTC).astimezone(zone)
    return (at.timestamp() for at in CronSim(schedule, begin, reverse=reverse))
