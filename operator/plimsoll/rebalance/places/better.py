"""A better place: one that keeps a promise which the present place cannot keep, or that costs clearly less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Option, Split
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.costs import move_charge
from plimsoll.placement.demands.pools import AnyPool, Decision, Tenant, places_on, serving
from plimsoll.placement.options.feasibility import avoidable_price
from plimsoll.placement.options.verdicts import NO_PRICE, rank
from plimsoll.placement.transition.hypothesis import Market
from plimsoll.rebalance.law.capacity import times_of
from plimsoll.rebalance.law.promise import Figure, keeps_promises
from plimsoll.rebalance.places.sites import OtherSite, Site, sites_elsewhere
from plimsoll.rebalance.state.situation import Situation

LEAST_SAVING = Decimal("0.15")
"""The part of the bill that a move must save. Providers ask prices for one card that differ by a tenth and more."""

LOADS = (0.8, 1.0, 1.25)
"""The saving must be as large for less and for more of the load. So a load that wobbles around the number of replicas
that it just needs moves nothing to and fro."""

PAYBACK_HOURS = 1
"""The time in which the saving must have paid for the move: old and new replicas are paid until the new ones serve."""


@dataclass(frozen=True, slots=True)
class Cheaper:
    """A place with the replicas for the load, and the bills in US dollars an hour, now and there."""

    site: OtherSite
    replicas: int
    bill: Decimal
    to_bill: Decimal


def cheaper_place(
    situation: Situation, tenant: Tenant, decision: Decision, market: Market, here: Site, rate: float
) -> Cheaper | None:
    """Return the cheapest place with free GPUs that saves enough, by what was learned and by the model alone.

    Another engine counts where no place of the one that runs does.

    A move lowers the bill that the model alone finds for this load by :data:`LEAST_SAVING` at least, and nothing that
    is learned after the move changes that bill. So no move leads back to a place that was left, as long as the prices
    and the load stay as they are.
    """
    bill = bill_of(tenant.pools, market)
    if not bill or decision.choice is None:
        return None
    pools = serving(tenant.pools)
    here = replace(here, price=bill / sum(pool.replicas for pool in pools) + decision.choice.delay_cost)
    also = tuple(pool.target.place for pool in pools)  # all may come together at one of them
    offers = (
        _offer(situation, here, site, rate, bill)
        for site in sites_elsewhere(tenant, market, situation.memory, here, also=also)
        if site.option.doubts <= decision.choice.doubts and _may_follow(site, tenant.request, decision.choice)
    )
    found = sorted((each for each in offers if each is not None), key=partial(_order, tenant))
    return next((each for each in found if _has_room(each, tenant, market)), None)


def _may_follow(there: OtherSite, request: Request, here: Option) -> bool:
    """Whether the price alone may call for the engine of a place: it is neither less preferred nor in more doubt."""
    is_surer = not there.option.is_in_doubt or here.is_in_doubt
    return there.engine == request.engine.name or (there.request.engine_rank <= request.engine_rank and is_surer)


def bill_of(
    pools: Iterable[AnyPool], market: Market, price_of: Callable[[GpuType, Split], Decimal | None] = avoidable_price
) -> Decimal | None:
    """Return US dollars an hour of all replicas; None if a price is not known.

    Args:
        pools: the pools of the deployment.
        market: the GPUs with their prices.
        price_of: the price of a replica; by default what ends when it leaves.
    """
    prices = []
    for pool in serving(pools):
        gpu = market.stock.fleet.named(pool.gpu_type)
        price = None if gpu is None else price_of(gpu, pool.split)
        if price is None:
            return None
        prices.append(price * pool.replicas)
    return sum(prices, Decimal(0))


def _offer(situation: Situation, here: Site, there: OtherSite, rate: float, bill: Decimal) -> Cheaper | None:
    """Return what a place saves; None if it saves too little or breaks a promise."""
    policy = situation.policy
    if there.price is None or not _is_in_time(there):
        return None
    replicas = max(policy.min_replicas, there.replicas(rate))
    to_bill = there.price * replicas
    if replicas > policy.max_replicas or to_bill > (1 - LEAST_SAVING) * bill:
        return None
    startup = situation.memory.expected_startup_seconds
    is_paid = move_charge(there.price, startup) * replicas <= PAYBACK_HOURS * (bill - to_bill)
    return (
        Cheaper(there, replicas, bill, to_bill)
        if is_paid and _saves(here, there.weighed, rate, policy.min_replicas)
        else None
    )


def _is_in_time(there: Site) -> bool:
    return all(keeps_promises(each, there.lengths) for each in (there.replica, replace(there.model, slowness=1.0)))


def _saves(here: Site, there: Site, rate: float, least: int) -> bool:
    """Whether both ways to count find the saving, for each of :data:`LOADS`."""
    if here.price is None or there.price is None:
        return False
    return all(
        there.price * max(least, there.replicas(part * rate, learned=learned))
        <= (1 - LEAST_SAVING) * here.price * max(least, here.replicas(part * rate, learned=learned))
        for part in LOADS
        for learned in (True, False)
    )


def _has_room(found: Cheaper, tenant: Tenant, market: Market) -> bool:
    """Whether the replicas that are not there yet have room. If too many are, none is ended for this."""
    there = found.site.place, found.site.engine
    already = sum(pool.replicas for pool in serving(tenant.pools) if (pool.place, pool.engine) == there)
    return found.replicas > already and found.site.has_room(found.replicas - already, market)


def _order(tenant: Tenant, found: Cheaper) -> tuple[object, ...]:
    """Return the order of offers: another engine waits for people, so it comes after the one that runs."""
    gpus = found.replicas * found.site.place[1].gpus
    return found.site.engine != tenant.request.engine.name, found.to_bill, gpus, found.site.place, found.site.engine


def only_engine(tenant: Tenant, market: Market) -> tuple[Request, Option] | None:
    """Return the best place with room for all replicas on another engine that the spec allows, with its request.

    The engine that the user likes best comes first, and then what fits without a doubt. No place that was left is among
    them, and none where that engine is or did not come up. None: there is none, or more than one replica cannot mount
    its volumes.
    """
    if tenant.request.total is not None or tenant.request.mounts_alone:
        return None
    found = [(each, option) for each in tenant.request.on_alternatives for option in _with_room(each, tenant, market)]
    return min(found, key=_by_preference, default=None)


def _with_room(request: Request, tenant: Tenant, market: Market) -> list[Option]:
    engine, left = request.engine.name, (each.place for each in tenant.left)
    failed = (each.place for each in tenant.failed if each.engine == engine)
    closed = (*places_on(tenant.pools, engine), *left, *failed)
    try:
        return [option for option in market.options(request, closed) if market.has_room(request, option)]
    except PlimsollError:  # e.g. a model that has no law on this engine
        return []


def _by_preference(found: tuple[Request, Option]) -> tuple[object, ...]:
    request, option = found
    return request.engine_rank, option.is_in_doubt, rank(option), request.engine.name


LEAST_GAIN = 0.2
"""All engines start anew at another place, so the time that misses its promise must become shorter by this part."""


@dataclass(frozen=True, slots=True)
class Faster:
    """A place with the replicas for the load, and the time in seconds that the missed figure is expected to have."""

    site: OtherSite
    replicas: int
    seconds: float


def faster_place(
    situation: Situation, tenant: Tenant, market: Market, here: Site, missed: Figure, rate: float
) -> Faster | None:
    """Return the cheapest place that keeps the promises, and is clearly faster by what was learned here.

    Places with room come first, and of these the ones of the engine that runs. If all are taken, one of them is
    returned: people may free its GPUs.
    """
    found = sorted(_places(situation, tenant, market, here, missed, rate), key=partial(_by_promise, tenant))
    free = (each for each in found if each.site.has_room(each.replicas, market))
    return next(free, found[0] if found else None)


def _places(
    situation: Situation, tenant: Tenant, market: Market, here: Site, missed: Figure, rate: float
) -> Iterator[Faster]:
    policy = situation.policy
    for site in sites_elsewhere(tenant, market, situation.memory, here):
        if not keeps_promises(site.replica, site.lengths):
            continue
        replicas = min(policy.max_replicas, max(policy.min_replicas, site.replicas(rate)))
        seconds = _expected(site, missed, rate / replicas)
        if seconds <= (1 - LEAST_GAIN) * missed.measured:
            yield Faster(site, replicas, seconds)


def _expected(site: Site, missed: Figure, rate: float) -> float:
    """Return the missed time of a replica there with so many requests a second."""
    capacity = site.capacity(learned=True)
    running = capacity.running * min(1.0, rate / capacity.per_second)
    return missed.of(times_of(site.replica, site.lengths, max(1.0, running)))


def _by_promise(tenant: Tenant, found: Faster) -> tuple[object, ...]:
    bill = found.site.weighed.bill(found.replicas)
    gpus = found.site.place[1].gpus * found.replicas
    price, is_other = NO_PRICE if bill is None else bill, found.site.engine != tenant.request.engine.name
    return is_other, found.site.option.doubts, price, gpus, found.site.place, found.site.engine
