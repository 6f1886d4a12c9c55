"""The maintenance windows of a spec: cron schedules and time zones, which the CRD's patterns cannot check whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from plimsoll.api.v1alpha1 import MaintenanceWindowSpec, RebalancingSpec
from plimsoll.domain.errors import InvalidInput

_FIELDS = "minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or jan-dec), weekday (0-7 or sun-sat)"

REMEMBERED = 1024
"""Schedules that are kept ready. Most clusters have a handful."""


@dataclass(frozen=True, slots=True)
class Window:
    """A maintenance window: it opens at each time of a cron ``schedule`` in a time ``zone``, for ``seconds``."""

    schedule: str
    seconds: int
    zone: ZoneInfo


def check_maintenance(spec: RebalancingSpec) -> None:
    """Refuse windows of which nobody can say when they open.

    Raises:
        InvalidInput: with the field, its value, and what to write instead.
    """
    for _ in windows_of(spec):
        pass


def windows_of(spec: RebalancingSpec) -> Iterator[Window]:
    """Yield the maintenance windows. Raises :class:`InvalidInput` as :func:`check_maintenance` does."""
    for index, window in enumerate(spec.maintenance_windows or ()):
        yield _window(window, f"spec.rebalancing.maintenanceWindows[{index}]")


def _window(window: MaintenanceWindowSpec, path: str) -> Window:
    wrong = _wrong_field(window.schedule)
    if wrong:
        raise InvalidInput(f"{path}.schedule", window.schedule, f"{wrong}. Write five fields: {_FIELDS}.")
    zone = _zone(window.time_zone)
    if zone is None:
        fix = "The time zone database does not have it. Write a name such as Europe/Berlin."
        raise InvalidInput(f"{path}.timeZone", window.time_zone, fix)
    return Window(window.schedule, _seconds(window.duration), zone)


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
