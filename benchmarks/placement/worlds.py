"""Worlds: a fleet, and deployments that take a given part of the largest demand which the fleet can hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from benchmarks.placement.bound.instance import Choices, Instance, Supply, by_table, choices_of, supply_of
from benchmarks.placement.bound.optimum import unplaced_at_least
from benchmarks.placement.fleets import fleet_of
from benchmarks.placement.kinds import kinds_of
from benchmarks.placement.prices import PRICE_LISTS
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.demand import Demand, demand_of
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.solvers.protocol import Stock

MEAN_EXTRA_REPLICAS = 1.5
"""A deployment has one replica, and an exponential number of others with this mean."""

FULL = 100
"""Per cent of the largest demand that the fleet can hold."""

MOST_DEPLOYMENTS_PER_NODE = 8
"""More than any fleet of this benchmark can hold."""


@dataclass(frozen=True, slots=True)
class Place:
    """The source of a world, apart from prices, demand and order."""

    fleet: str
    nodes: int
    seed: int = 0
    kinds: int = 40


@dataclass(frozen=True, slots=True)
class World:
    """A fleet with everything that somebody wants to run on it. ``tenants`` are in the order of their arrival."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    memo: Memo

    def demands(self) -> list[Demand]:
        """Return the demands in the order of arrival."""
        return [demand_of(tenant, self.fleet, self.memo) for tenant in self.tenants]

    @property
    def stock(self) -> Stock:
        """Everything that is free."""
        return Stock(self.fleet, Ledger.of(self.fleet))


def world_of(place: Place, percent: int, prices: str, order: str = "mixed") -> World:
    """Return the world in which the demand is ``percent`` of the largest one. More than 100 % leaves some waiting."""
    drawn = _drawn(place)
    wanted = (*drawn, *_beyond(place, drawn, percent)) if percent > FULL else drawn[: _part(drawn, percent)]
    fleet, memo = fleet_with_prices(place, prices)
    ordered = ORDERS[order]([Tenant(each, 1) for each in wanted], fleet, memo)
    return World(fleet, tuple(map(_arrived, range(len(ordered)), ordered)), memo)


def _part(drawn: Sequence[Request], percent: int) -> int:
    return max(1, round(len(drawn) * percent / FULL))


def _beyond(place: Place, drawn: Sequence[Request], percent: int) -> Iterator[Request]:
    """Yield the first deployments of the draw that are not among the accepted ones, until the demand is so large."""
    accepted, replicas = {each.key for each in drawn}, sum(each.replicas for each in drawn)
    most = replicas * percent / FULL
    for each in _deployments(place, MOST_DEPLOYMENTS_PER_NODE * place.nodes):
        if each.key not in accepted and replicas + each.replicas <= most:
            replicas += each.replicas
            yield each


def arrivals(place: Place, number: int) -> tuple[Request, ...]:
    """Return the first deployments of the draw, whether or not the fleet can hold them."""
    return tuple(replace(each, created=f"{index:06d}") for index, each in enumerate(_deployments(place, number)))


@cache
def fleet_with_prices(place: Place, prices: str) -> tuple[Fleet, Memo]:
    """Return the fleet, and a memo that keeps the options of all its worlds."""
    return fleet_of(place.fleet, place.nodes, place.seed, PRICE_LISTS[prices]), Memo()


def largest(place: Place) -> int:
    """Return the number of deployments of the largest demand."""
    return len(_drawn(place))


@cache
def _drawn(place: Place) -> tuple[Request, ...]:
    fleet, memo = fleet_with_prices(place, "market")
    requests = _deployments(place, MOST_DEPLOYMENTS_PER_NODE * place.nodes)
    choices: dict[tuple[object, ...], Choices] = {}
    drawn = [(request, _choices(request, fleet, memo, choices)) for request in requests]
    accepted = list(_fill(drawn, supply_of(Stock(fleet, Ledger.of(fleet)))))
    Random(f"shuffled/{place}").shuffle(accepted)  # noqa: S311 - a reproducible draw
    return tuple(accepted)


def _fill(drawn: Sequence[tuple[Request, Choices]], supply: Supply) -> Iterator[Request]:
    """Yield deployments until the fleet is full. Once a kind has no room, the rest of that kind is left out.

    So the largest demand fills small cards as well as large ones, whichever runs short first.
    """
    counts: Counter[Choices] = Counter()

    def all_fit(number: int) -> bool:
        wanted = counts.copy()
        for request, kind in drawn[:number]:
            wanted[kind] += request.replicas
        return unplaced_at_least(Instance(wanted, supply)) == 0

    while drawn:
        found = _last(all_fit, len(drawn))
        for request, kind in drawn[:found]:
            counts[kind] += request.replicas
            yield request
        full = {kind for _, kind in drawn[found : found + 1]}
        drawn = [(request, kind) for request, kind in drawn[found:] if kind not in full]


def _last(holds: Callable[[int], bool], most: int) -> int:
    """Return the largest number up to ``most`` for which it holds. It holds for 0, and never again once it fails."""
    high = 1
    while high <= most and holds(high):
        high *= 2
    low, high = high // 2, min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _deployments(place: Place, number: int) -> tuple[Request, ...]:
    """Return the first deployments of the draw."""
    fleet, memo = fleet_with_prices(place, "market")
    kinds = kinds_of(fleet, place.kinds, place.seed, memo)
    rng = Random(f"deployments/{place}")  # noqa: S311 - a reproducible draw
    return tuple(_deployment(index, rng.choice(kinds), rng) for index in range(number))


def _deployment(index: int, kind: Request, rng: Random) -> Request:
    replicas = 1 + int(rng.expovariate(1 / MEAN_EXTRA_REPLICAS))
    return replace(kind, key=ObjectKey("default", f"d{index:05d}"), replicas=replicas)


def _choices(request: Request, fleet: Fleet, memo: Memo, known: dict[tuple[object, ...], Choices]) -> Choices:
    """Return the choices without prices, so that there are fewer kinds to count."""
    key = (request.model.name, request.shape, request.constraints)
    if key not in known:
        priced = choices_of(demand_of(Tenant(request, 1), fleet, memo))
        known[key] = tuple(sorted(replace(each, dollars=0.0, doubts=0) for each in priced))
    return known[key]


def _arrived(number: int, tenant: Tenant) -> Tenant:
    return replace(tenant, request=replace(tenant.request, created=f"{number:06d}"))


Order = Callable[[Sequence[Tenant], Fleet, Memo], Sequence[Tenant]]


def _mixed(tenants: Sequence[Tenant], _fleet: Fleet, _memo: Memo) -> Sequence[Tenant]:
    return tenants


def _large_first(tenants: Sequence[Tenant], fleet: Fleet, memo: Memo) -> Sequence[Tenant]:
    return sorted(tenants, key=_dearness(fleet, memo), reverse=True)


def _small_first(tenants: Sequence[Tenant], fleet: Fleet, memo: Memo) -> Sequence[Tenant]:
    return sorted(tenants, key=_dearness(fleet, memo))


def _dearness(fleet: Fleet, memo: Memo) -> Callable[[Tenant], float]:
    """Return a key: the dollars of the cheapest choice of one replica. Large models are dear."""
    cheapest = by_table(lambda demand: min(choice.dollars for choice in choices_of(demand)))
    return lambda tenant: cheapest(demand_of(tenant, fleet, memo))


ORDERS: dict[str, Order] = {"mixed": _mixed, "large-first": _large_first, "small-first": _small_first}
"""The orders in which the same deployments arrive."""
