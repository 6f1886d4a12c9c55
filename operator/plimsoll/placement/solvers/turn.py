"""The turn of one demand: it takes GPUs from a ledger, and records the result and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option, Outcome, Placed, Rejection, Split
from plimsoll.placement.advice.remedies import only_waits
from plimsoll.placement.demands.demand import Demand, Move
from plimsoll.placement.demands.pools import pool_name
from plimsoll.placement.demands.rehoming import Departure, is_spent
from plimsoll.placement.ledger import Ledger, charged
from plimsoll.placement.places.place import booked, pick, taken
from plimsoll.placement.solvers.protocol import Award

Filter = Callable[[Option], bool]


def _anything(_: Option) -> bool:
    return True


@dataclass(slots=True)
class Turn:
    """Takes from a ledger for one demand; see :meth:`take`.

    ``wants`` limits the choices for missing replicas. ``share`` are the places that a solver has decided for them, each
    with a number of replicas; they are taken first, as far as they have room.
    """

    demand: Demand
    fleet: Fleet
    ledger: Ledger
    wants: Filter = _anything
    share: Sequence[tuple[tuple[str, Split], int]] = ()
    replicas: dict[str, int] = field(init=False)
    moved: list[tuple[Move, Placed]] = field(default_factory=list)
    moves_spent: bool = False
    granted: list[Placed] = field(default_factory=list)
    searched: bool = False
    rejections: tuple[Rejection, ...] = ()
    stranded_by: tuple[Rejection, ...] = ()
    refused_at: Ledger | None = None

    def __post_init__(self) -> None:
        self.replicas = {pool.name: pool.replicas for pool in self.demand.kept}

    def take(self) -> Award:
        """Move replicas first. Then replace outdated pools, or else fill missing replicas."""
        replaced = False
        if self.demand.asks:
            self._move()
            replaced = bool(self.demand.outdated) and self._replace()
            if not self.demand.outdated or (not replaced and self._takes_less()):
                self._fill()
        return Award(
            demand=self.demand,
            left=self.ledger,
            moved=tuple(self.moved),
            moves_spent=self.moves_spent,
            granted=tuple(self.granted),
            replaced=replaced,
            searched=self.searched,
            rejections=self.rejections,
            stranded_by=self.stranded_by,
            refused_at=self.refused_at,
        )

    def _move(self) -> None:
        """Move replicas that the scheduler cannot bind, if there is another place.

        Replicas do not return to a place within an hour after they left it, and a deployment may leave only a few
        places in that time. So replicas never move back and forth between two pools.
        """
        for move in self.demand.moves:
            departures = self._departures()
            if is_spent((*self.demand.tenant.left, *departures), move.place):
                self.moves_spent = True
                continue
            outcome, ledger = self._elsewhere(move)
            if not isinstance(outcome, Placed):
                others = tuple(each for each in outcome.rejections if (each.gpu_type, each.split) != move.place)
                self.stranded_by = self.stranded_by or others
                continue  # the replicas wait where they are
            self._note(outcome)
            self.ledger = ledger
            self._book(outcome)
            self.moved.append((move, outcome))
            self.replicas[move.pool] -= outcome.replicas
        emptied = {move.pool for move in self.demand.moves if self.replicas[move.pool] == 0}
        self.replicas = {name: count for name, count in self.replicas.items() if name not in emptied}

    def _elsewhere(self, move: Move) -> tuple[Outcome, Ledger]:
        """Search another place for replicas that the scheduler cannot bind.

        The quotas count their pods, which end before their successors are made. So each replica that leaves gives back
        what its pod takes of the quotas. Return the outcome, and the ledger with that.
        """
        closed, namespace, leaving = (*self._closed(), move.place), self.demand.request.key.namespace, move.replicas
        while True:
            ledger = charged(self.ledger, namespace, move.use, -leaving)
            outcome = self._search(leaving, closed, ledger=ledger)
            if not isinstance(outcome, Placed) or outcome.replicas == leaving:
                return outcome, ledger
            leaving = outcome.replicas

    def _replace(self) -> bool:
        """Place all missing replicas on one GPU type and split, or none: the old pools serve until all are placed."""
        ledger, wanted = self.ledger, self._missing()
        placed = self._place(max(0, wanted))
        if placed is not None and placed.replicas >= wanted:
            return True
        self.ledger = ledger
        if placed is not None:  # there is room for some replicas only: the change waits for GPUs, and is not refused
            self.granted.pop()
            self._forget(placed)
            shortage = taken(self.demand.request, placed.choice, self.fleet, ledger)
            self.rejections = (shortage, *self.rejections)
        return False

    def _takes_less(self) -> bool:
        """Whether to place only some of the replicas: no outdated pool serves, and a candidate fits and only waits."""
        return only_waits(self.rejections) and not self.demand.serves

    def _fill(self) -> None:
        """Place the missing replicas, on several GPU types if necessary."""
        while (missing := self._missing()) > 0:
            decided = bool(self.share)
            if self._place(missing) is None and not decided:
                break
        if not self.replicas and self.demand.request.replicas == 0:
            self._place(missing)  # none

    def _missing(self) -> int:
        return self.demand.request.replicas - sum(self.replicas.values())

    def _place(self, replicas: int) -> Placed | None:
        """Search for a place, and record the rejections, whether or not it finds one."""
        wants = self.wants
        if self.share:
            (place, most), *self.share = self.share
            replicas, wants = min(replicas, most), lambda option: option.target.place == place
        outcome = self._search(replicas, self._closed(), wants)
        self._note(outcome)
        if not isinstance(outcome, Placed):
            self.refused_at = self.ledger
            return None
        self._book(outcome)
        self.granted.append(outcome)
        return outcome

    def _search(
        self,
        replicas: int,
        closed: tuple[tuple[str, Split], ...],
        wants: Filter = _anything,
        ledger: Ledger | None = None,
    ) -> Outcome:
        request = self.demand.request.with_replicas(replicas)
        return pick(request, self.demand.options, self.fleet, ledger or self.ledger, closed, wants)

    def _note(self, outcome: Outcome) -> None:
        self.searched, self.rejections = True, outcome.rejections

    def _departures(self) -> tuple[Departure, ...]:
        return tuple(Departure(*move.place, move.obstacle) for move, _ in self.moved)

    def _closed(self) -> tuple[tuple[str, Split], ...]:
        left = (each.place for each in self._departures()) if self.demand.remembers_moves else ()
        return (*self.demand.excluded, *left)

    def _book(self, placed: Placed) -> None:
        self.ledger = booked(self.demand.request, placed.choice, placed.replicas, self.fleet, self.ledger)
        self.replicas[_name(placed)] = self.replicas.get(_name(placed), 0) + placed.replicas

    def _forget(self, placed: Placed) -> None:
        """Undo the counts of :meth:`_book` for a place. The ledger is not changed."""
        left = self.replicas[_name(placed)] - placed.replicas
        had_pool = any(pool.name == _name(placed) for pool in self.demand.kept)
        if left or had_pool:
            self.replicas[_name(placed)] = left
        else:
            del self.replicas[_name(placed)]


def _name(placed: Placed) -> str:
    return pool_name(placed.choice.gpu.name, placed.choice.split)
