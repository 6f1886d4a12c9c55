"""All situations by their names."""

from __future__ import annotations

from functools import cache
from itertools import chain

from benchmarks.rebalance.scenarios.faults import faults
from benchmarks.rebalance.scenarios.rhythm import rhythm
from benchmarks.rebalance.scenarios.situation import Situation
from benchmarks.rebalance.scenarios.tuning import tuning
from benchmarks.rebalance.scenarios.validation import validation

QUICK = {"S1": 900, "S3": 900, "S9": 1500, "STUCK": 1200, "azure-conv": 600, "V-ONOFF": 3600}
"""The situations of a quick look, and how many seconds of them it takes.

They are a start, a bottleneck that no KV cache shows, a burst, a step with a fault, a trace, and demand on and off.
"""


@cache
def situations() -> dict[str, Situation]:
    """Return all situations by their names: for tuning, for validation, with days before, and with goals."""
    return {each.name: each for each in chain(tuning(), validation(), rhythm(), faults())}


def quick() -> list[Situation]:
    """Return the situations of a quick look."""
    return [situations()[name].shortened(seconds) for name, seconds in QUICK.items()]
