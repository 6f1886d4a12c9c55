"""Which maintenance windows are open, by the time zone database."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from cronsim import CronSim

from plimsoll.api.checks.maintenance import Window
from plimsoll.rebalance.state.allowance import Opening

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


@lru_cache(_REMEMBERED)
def _opening(window: Window, minute: int) -> Opening:
    """Return whether one window is open in a minute (of POSIX time). It opens and closes at full minutes."""
    now = minute * _MINUTE
    last = next((at for at in _times(window, now + _CLOCK_CHANGE_SECONDS, reverse=True) if at <= now), None)
    if last is not None and now < last + window.seconds:
        return Opening()
    following = (at for at in _times(window, now - _CLOCK_CHANGE_SECONDS) if at > now)
    return Opening(is_open=False, opens_at=next(following))  # the rarest day, a Sunday that is 29 February, comes again


def _times(window: Window, start: float, *, reverse: bool = False) -> Iterable[float]:
    """Yield the times at which a window opens, in POSIX seconds, from a moment on."""
    begin = datetime.fromtimestamp(start, UTC).astimezone(window.zone)
    return (at.timestamp() for at in CronSim(window.schedule, begin, reverse=reverse))
