"""The part of a replica's capacity that arrivals may take: more stays free where a new replica comes later.

The constants were chosen on simulated traffic (docs/rebalance-benchmark.md).
"""

from __future__ import annotations

NEEDED_USE = 0.85
"""The part that arrivals may take where a new replica would serve at once."""

GROWTH_SECONDS = 2000.0
"""Arrivals may double in so many seconds before anything shows it. What comes during a start-up must have room."""

LONGEST_SECONDS = 900.0
"""For longer start-ups no more room is kept: it would cost more than it is worth."""

SPARE_SHARE = 0.85
"""The part of these parts that arrivals may take for a replica to be superfluous. The difference keeps chance from
adding it again."""


def needed_use(startup_seconds: float) -> float:
    """Return the part from which one more replica is needed, where it serves after so many seconds."""
    return NEEDED_USE / (1 + min(startup_seconds, LONGEST_SECONDS) / GROWTH_SECONDS)


def spare_use(startup_seconds: float) -> float:
    """Return the part up to which a replica is superfluous."""
    return SPARE_SHARE * needed_use(startup_seconds)
