"""Whether an option may miss the latency goals of its request."""

from __future__ import annotations

from plimsoll.domain.decisions.outcomes import Option


def misses_slo(option: Option) -> bool | None:
    """Return whether an option may miss the goals; None if options say nothing about speed.

    Options that know their speed have the attribute ``may_break_promise``.
    """
    missed: bool | None = getattr(option, "may_break_promise", None)
    return missed
