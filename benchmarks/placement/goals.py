"""Whether an option misses the latency goals of its request."""

from __future__ import annotations

from plimsoll.domain.decisions.outcomes import Option


def misses_slo(option: Option) -> bool | None:
    """Return whether an option misses the goals; None where options say nothing about speed.

    Options that know their speed have the attribute ``is_slow``.
    """
    missed: bool | None = getattr(option, "is_slow", None)
    return missed
