"""The solver without a library: greedy from several orders, then ruin and recreate. It proves only a weak bound.

If not all replicas have a place, it follows the order of goals of :mod:`deciding`, and one more start and as many more
rounds look for the room that the fewest others need: each limit of the problem gets a worth, and a replica takes the
choice whose limits are worth the least (:mod:`worths`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from plimsoll.placement.costs import Appraisal
from plimsoll.placement.solvers.deciding import MOST_ROUNDS, Decided, Overload
from plimsoll.placement.solvers.formulation import MIXING, Share
from plimsoll.placement.solvers.limits import limits_of
from plimsoll.placement.solvers.problem import Kind, Posed
from plimsoll.placement.solvers.worths import Costs, Worths, uses_of

ROUNDS = 300
"""How often some deployments give back their GPUs and choose again."""

RUINED = 12
"""The number of deployments that choose again in one round."""

REPAIRS = 30
"""The most plans in which deployments that miss replicas go to the front."""

Parts = tuple[tuple[int, int, int], ...]
"""Replicas of one deployment: index of the choice, index of the group, number."""

Missing = tuple[tuple[float, ...], tuple[float, ...]]
"""Missing replicas by deployment, the oldest first, up to the last one that counts by itself; then those of all others
by level of priority, the highest first."""

Score = tuple[Missing, float, float]
"""Missing replicas; doubts; US dollars an hour. Replicas count as
:meth:`~plimsoll.placement.solvers.problem.Kind.weighed` says."""


@dataclass(frozen=True, slots=True)
class _Unit:
    demand: int
    number: int
    kind: Kind
    level: int


Take = Callable[[_Unit, list[float]], Parts]
"""Takes room for a deployment from what is left."""


def search(posed: Posed, overload: Overload = Overload.SENIORITY) -> Decided:
    """Return good shares for a problem. The same problem always gives the same shares."""
    return _Search(posed, MOST_ROUNDS if overload is Overload.SENIORITY else 0).decided()


def in_turn(posed: Posed) -> Decided | None:
    """Return the shares by which one deployment after the other takes its best choice, if no plan is better.

    That is so if everybody gets the choice that costs the least, without more doubts than it must have.
    """
    return _Search(posed, MOST_ROUNDS).in_turn()


class _Search:
    """``rounds`` is how many deployments that miss replicas count by themselves."""

    def __init__(self, posed: Posed, rounds: int) -> None:
        self.posed, self.rounds = posed, rounds
        problem = posed.problem
        limits = limits_of(problem)
        self.room, self.uses = [limit.at_most for limit in limits], uses_of(problem, limits)
        self.levels = posed.levels or (tuple(demand for members in posed.members for demand in members),)
        level = {demand: number for number, demands in enumerate(self.levels) for demand in demands}
        self.units = sorted(
            (
                _Unit(demand, number, problem.kinds[number], level[demand])
                for number, members in enumerate(posed.members)
                for demand in members
            ),
            key=lambda unit: unit.demand,
        )

    @cached_property
    def costs(self) -> Costs:
        """The costs of all choices, by the worths of what they use."""
        return Worths(self.posed.problem, self.room, self.uses).costs()

    def in_turn(self) -> Decided | None:
        found = self._greedy(range(len(self.units)))
        missing, doubts, bill = self._score(found)
        if _are_missing(missing) or doubts > self._fewest() or bill > self._bound(found):
            return None
        return Decided(self.posed, self._shares(found), Appraisal("in turn", bill, bill, len(self.units)))

    def decided(self) -> Decided:
        starts = [self._greedy(sorted(range(len(self.units)), key=order)) for order in self._orders()]
        best = min(starts, key=self._score)
        is_crowded = _are_missing(self._score(best)[0])
        best = self._cheapened(self._relieved(self._crowded(best)) if is_crowded else best)
        bill = self._score(best)[2]
        price = self._seniority_price(best) if is_crowded and self.rounds else 0
        appraisal = Appraisal("search", bill, self._bound(best), len(self.units), price)
        return Decided(self.posed, self._shares(best), appraisal)

    def _cheapened(self, best: list[Parts]) -> list[Parts]:
        """Return the best plan in which some deployments choose again, round after round."""
        for ruined in windows(len(self.units)):
            again = self._recreated(best, ruined, self._taken)
            if self._score(again) < self._score(best):
                best = again
        return best

    def _relieved(self, best: list[Parts]) -> list[Parts]:
        """Return a plan in which fewer wait: some of them choose first, then some of the others choose again.

        All take the room that is worth the least. A plan that is as good as the last one replaces it, so that the
        rounds do not try the same exchanges again.
        """

        def take(unit: _Unit, left: list[float]) -> Parts:
            return self._least_worth(unit, self.costs, left)

        for number, ruined in enumerate(windows(len(self.units))):
            first = of_round(number, [unit for unit, each in enumerate(self._missing(best)) if each])
            again = self._recreated(best, list(dict.fromkeys([*first, *ruined])), take)
            if self._score(again) <= self._score(best):
                best = again
        return best

    def _seniority_price(self, best: list[Parts]) -> int:
        """Return how many replicas fewer would wait in the best plan that is found without regard to age."""
        ageless = _Search(self.posed, 0)
        fewest = sum(self._missing(ageless._crowded(best)))
        return max(0, round(sum(self._missing(best)) - fewest))

    def _orders(self) -> Iterator[Callable[[int], tuple[float, int]]]:
        yield lambda unit: (0, unit)
        yield lambda unit: (-_regret(self.units[unit].kind), unit)
        yield lambda unit: (-max(choice.gpus for choice in self.units[unit].kind.choices), unit)
        yield lambda unit: (len(self.units[unit].kind.choices), unit)

    def _greedy(self, order: Sequence[int]) -> list[Parts]:
        left = list(self.room)
        found: list[Parts] = [() for _ in self.units]
        for unit in order:
            found[unit] = self._taken(self.units[unit], left)
        return found

    def _crowded(self, best: list[Parts]) -> list[Parts]:
        """Return the best of several plans in which everybody takes the room that is worth the least to the others.

        The deployments that count by themselves come first. Behind them, those of a higher priority come first, and
        among equals the replicas whose room is worth the least. Who misses replicas and counts by itself goes to the
        front of the next plan ("squeaky wheel", Joslin and Clements, Journal of Artificial Intelligence Research 10,
        1999).
        """
        costs = self.costs
        behind = sorted(range(len(self.units)), key=lambda unit: (*self._frugality(self.units[unit], costs), unit))
        urgent: dict[int, None] = {}
        for _ in range(REPAIRS):
            alone = self._alone(self._missing(best))
            order = [*urgent, *range(alone), *behind]
            found = self._least_worth_each(list(dict.fromkeys(order)), costs)
            best = min(best, found, key=self._score)
            lacking = self._lacking(found)
            if urgent.keys() >= lacking.keys():
                break
            urgent = lacking | urgent
        return best

    def _lacking(self, found: Sequence[Parts]) -> dict[int, None]:
        missing = self._missing(found)
        return {unit: None for unit, each in enumerate(missing[: self._alone(missing)]) if each}

    def _missing(self, found: Sequence[Parts]) -> list[float]:
        return [self._score_of(unit, parts)[0] for unit, parts in zip(self.units, found, strict=True)]

    def _least_worth_each(self, order: Sequence[int], costs: Costs) -> list[Parts]:
        left = list(self.room)
        found: list[Parts] = [() for _ in self.units]
        for unit in order:
            found[unit] = self._least_worth(self.units[unit], costs, left)
        return found

    @staticmethod
    def _frugality(unit: _Unit, costs: Costs) -> tuple[int, float]:
        return unit.level, min(cost for _, cost in costs[unit.number])

    def _least_worth(self, unit: _Unit, costs: Costs, left: list[float]) -> Parts:
        """Take the choices whose room is worth the least, of the size that misses the least."""
        ways = [self._cheapest(unit, size, costs, left) for size in range(len(unit.kind.sizes))]
        best = min((way for way in ways if way), key=lambda parts: self._score_of(unit, parts)[0], default=())
        self._use(unit.number, best, left)
        return best

    def _cheapest(self, unit: _Unit, size: int, costs: Costs, left: Sequence[float]) -> Parts:
        room, missing = list(left), unit.kind.sizes[size]
        parts: list[tuple[int, int, int]] = []
        for (index, group), _ in costs[unit.number]:
            if unit.kind.choices[index].size != size or (unit.kind.whole and parts):
                continue
            fits = min(int(room[row] // amount) for row, amount in self.uses[unit.number, index, group])
            more = min(missing, fits)
            if more <= 0 or (unit.kind.whole and more < missing):
                continue
            parts.append((index, group, more))
            self._use(unit.number, ((index, group, more),), room)
            missing -= more
        return tuple(parts)

    def _recreated(self, parts: Sequence[Parts], ruined: Sequence[int], take: Take) -> list[Parts]:
        left, found = list(self.room), list(parts)
        for unit, each in enumerate(parts):
            if unit not in ruined:
                self._use(self.units[unit].number, each, left)
        for unit in ruined:
            found[unit] = take(self.units[unit], left)
        return found

    def _taken(self, unit: _Unit, left: list[float]) -> Parts:
        """Take one choice for all replicas of a size, or a mix if it places more or saves more than its charge."""
        ways = [way for size in range(len(unit.kind.sizes)) for way in self._ways(unit, size, left) if way]
        best = min(ways, key=lambda parts: self._score_of(unit, parts), default=())
        self._use(unit.number, best, left)
        return best

    def _ways(self, unit: _Unit, size: int, left: Sequence[float]) -> tuple[Parts, Parts]:
        choices = unit.kind.of_size(size)
        mixed = self._mixed(unit, size, choices, left)
        if _placed(mixed) < unit.kind.sizes[size]:  # smaller replicas first: more of them have room
            frugal = sorted(choices, key=lambda index: unit.kind.choices[index].gpus)
            mixed = min(mixed, self._mixed(unit, size, frugal, left), key=lambda parts: self._score_of(unit, parts))
        return self._together(unit, size, choices, left), mixed

    def _together(self, unit: _Unit, size: int, choices: Sequence[int], left: Sequence[float]) -> Parts:
        """Return the first choice with room for all replicas; nothing if there is none."""
        wanted = unit.kind.sizes[size]
        for index in choices:
            parts = self._on(unit, index, wanted, left)
            if _placed(parts) == wanted:
                return parts
        return ()

    def _mixed(self, unit: _Unit, size: int, choices: Sequence[int], left: Sequence[float]) -> Parts:
        """Return as many replicas as have room, the preferred choices first."""
        mixed: list[tuple[int, int, int]] = []
        room = list(left)
        missing = 0 if unit.kind.whole else unit.kind.sizes[size]
        for index in choices:
            parts = self._on(unit, index, missing, room)
            self._use(unit.number, parts, room)
            mixed.extend(parts)
            missing -= _placed(parts)
        return tuple(mixed)

    def _on(self, unit: _Unit, index: int, replicas: int, left: Sequence[float]) -> Parts:
        """Return the parts of one choice that have room, group after group."""
        parts: list[tuple[int, int, int]] = []
        spent: dict[int, float] = {}
        for group in unit.kind.choices[index].groups:
            uses = self.uses[unit.number, index, group]
            room = min(int((left[row] - spent.get(row, 0)) // amount) for row, amount in uses)
            more = max(0, min(room, replicas))
            if more:
                parts.append((index, group, more))
                replicas -= more
                for row, amount in uses:
                    spent[row] = spent.get(row, 0) + more * amount
        return tuple(parts)

    def _use(self, number: int, parts: Parts, left: list[float]) -> None:
        for index, group, replicas in parts:
            for row, amount in self.uses[number, index, group]:
                left[row] -= replicas * amount

    def _score(self, found: Sequence[Parts]) -> Score:
        scores = [self._score_of(unit, parts) for unit, parts in zip(self.units, found, strict=True)]
        missing, doubts, bill = zip(*scores, strict=True)
        return self._goals(missing), sum(doubts), sum(bill)

    def _goals(self, missing: Sequence[float]) -> Missing:
        """Return missing replicas as they are compared: see :data:`MOST_ROUNDS`."""
        alone = self._alone(missing)
        others = [0.0] * len(self.levels)
        for unit, each in zip(self.units[alone:], missing[alone:], strict=True):
            others[unit.level] += each
        return tuple(missing[:alone]), tuple(others)

    def _alone(self, missing: Sequence[float]) -> int:
        """Return how many deployments count by themselves: up to the last one behind which a search continues."""
        lacking = [number for number, each in enumerate(missing) if each]
        if len(lacking) < self.rounds:
            return len(missing)
        return lacking[self.rounds - 1] + 1 if self.rounds else 0

    def _score_of(self, unit: _Unit, parts: Parts) -> tuple[float, float, float]:
        kind, size = unit.kind, _size_of(unit, parts)
        chosen = [(kind.choices[index], replicas) for index, _, replicas in parts]
        bill = sum(replicas * choice.price for choice, replicas in chosen)
        if len({choice.place for choice, _ in chosen}) > 1:
            bill += MIXING * kind.sizes[size] * _least_price(kind, size)
        missing = kind.sizes[size] - sum(replicas for _, replicas in chosen)
        doubts = sum(replicas * choice.doubts for choice, replicas in chosen)
        return kind.weighed(size, missing), kind.weighed(size, doubts), bill

    def _bound(self, found: Sequence[Parts]) -> float:
        """Return the bill if everybody had the cheapest choice: no plan for these replicas costs less."""
        return sum(_least_bill(unit, parts) for unit, parts in zip(self.units, found, strict=True))

    def _fewest(self) -> float:
        return sum(unit.kind.replicas * min(choice.doubts for choice in unit.kind.choices) for unit in self.units)

    def _shares(self, found: Sequence[Parts]) -> tuple[Share, ...]:
        """Return the shares by kind. A deployment counts as whole if all its replicas have one choice."""
        tallies = [_Tally() for _ in self.posed.members]
        for unit, parts in zip(self.units, found, strict=True):
            tallies[unit.number].add(unit, parts)
        return tuple(tally.share() for tally in tallies)


@dataclass(slots=True)
class _Tally:
    """The fields of a :class:`Share`, while deployments are counted."""

    whole: Counter[int] = field(default_factory=Counter)
    mixed: Counter[int] = field(default_factory=Counter)
    loose: Counter[int] = field(default_factory=Counter)
    parts: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add(self, unit: _Unit, parts: Parts) -> None:
        choices, size = {index for index, _, _ in parts}, _size_of(unit, parts)
        is_whole = len(choices) == 1 and _placed(parts) == unit.kind.sizes[size]
        if is_whole:
            self.whole.update(choices)
        elif parts:
            self.mixed[size] += 1
        for index, group, replicas in parts:
            self.parts[index, group] += replicas
            if not is_whole:
                self.loose[index] += replicas

    def share(self) -> Share:
        one, many, loose = (tuple(sorted(each.items())) for each in (self.whole, self.mixed, self.loose))
        return Share(one, many, loose, tuple(sorted(self.parts.items())))


def _are_missing(missing: Missing) -> bool:
    return any(map(any, missing))


def _placed(parts: Parts) -> int:
    return sum(replicas for _, _, replicas in parts)


def _size_of(unit: _Unit, parts: Parts) -> int:
    """Return the size that these replicas have. Without any replica, it is the first one."""
    return unit.kind.choices[parts[0][0]].size if parts else 0


def _least_price(kind: Kind, size: int) -> float:
    return min(kind.choices[index].price for index in kind.of_size(size))


def _least_bill(unit: _Unit, parts: Parts) -> float:
    """Return the least that a deployment pays for as many replicas: of any size, if it has them all."""
    kind, size, placed = unit.kind, _size_of(unit, parts), _placed(parts)
    if not parts:
        return 0.0
    if placed < kind.sizes[size]:
        return placed * _least_price(kind, size)
    return min(kind.sizes[choice.size] * choice.price for choice in kind.choices)


def _regret(kind: Kind) -> float:
    """Return what all replicas cost more if the first choice has no room."""
    prices = [choice.price * (kind.sizes[choice.size] / kind.replicas) for choice in kind.choices[:2]]
    return (prices[1] - prices[0]) * kind.replicas if len(prices) > 1 else float("inf")


def of_round(number: int, lacking: Sequence[int]) -> list[int]:
    """Return those of the deployments that miss replicas that choose first in a round: each has its turn."""
    return [lacking[(number * RUINED + each) % len(lacking)] for each in range(min(RUINED, len(lacking)))]


def windows(units: int) -> Iterator[list[int]]:
    """Yield the deployments to ruin, round after round: spread evenly, in steps that visit different neighbours."""
    for number in range(ROUNDS if units > 1 else 0):
        step = 1 + (number * 7919) % (units - 1)
        yield list(dict.fromkeys((number + each * step) % units for each in range(RUINED)))
