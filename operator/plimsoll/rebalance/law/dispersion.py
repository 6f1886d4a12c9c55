"""How unevenly requests are spread over replicas: the index of dispersion of what their KV caches hold.

A replica must have room for more than the mean of the replicas holds. If a router sends each request to the replica
with the fewest, they hold about the same. If it sends them at random, their numbers vary as a Poisson distribution
does, or more if they come in bursts, and lengths that differ add to it. The index is the variance over the mean, both
counted in requests of the mean size: 1 for a Poisson distribution of requests that are all alike (Cox and Lewis, "The
Statistical Analysis of Series of Events", 1966).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

USUAL_DISPERSION = 0.5
"""What a router leaves that knows the load of the replicas. In simulations of such a router with KV caches that limit,
it was 0.23 to 0.63, and 2.6 to 2.9 with one that sends at random and bursts."""

MOST_DISPERSION = 10.0
"""With more, one replica is another kind than the others, or a router sends it more than its share."""

LEAST_REQUESTS = 5.0
"""With fewer requests at a replica as a mean, their number says little."""

LEARNED_SHARE = 0.02
"""The part of a difference that half a minute corrects for each replica beyond the first: with five replicas 80 % in
ten minutes. Differences of neighbouring scrapes are much alike, because requests stay for longer."""

LEARNED_SECONDS = 30.0


def dispersion_of(held: Sequence[float], request: float) -> float | None:
    """Return the index of dispersion of what replicas hold; None if nothing can be said.

    Args:
        held: the KV tokens of each replica.
        request: the mean KV tokens of a running request; above 0.
    """
    count, mean = len(held), sum(held) / max(1, len(held))
    if count < 2 or mean < LEAST_REQUESTS * request:  # noqa: PLR2004 - one replica differs from nothing
        return None
    return sum((tokens - mean) ** 2 for tokens in held) / (count - 1) / mean / request


def learned(known: float, seen: float, replicas: int, seconds: float) -> float:
    """Return the index after one was seen of so many replicas, so many seconds after the one before."""
    kept = math.pow(1 - LEARNED_SHARE, (replicas - 1) * seconds / LEARNED_SECONDS)
    return min(MOST_DISPERSION, seen + kept * (known - seen))
