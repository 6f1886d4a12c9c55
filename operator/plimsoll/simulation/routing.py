"""How a request finds its replica."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.simulation.chance import Chance
from plimsoll.simulation.replica import Replica
from plimsoll.simulation.values import Routing

_CHOICES = 2


def choose(ready: Sequence[Replica], routing: Routing, rng: Chance) -> Replica:
    """Return the replica that gets the next request. Among equals, chance decides.

    Raises:
        IndexError: no replica is ready.
    """
    match routing:
        case Routing.LEAST_LOADED:
            return _least_loaded(ready, rng)
        case Routing.TWO_CHOICES:
            return _least_loaded(rng.sample(ready, min(_CHOICES, len(ready))), rng)
        case Routing.RANDOM:
            return rng.choice(ready)


def _least_loaded(among: Sequence[Replica], rng: Chance) -> Replica:
    loads = [replica.engine.load for replica in among]
    least = min(loads, default=0)
    return rng.choice([replica for replica, load in zip(among, loads, strict=True) if load == least])
