"""Maintenance windows in a spec, in the terms of a Kubernetes CronJob."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import ApiModel

SCHEDULE = r"^[0-9*/,-]+( +[0-9*/,-]+){2} +[0-9A-Za-z*/,-]+ +([0-9*/,-]|[A-Za-z]{3})+$"
"""Five fields of cron. Which numbers and names they may hold is checked when the spec is read."""

DURATION = r"^([1-9][0-9]{0,2}h([0-9]{1,2}m)?|[1-9][0-9]{0,3}m)$"
TIME_ZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,2}$"
"""A name of the time zone database. It cannot be a path: it has no dot and begins with a letter."""

MOST_WINDOWS = 8


class MaintenanceWindowSpec(ApiModel):
    """Times at which engines may be moved and restarted."""

    schedule: Annotated[str, Field(min_length=9, max_length=100, pattern=SCHEDULE)] = Field(
        description="When the window opens, as a cron schedule of five fields, e.g. 0 2 * * sat."
    )
    duration: Annotated[str, Field(min_length=2, max_length=8, pattern=DURATION)] = Field(
        description="How long it stays open, in hours and minutes, e.g. 90m, 4h or 4h30m."
    )
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] = Field(
        default="UTC", description="Time zone of the schedule, as the time zone database names it, e.g. Europe/Berlin."
    )
