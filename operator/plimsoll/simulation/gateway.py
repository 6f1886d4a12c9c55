"""The gateway: it sends each request to a ready replica, keeps those that find none, and its clients lose patience."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.draws import Chance
from plimsoll.simulation.fleet import Replica, lasts
from plimsoll.simulation.routing import Router
from plimsoll.simulation.values import Arrival, Fate, FaultKind, InjectedFault, Routing, SimulatedRequest


@dataclass(slots=True)
class Gateway:
    """Requests on their way to replicas. ``patience_seconds`` is from the arrival to the engine's first token.

    A client that gives up sends its request again, at most ``tries`` times in all; each is a request of its own.
    """

    agenda: Agenda
    ready: Callable[[], Sequence[Replica]]
    routing: Routing
    patience_seconds: float
    rng: Chance
    faults: Sequence[InjectedFault] = ()
    tries: int = 1
    requests: list[SimulatedRequest] = field(default_factory=list)
    _held: dict[SimulatedRequest, None] = field(default_factory=dict, init=False)
    _places: dict[SimulatedRequest, Replica] = field(default_factory=dict, init=False)
    _router: Router = field(init=False)

    def __post_init__(self) -> None:
        """Route as asked."""
        self._router = Router(self.routing, self.rng)

    @property
    def held(self) -> int:
        """Requests that wait because no replica is ready."""
        return len(self._held)

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """Take all arrivals, each at its time."""
        for arrival in arrivals:
            self.agenda.at(arrival.at, partial(self._arrive, arrival))

    def send_held(self) -> None:
        """Send the requests that waited for a ready replica."""
        held = tuple(self._held)
        self._held.clear()
        for request in held:
            self._send(request)

    def _arrive(self, arrival: Arrival, tries: int = 1) -> None:
        request = SimulatedRequest(arrival)
        self.requests.append(request)
        self._send(request)
        self.agenda.at(arrival.at + self.patience_seconds, partial(self._lose_patience, request, tries))

    def _send(self, request: SimulatedRequest) -> None:
        ready = self.ready()
        if ready:
            replica = ready[0] if self._sticks() else self._router.choose(ready, request.arrival)
            self._places[request] = replica
            replica.receive(request)
        else:
            self._held[request] = None

    def _sticks(self) -> bool:
        """Say whether a request goes to the oldest replica, whatever the router would choose."""
        sticky = (each for each in self.faults if each.kind is FaultKind.STICKY and lasts(each, self.agenda.now))
        return any(self.rng.uniform(0, 1) < each.amount for each in sticky)

    def _lose_patience(self, request: SimulatedRequest, tries: int) -> None:
        replica = self._places.pop(request, None)
        if request.fate is not None or request.first_token_at is not None:
            return
        request.fate = Fate.GAVE_UP
        if replica is None:
            del self._held[request]
        else:
            replica.forget(request)
        if tries < self.tries:
            self._arrive(replace(request.arrival, at=self.agenda.now), tries + 1)
