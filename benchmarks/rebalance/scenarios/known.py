"""All situations by their names."""

from __future__ import annotations

from functools import cache
from itertools import chain

from benchmarks.rebalance.scenarios.situation import Situation
from benchmarks.rebalance.scenarios.tuning import tuning
from benchmarks.rebalance.scenarios.validation import validation

QUICK = ("S1", "S3b", "S9", "B5", "STUCK", "azure-conv")
"""The situations of a quick look: a start, a bottleneck that no KV cache shows, a burst, a step, a fault, a trace."""


@cache
def situations() -> dict[str, Situation]:
    """Return all situations by their names, those for tuning first."""
    return {each.name: each for each in chain(tuning(), validation())}
