"""The times of a spec: its maintenance windows and its scheduled minima. The CRD's patterns cannot check them whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from plimsoll.api.v1alpha1 import MaintenanceWindowSpec, RebalancingSpec, ScheduledMinimumSpec
from plimsoll.domain.errors import InvalidInput

_FIELDS = "minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or jan-dec), weekday (0-7 or sun-sat)"

REMEMBERED = 1024
"""Schedules that are kept ready. Most clusters have a handful."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time that comes again: it begins at each time of a cron ``schedule`` in a time ``zone``.

    It lasts for ``seconds``; or until the next time of another cron schedule, ``until``, in the same zone.
    """

    schedule: str
    seconds: int
    zone: ZoneInfo
    until: str = ""


def check_times(spec: RebalancingSpec) -> None:
    """Refuse maintenance windows and scheduled minima of which nobody can say when they begin.

    Raises:
        InvalidInput: with the field, its value, and what to write instead.
    """
    for _ in (*windows_of(spec), *minima_of(spec)):
        pass


def windows_of(spec: RebalancingSpec) -> Iterator[Window]:
    """Yield the maintenance windows. Raises :class:`InvalidInput` as :func:`check_times` does."""
    for index, window in enumerate(spec.maintenance_windows or ()):
        path = f"spec.rebalancing.maintenanceWindows[{index}]"
        _check_cron(f"{path}.schedule", window.schedule)
        yield Window(window.schedule, _seconds(window.duration), _zone_of(window, path))


def minima_of(spec: RebalancingSpec) -> Iterator[tuple[Window, int]]:
    """Yield when each scheduled minimum counts, and its replicas. Raises :class:`InvalidInput` in the same way."""
    for index, entry in enumerate(spec.schedule or ()):
        path = f"spec.rebalancing.schedule[{index}]"
        _check_cron(f"{path}.cron", entry.cron)
        if entry.until is not None:
            _check_cron(f"{path}.until", entry.until)
        if (entry.until is None) == (entry.duration is None):
            fix = "Write exactly one of duration (how long the minimum counts) and until (when it ends)."
            raise InvalidInput(f"{path}.until", entry.until, fix)
        most = spec.max_replicas
        if most is not None and entry.min_replicas > most:
            raise InvalidInput(
                f"{path}.minReplicas", entry.min_replicas, f"Write at most the {most} of maxReplicas, or raise that."
            )
        seconds = 0 if entry.duration is None else _seconds(entry.duration)
        yield Window(entry.cron, seconds, _zone_of(entry, path), entry.until or ""), entry.min_replicas


def _check_cron(path: str, schedule: str) -> None:
    wrong = _wrong_field(schedule)
    if wrong:
        raise InvalidInput(path, schedule, f"{wrong}. Write five fields: {_FIELDS}.")


def _zone_of(given: MaintenanceWindowSpec | ScheduledMinimumSpec, path: str) -> ZoneInfo:
    zone = _zone(given.time_zone)
    if zone is None:
        fix = "The time zone database does not have it. Write a name such as Europe/Berlin."
        raise InvalidInput(f"{path}.timeZone", given.time_zone, fix)
    return zone


@lru_cache(REMEMBERED)
def _wrong_field(schedule: str) -> str:
    """Return the field of a cron schedule that cannot be used; empty if all can."""
    try:
        CronSim(schedule, datetime.fromtimestamp(0, UTC))
    except CronSimError as error:
        return str(error)
    return ""


def _zone(name: str) -> ZoneInfo | None:
    """Return a time zone; None if the database has none of this name, but perhaps a folder."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return None


def _seconds(duration: str) -> int:
    """Return the seconds of a duration that the pattern of its field has let pass."""
    hours, has_hours, rest = duration.partition("h")
    minutes = rest if has_hours else duration
    return 3600 * int(hours if has_hours else 0) + 60 * int(minutes.removesuffix("m") or 0)
