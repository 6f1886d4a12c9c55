"""Times in a status: RFC 3339 with whole seconds, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def to_rfc3339(posix_seconds: float) -> str:
    """Convert POSIX seconds to ``2026-01-02T03:04:05Z``."""
    return datetime.fromtimestamp(int(posix_seconds), tz=UTC).isoformat().replace("+00:00", "Z")


def from_rfc3339(text: str) -> float | None:
    """Convert back to POSIX seconds; None where the text is not a time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (OverflowError, ValueError):
        return None
