"""The router: it sends each request to one of the replicas that are ready."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.simulation.draws import Chance
from plimsoll.simulation.fleet import Replica
from plimsoll.simulation.prefix_cache import PrefixCache
from plimsoll.simulation.values import Arrival, Routing

_CHOICES = 2


class Router:
    """A way to choose a replica. Among equals, chance decides.

    The router by prefixes remembers what it sent where, as far as it believes that the replica still keeps it: like the
    endpoint pickers of the Gateway API Inference Extension, it asks no engine (``prefix-cache-scorer``, "approximate").
    """

    __slots__ = ("_rng", "_routing", "_sent", "_turn")

    def __init__(self, routing: Routing, rng: Chance) -> None:
        self._routing = routing
        self._rng = rng
        self._turn = -1
        self._sent: dict[Replica, PrefixCache] = {}

    def choose(self, ready: Sequence[Replica], arrival: Arrival) -> Replica:
        """Return the replica that gets a request.

        Raises:
            IndexError: no replica is ready.
        """
        match self._routing:
            case Routing.ROUND_ROBIN:
                self._turn += 1
                return ready[self._turn % max(1, len(ready))]
            case Routing.LEAST_LOADED:
                return self._least_loaded(ready)
            case Routing.TWO_CHOICES:
                return self._least_loaded(self._rng.sample(ready, min(_CHOICES, len(ready))))
            case Routing.RANDOM:
                return self._rng.choice(ready)
            case Routing.PREFIX:
                return self._by_prefix(ready, arrival)

    def _by_prefix(self, ready: Sequence[Replica], arrival: Arrival) -> Replica:
        """Return the least loaded of the replicas that know most of the prompt."""
        self._sent = {each: self._sent.get(each) or PrefixCache(each.engine.kept_tokens) for each in ready}
        prefix = arrival.prefix
        found = [sent.found(prefix) for sent in self._sent.values()]
        most = max(found, default=0)
        chosen = self._least_loaded([each for each, tokens in zip(ready, found, strict=True) if tokens == most])
        self._sent[chosen].keep(prefix)
        return chosen

    def _least_loaded(self, among: Sequence[Replica]) -> Replica:
        loads = [replica.engine.load for replica in among]
        least = min(loads, default=0)
        return self._rng.choice([replica for replica, load in zip(among, loads, strict=True) if load == least])
