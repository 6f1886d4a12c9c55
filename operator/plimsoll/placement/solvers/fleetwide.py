"""A solver that decides for all demands of a pass together, near the proven optimum.

1. Demands whose pods found no node take their turn first, the oldest first: their replicas waited longest. Those of
   a higher priority that wait for replicas come before them, through all of these steps.
2. All other demands become one programme (:mod:`problem`, :mod:`formulation`); :mod:`deciding` has the order of goals.
   The programme also chooses the sizes of demands that have several.
3. The shares get nodes, the largest replicas first (:mod:`packing`).
4. Every demand takes its turn with its own share and what nobody else has. So a share that could not be packed, and a
   demand that the programme left out, still get what is free.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from plimsoll.domain.cluster.host import HostRoom
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.ledger import Ledger, Taken, taken_between
from plimsoll.placement.options.verdicts import price_of
from plimsoll.placement.solvers.deciding import Decided, Overload, decide
from plimsoll.placement.solvers.formulation import Milp
from plimsoll.placement.solvers.packing import Part, pack
from plimsoll.placement.solvers.problem import Place, Posed, best_alone, pose, wanted
from plimsoll.placement.solvers.protocol import Award, Stock
from plimsoll.placement.solvers.scarcity import Others, with_scarcity
from plimsoll.placement.solvers.search import in_turn, search
from plimsoll.placement.solvers.sizes import chosen_alone
from plimsoll.placement.solvers.turn import Turn

MOST_REMEMBERED = 8
"""The number of problems whose solution is kept: an unchanged fleet poses the same problem in every pass."""

MOST_CHOICES_OF_SIZES = 2_000
"""The most choices of kinds with several sizes in one problem: those of some 130 different deployments. With 120 on 25
full nodes, 24 programmes took 3.5 CPU seconds of 6.6 for the whole plan."""


@dataclass(slots=True)
class Fleetwide:
    """The solver. It remembers its last pass and its last solutions, and never changes a plan by that.

    ``library`` returns what solves the programmes of one decision; None if there is no library. ``overload`` says who
    waits if not all replicas have a place.
    """

    library: Callable[[], Milp] | None = None
    overload: Overload = Overload.SENIORITY
    _last: tuple[tuple[tuple[Demand, ...], Stock], list[Award]] | None = field(default=None, repr=False)
    _known: OrderedDict[tuple[object, ...], Decided] = field(default_factory=OrderedDict, repr=False)

    def __call__(self, demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
        """Answer the demands in the given order. The same demands on the same stock get the same awards again."""
        if len(demands) == 1:  # a hypothesis about one deployment must not displace the pass
            return _Pass(demands, stock, self).awards()
        asked = tuple(demands), stock
        if self._last is not None and self._last[0] == asked:
            return iter(self._last[1])
        awards = list(_Pass(demands, stock, self).awards())
        self._last = None if any(award.failure for award in awards) else (asked, awards)
        return iter(awards)

    def given_nothing(self) -> dict[int, Award]:
        """Return the last pass's awards to demands that asked for nothing, by the demand's ``id``."""
        return {} if self._last is None else {id(each.demand): each for each in self._last[1] if not each.demand.asks}

    def decide(self, posed: Posed) -> Decided:
        """Return the decision on a problem: the remembered one, or a new one."""
        key = (posed.problem, posed.members, posed.levels)
        if key in self._known:
            self._known.move_to_end(key)
            known = self._known[key]
            return replace(known, posed=replace(known.posed, nodes=posed.nodes))
        decided = in_turn(posed) or self._by_programme(posed) or search(posed, self.overload)
        self._known[key] = decided
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return decided

    def _by_programme(self, posed: Posed) -> Decided | None:
        return None if self.library is None else decide(posed, self.library(), self.overload)


class _Pass:
    def __init__(self, demands: Sequence[Demand], stock: Stock, solver: Fleetwide) -> None:
        self.all, self.stock, self.solver = demands, stock, solver
        self.demands = {index: demand for index, demand in enumerate(demands) if demand.asks}
        """Those that ask for something, by their places among all."""
        self.found: dict[int, tuple[Award, Taken | None]] = {}
        self.appraisal: Appraisal | None = None
        self.least: float | None = None
        """The least that all could cost in any size, in US dollars an hour, if sizes were chosen alone."""
        self.compared: tuple[Ledger, Ledger, bool] | None = None
        """The last two ledgers that were compared, and whether they are equal."""

    def awards(self) -> Iterator[Award]:
        """Yield the awards in the order of the demands. Each ``left`` follows from the awards before it."""
        ledger = self.stock.ledger
        for group in self._groups():
            ledger = self._moves_first(group, ledger)
            parts, ledger = self._shared_out(group, ledger)
            for index in group:
                if index not in self.found:
                    ledger = self._turn(index, self.demands[index], parts.get(index, ()), ledger)
        others = Others([award for award, _ in self.found.values()])
        left, before = self.stock.ledger, self.solver.given_nothing()
        for index, demand in enumerate(self.all):
            if index not in self.found:
                yield self._nothing(demand, left, before)
                continue
            award, taken = self.found[index]
            left = left if taken is None else taken.taken_from(left)
            yield replace(with_scarcity(award, self.stock, others), left=left, appraisal=self.appraisal)

    def _nothing(self, demand: Demand, left: Ledger, before: Mapping[int, Award]) -> Award:
        """Return the award to a demand that asks for nothing: the last pass's one if it left the same."""
        known = before.get(id(demand))
        return known if known is not None and self._are_equal(known.left, left) else Award(demand, left=left)

    def _are_equal(self, before: Ledger, now: Ledger) -> bool:
        """Compare two ledgers; most awards of a pass leave the same one."""
        if self.compared is None or self.compared[0] is not before or self.compared[1] is not now:
            self.compared = before, now, before == now
        return self.compared[2]

    def _groups(self) -> Iterator[list[int]]:
        """Divide the demands: a group begins with the first priority of which pods found no node, after others wait."""
        group, waits = list[int](), False
        for _, alike in groupby(self.demands, lambda index: self.demands[index].tenant.priority.value):
            indexes = list(alike)
            if waits and any(self.demands[index].moves for index in indexes):
                yield group
                group = []
            group += indexes
            waits = waits or any(wanted(self.demands[index]) > 0 for index in indexes)
        yield group

    def _moves_first(self, group: Sequence[int], ledger: Ledger) -> Ledger:
        for index in group:
            if self.demands[index].moves:
                ledger = self._turn(index, self.demands[index], (), ledger)
        return ledger

    def _shared_out(self, group: Sequence[int], ledger: Ledger) -> tuple[Mapping[int, list[Part]], Ledger]:
        """Solve for all demands that miss replicas. Return their parts, and the ledger without the parts."""
        joining = {index: self.demands[index] for index in group if self._joins(index)}
        if len(joining) == 1 and (left := self._alone(*next(iter(joining.items())), ledger)):
            return {}, left
        posed = self._posed(joining, ledger)
        if not posed.members:
            return {}, ledger
        decided = self.solver.decide(posed)
        self._appraise(decided.appraisal if self.least is None else decided.appraisal.in_any_size(self.least))
        packed, left = pack(decided, ledger)
        parts: dict[int, list[Part]] = defaultdict(list)
        for part in packed:
            parts[part.demand].append(part)
        return parts, left

    def _alone(self, index: int, demand: Demand, ledger: Ledger) -> Ledger | None:
        """Give a demand the choice that no plan improves, and return what is left; None if that takes a programme.

        Most passes have one new deployment at most, and every hypothesis of the live loop is about one.
        """
        best, replicas = best_alone(demand, self.stock.fleet, ledger), wanted(demand)
        if best is None:
            return None
        bill = replicas * price_of(best)
        self._appraise(Appraisal("in turn", bill, bill, 1))
        return self._take(index, demand, ledger, [(best.target.place, replicas)])

    def _appraise(self, found: Appraisal) -> None:
        self.appraisal = found if self.appraisal is None else self.appraisal.with_(found)

    def _posed(self, joining: Mapping[int, Demand], ledger: Ledger) -> Posed:
        """Return the problem of these demands. If their sizes make it too large, each has its best size alone."""
        posed, self.least = pose(joining, self.stock.fleet, ledger), None
        if posed.problem.choices_of_sizes <= MOST_CHOICES_OF_SIZES:
            return posed
        self.least = posed.problem.least_bill
        sized = {index: demand for index, demand in joining.items() if demand.sizes}
        self.demands |= chosen_alone(sized, self.stock, ledger)
        return pose({index: self.demands[index] for index in joining}, self.stock.fleet, ledger)

    def _joins(self, index: int) -> bool:
        return index not in self.found and wanted(self.demands[index]) > 0

    def _turn(self, index: int, demand: Demand, parts: Sequence[Part], ledger: Ledger) -> Ledger:
        """Take for one demand from its own parts and from the ledger, and return what is left of it."""
        demand = demand.ways[parts[0].size] if parts else demand
        share = [(part.place, part.packed) for part in parts if part.packed]
        return self._take(index, demand, _with_parts(parts, ledger), share)

    def _take(self, index: int, demand: Demand, own: Ledger, share: Sequence[tuple[Place, int]]) -> Ledger:
        try:
            award = Turn(demand, self.stock.fleet, own, share=share).take()
        except Exception as error:  # noqa: BLE001 - an error in one demand must not stop the plan of the others
            award = Award(demand, own, failure=error)
        self.found[index] = award, taken_between(own, award.left)
        return award.left


def _with_parts(parts: Sequence[Part], ledger: Ledger) -> Ledger:
    if not parts:
        return ledger
    gpus: dict[str, int] = defaultdict(int)
    hosts: dict[str, HostRoom] = {}
    for part in parts:
        for node, replicas in part.nodes:
            gpus[node.account] += replicas * part.gpus
            if node.name in ledger.hosts:
                room = hosts.get(node.name, HostRoom(0, 0, 0, ()))
                hosts[node.name] = room.without(part.need, -replicas)
    return Taken(gpus, hosts, {}).given_back_to(ledger)
