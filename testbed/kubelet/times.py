"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(seconds: float) -> str:
    """POSIX seconds as an RFC 3339 time of whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_micro(seconds: float) -> str:
    """The same with microseconds, which leases have."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
