"""The best limit of requests at the same time for an engine, and what a replica carries with it."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from plimsoll.placement.more_requests import STEPS
from plimsoll.rebalance.law.capacity import Limit, ReplicaModel, capacity_of
from plimsoll.rebalance.law.headroom import needed_use
from plimsoll.rebalance.signals.traffic import Lengths

LEAST_GAIN = 1.25
"""All engines restart for another limit, so each must carry at least so much more afterwards."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A limit (``--max-num-seqs`` of a replica), and the requests a second that a replica carries with it."""

    sequences: int
    per_second: float

    def replicas_for(self, rate: float, startup_seconds: float) -> int:
        """Return the replicas for so many requests a second, where one more starts in so many seconds."""
        return math.ceil(rate / (needed_use(startup_seconds) * self.per_second))


def after_retune(model: ReplicaModel, lengths: Lengths, most: int) -> Tuned | None:
    """Return the smallest usual limit that binds no more; None where a replica would carry hardly more with it.

    ``most`` is the highest limit that the engine could be given.
    """
    now = capacity_of(model, lengths)
    best = capacity_of(replace(model, max_sequences=max(most, model.max_sequences)), lengths)
    if now.limit is not Limit.BATCH or best.per_second < LEAST_GAIN * now.per_second:
        return None
    for step in STEPS[bisect_left(STEPS, math.ceil(best.running)) :]:
        wider = capacity_of(replace(model, max_sequences=min(step, most)), lengths)
        if wider.limit is not Limit.BATCH or step >= most:
            return Tuned(min(step, most), wider.per_second)
    return None
