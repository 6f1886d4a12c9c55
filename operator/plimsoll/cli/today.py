"""The day on which a command runs: the core has no clock."""

from __future__ import annotations

from datetime import UTC, date, datetime


def today() -> date:
    """The day, in UTC."""
    return datetime.now(tz=UTC).date()
