"""Whether an option misses the latency goals of its request."""

from __future__ import annotations

from plimsoll.domain.outcomes import Option


def misses_slo(option: Option) -> bool | None:
    """Return whether an option misses the goals; None where options say nothing about speed.

    The benchmark counts misses as soon as options carry the attribute ``misses_slo``.
    """
    missed: bool | None = getattr(option, "misses_slo", None)
    return missed
