"""Prompts that begin alike: what counters show of them, and what it bounds.

Engines count the tokens of prompts that they find in a cache. They do not count those that came before and were given
up, so what more memory would find is not known from counters: only the most that it can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from plimsoll.rebalance.law.capacity import ReplicaModel, capacity_of
from plimsoll.rebalance.law.wishes import TOLERANCE, Need, Wish
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.traffic import Lengths


@dataclass(frozen=True, slots=True)
class Reuse:
    """The reuse that the counters of a deployment show.

    Attributes:
        lengths: of its requests.
        flow: tokens a second that all its replicas write to their caches, or use again there.
        kept_seconds: the GPUs' caches keep a prompt for that long, or longer.
        rate: requests a second that come to one replica.
        wish: the replicas that the load needs, because of the requests that come.
        replica: one replica as the performance model knows it.
    """

    lengths: Lengths
    flow: float
    kept_seconds: float
    rate: float
    wish: Wish
    replica: ReplicaModel

    @property
    def found(self) -> float:
        """The share of the tokens of prompts that a cache had, 0 to 1."""
        return self.lengths.cached / self.lengths.prompt

    @property
    def behind(self) -> float | None:
        """The share that a cache behind the GPUs' had, e.g. in host memory; None if the engine does not count it."""
        return None if self.lengths.behind is None else self.lengths.behind / self.lengths.prompt

    def replicas_at(self, share: float) -> int:
        """Return the replicas that the same requests need if that share is found, by the performance model.

        A share just below 0, which a difference of two may be, is 0.
        """
        now, then = (
            capacity_of(self.replica, replace(self.lengths, cached=cached)).per_second
            for cached in (self.lengths.cached, max(0.0, share) * self.lengths.prompt)
        )
        carried = 0.0 if self.wish.capacity is None else self.wish.use * self.wish.capacity.per_second * then / now
        return max(1, math.ceil(self.wish.rate / carried * (1 - TOLERANCE))) if carried > 0 else self.wish.replicas


def reuse_of(load: LoadSummary, wish: Wish | None, replica: ReplicaModel | None) -> Reuse | None:
    """Return the reuse of a load; None if lengths or speed are not known, or if something else sets the replicas.

    A cache that gives up what was used least recently keeps a prompt until as many other tokens were written or used
    as it holds besides what runs. At the rate of all tokens of all requests, that is the least time.
    """
    traffic = load.traffic
    lengths = None if traffic is None else traffic.lengths
    if traffic is None or lengths is None or wish is None or replica is None or wish.capacity is None:
        return None
    rate = traffic.arrivals.per_second
    if wish.need is not Need.ARRIVALS or rate <= 0:
        return None
    flow = rate * (lengths.prompt + lengths.output)
    kept_seconds = max(0.0, load.held_tokens - traffic.used_tokens) / flow
    return Reuse(lengths, flow, kept_seconds, rate / traffic.pods, wish, replica)
