"""A place that keeps a promise which replicas at the present place cannot keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.placement.market import Market
from plimsoll.placement.pools import Tenant
from plimsoll.placement.preference import NO_PRICE
from plimsoll.rebalance.law.capacity import times_of
from plimsoll.rebalance.law.promise import Figure, keeps_promises
from plimsoll.rebalance.places.sites import Site, sites_elsewhere
from plimsoll.rebalance.state.situation import Situation

LEAST_GAIN = 0.2
"""All engines start anew at another place, so the time that misses its promise must become shorter by this part."""


@dataclass(frozen=True, slots=True)
class Faster:
    """A place with the replicas for the load, and the time in seconds that the missed figure is expected to have."""

    site: Site
    replicas: int
    seconds: float


def faster_place(
    situation: Situation, tenant: Tenant, market: Market, here: Site, missed: Figure, rate: float
) -> Faster | None:
    """Return the cheapest place that keeps the promises, and is clearly faster by what was learned here.

    Places with room come first. Where all are taken, one of them is returned: people may free its GPUs.
    """
    found = sorted(_places(situation, tenant, market, here, missed, rate), key=_order)
    free = (each for each in found if each.site.has_room(each.replicas, tenant, market))
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
    capacity = site.capacity()
    running = capacity.running * min(1.0, rate / capacity.per_second)
    return missed.of(times_of(site.replica, site.lengths, max(1.0, running)))


def _order(found: Faster) -> tuple[object, ...]:
    bill = found.site.bill(found.replicas)
    gpus = found.site.place[1].gpus * found.replicas
    return found.site.doubts, NO_PRICE if bill is None else bill, gpus, found.site.place
