"""The choice of a size, if deployments declare the load of all replicas together, and of an engine, if it is open.

1. A deployment whose engine is open takes the one that would be best if it were alone. The solver decides for all
   deployments and chooses their sizes (:attr:`~plimsoll.placement.demands.demand.Demand.ways`). A deployment that
   keeps or replaces pools takes its best size alone before that, in the order of decisions. If replicas find no place
   then, the solver decides once more and chooses the engines, too: its answer counts if fewer replicas wait.
2. Each of these deployments chooses once more, from its own share and what nobody else has: a solver that does not
   choose sizes gives it the cheapest one, and nodes may be packed worse than a programme knows. This also finds what
   every other size would cost now.

The order of goals is the solver's: the part of the load without a place, then doubts, then the bill of all replicas.

The one place that a turn would give all replicas of a new demand: found faster than by a turn, without reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option, Placed
from plimsoll.domain.units import format_price
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.pools import count
from plimsoll.placement.demands.rehoming import still_open
from plimsoll.placement.explain import place_words
from plimsoll.placement.ledger import Ledger, Taken, taken_between
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.placement.options.total_load import Size
from plimsoll.placement.options.verdicts import UNPRICED, price_of, rank
from plimsoll.placement.places.place import room_of
from plimsoll.placement.solvers.engine_offers import RankedAward, offers_of
from plimsoll.placement.solvers.formulation import MIXING
from plimsoll.placement.solvers.problem import open_options
from plimsoll.placement.solvers.protocol import Award, Solver, Stock
from plimsoll.placement.solvers.turn import Turn


def sole_place(demand: Demand, fleet: Fleet, ledger: Ledger) -> Option | None:
    """Return the option that a :class:`~plimsoll.placement.solvers.turn.Turn` takes for all replicas.

    None if it would divide them, place only some of them, or has pools to think of.
    """
    if demand.kept or demand.outdated or demand.missing <= 0:
        return None
    request = replace(demand.request, replicas=demand.missing)
    options = still_open(demand.options.verdicts, demand.excluded)
    for _, alike in groupby(sorted(options, key=_doubts), key=_doubts):
        rooms = []
        for option in sorted(alike, key=rank):
            rooms.append(room_of(request, option, fleet, ledger))
            if rooms[-1] >= request.replicas:
                return option
        if any(rooms):
            return None
    return None


def _doubts(option: Option) -> int:
    return option.doubts


Score = tuple[float, float, float, int]
"""The part of the load without a place; doubts, as if all replicas were one; US dollars an hour of all replicas, with
the charge for a mix of GPU types; the number of replicas."""


def solve_with_sizes(solver: Solver, demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Answer every demand like ``solver``, and choose the sizes. Without a size to choose, it is ``solver`` alone."""
    if not any(demand.sizes for demand in demands):
        return solver(demands, stock)
    running = {index: each for index, each in enumerate(demands) if any(way.kept or way.outdated for way in each.sizes)}
    open_ones = {index: _on_best_engine(solver, each, stock) for index, each in enumerate(demands) if _is_open(each)}
    alone = chosen_alone(running, stock, stock.ledger)

    def solved(fixed: Mapping[int, Demand]) -> list[Award]:
        return list(solver([fixed.get(index, each) for index, each in enumerate(demands)], stock))

    awards = solved(open_ones | alone)
    if open_ones and any(_waiting(awards)):
        awards = min(awards, solved(alone), key=_waiting)
    return iter(_chosen_again(demands, awards, stock))


def _waiting(awards: Sequence[Award]) -> tuple[float, ...]:
    """Return the deployments without a place, by priority, the highest first. Parts of one count as fractions."""
    found = dict.fromkeys(sorted((each.demand.tenant.priority.value for each in awards), reverse=True), 0.0)
    for each in awards:
        placed = sum(part.replicas for part in each.granted)
        waits = max(0, each.demand.missing - placed) / max(1, each.demand.request.replicas)
        found[each.demand.tenant.priority.value] += waits
    return tuple(found.values())


def _is_open(demand: Demand) -> bool:
    """Whether the ways of a demand are those of several engines."""
    return len({way.request.engine.name for way in demand.sizes}) > 1


def _on_best_engine(solver: Solver, demand: Demand, stock: Stock) -> Demand:
    """Return the demand with the ways of the engine on which the solver would give it the best, if it were alone.

    So a programme for several demands decides as if that engine were named. It does not know the user's list.
    """
    ways = groupby(sorted(demand.sizes, key=_engine), key=_engine)
    named = {engine: replace(first, sizes=(first, *more) if more else ()) for engine, (first, *more) in ways}
    awards = [award for each in named.values() for award in solver([each], stock)]
    best, *_ = ranked(demand, awards, stock)
    return named[best.engine]


def _engine(way: Demand) -> str:
    return way.request.engine.name


def chosen_alone(demands: Mapping[int, Demand], stock: Stock, ledger: Ledger) -> dict[int, Demand]:
    """Return the demands in the sizes that each takes alone, one after the other, from what those before it left."""
    chosen: dict[int, Demand] = {}
    for index, demand in demands.items():
        award = best_turn(demand, stock, ledger)
        chosen[index], ledger = award.demand, award.left
    return chosen


def best_turn(demand: Demand, stock: Stock, ledger: Ledger) -> Award:
    """Return the award in the best size on what is free in a ledger. An error is in the award."""
    if not demand.sizes:
        return _turn(demand, stock, ledger)
    best, *_ = ranked(demand, [_tried(way, stock, ledger) for way in demand.sizes], stock)
    return _carried_out(best.award, stock)


def ranked(demand: Demand, awards: Iterable[Award], stock: Stock) -> list[RankedAward]:
    """Return the best award of each engine, the best engine first. Of equal ones, the first in the order of the ways.

    Of equal awards on one engine, the first one is the best.
    """
    best: dict[str, tuple[Score, Award]] = {}
    for award in awards:
        engine, score = award.demand.request.engine.name, score_of(award, stock)
        if engine not in best or score < best[engine][0]:
            best[engine] = score, award
    order = list(dict.fromkeys(way.request.engine.name for way in demand.ways))
    found = [RankedAward(*best[engine][::-1]) for engine in order if engine in best]
    return sorted(found, key=lambda each: each.score)


def score_of(award: Award, stock: Stock) -> Score:
    """Return how good an award is on the stock of its pass; the least is the best."""
    demand, replicas = award.demand, award.demand.request.replicas
    placed = sum(each.replicas for each in award.granted)
    missing = max(0, demand.missing - placed)
    doubts = sum(each.replicas * each.choice.doubts for each in award.granted)
    bill = sum(replicas * _price(option) for option, replicas in _serving(award))
    return missing / max(1, replicas), doubts / max(1, replicas), bill + _charge(award, stock), replicas


def _charge(award: Award, stock: Stock) -> float:
    """Return the charge for replicas that share no GPU type and split, as the programme has it."""
    if len({each.choice.target.place for each in award.granted}) < 2:  # noqa: PLR2004 - one place is no mix
        return 0.0
    prices = map(price_of, open_options(award.demand, stock.fleet, stock.ledger))
    return MIXING * award.demand.missing * min(prices, default=0.0)


def _turn(demand: Demand, stock: Stock, ledger: Ledger) -> Award:
    try:
        return Turn(demand, stock.fleet, ledger).take()
    except Exception as error:  # noqa: BLE001 - an error in one demand must not stop the plan of the others
        return Award(demand, ledger, failure=error)


def _tried(demand: Demand, stock: Stock, ledger: Ledger) -> Award:
    """Return what a demand would get. If one place takes all replicas, no reasons are found and nothing is taken."""
    option = sole_place(demand, stock.fleet, ledger)
    if option is None:
        return _turn(demand, stock, ledger)
    return Award(demand, ledger, granted=(Placed(option, demand.missing, (), ()),))


def _carried_out(tried: Award, stock: Stock) -> Award:
    return tried if tried.searched or tried.failure is not None else _turn(tried.demand, stock, tried.left)


def _chosen_again(demands: Sequence[Demand], awards: list[Award], stock: Stock) -> Iterable[Award]:
    """Return the awards in which each deployment with sizes has the best one that the others leave it."""
    lefts = [stock.ledger, *(award.left for award in awards)]
    free, changed = lefts[-1], dict[int, Taken | None]()
    for index, demand in enumerate(demands):
        award = awards[index]
        if demand.sizes and award.failure is None:
            share = taken_between(lefts[index], award.left)
            own = free if share is None else share.given_back_to(free)
            tried = [_tried(size, stock, own) for size in demand.sizes]
            found = ranked(demand, (award, *tried), stock)
            best = found[0].award
            if best is not award:
                best = _carried_out(best, stock)
                changed[index], free = taken_between(own, best.left), best.left
            awards[index] = replace(
                best,
                sizes=tuple(_sizes(best, tried)),
                engines=_offers(demand, best, found),
                appraisal=award.appraisal,
            )
    return _in_turn(awards, lefts, changed) if changed else awards


def _in_turn(awards: Sequence[Award], lefts: Sequence[Ledger], changed: Mapping[int, Taken | None]) -> Iterator[Award]:
    """Yield the awards, each with what is left after it and those before it. ``lefts`` is that before the changes."""
    left = lefts[0]
    for index, award in enumerate(awards):
        share = changed[index] if index in changed else taken_between(lefts[index], lefts[index + 1])
        left = left if share is None else share.taken_from(left)
        yield replace(award, left=left)


def _offers(demand: Demand, best: Award, found: Sequence[RankedAward]) -> tuple[EngineOffer, ...]:
    """Return what each engine would get, ``best`` on the first; empty if the engine is not chosen here."""
    refused = (*best.demand.request.refused_engines, *demand.without_law)
    is_chosen = len(found) > 1 or refused
    return offers_of([replace(found[0], award=best), *found[1:]], refused) if is_chosen else ()


def _sizes(best: Award, tried: Sequence[Award]) -> Iterator[Size]:
    """Yield what each size would get on what the others leave, and for the chosen size what it got."""
    chosen = best.demand.request
    for each in tried:
        request = each.demand.request
        if chosen.is_sized and request.engine.name == chosen.engine.name:
            yield _size(best if request.replicas == chosen.replicas else each)


def _serving(award: Award) -> Iterator[tuple[Option | None, int]]:
    """Yield the choices and the replicas that run with this award. Outdated pools go when they are replaced."""
    yield from ((pool.choice, pool.replicas) for pool in award.demand.kept)
    yield from ((each.choice, each.replicas) for each in award.granted)


def _price(option: Option | None) -> float:
    return UNPRICED if option is None else price_of(option)


def _size(award: Award) -> Size:
    request, serving = award.demand.request, [each for each in _serving(award) if each[1]]
    prices = [None if option is None else option.hourly_price for option, _ in serving]
    known = [price * replicas for price, (_, replicas) in zip(prices, serving, strict=True) if price is not None]
    complete = bool(serving) and len(known) == len(serving)
    return Size(
        replicas=request.replicas,
        concurrency=request.shape.concurrency,
        places=tuple(place_words(*option.target.place) for option, _ in serving if option is not None),
        hourly_price=format_price(sum(known, start=Decimal(0))) if complete else None,
        missing=max(0, request.replicas - count(award.demand.kept) - sum(each.replicas for each in award.granted)),
    )
