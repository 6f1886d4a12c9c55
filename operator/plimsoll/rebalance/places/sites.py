"""A place with what one replica carries there, and what the replicas for a load cost there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.pools import Place, Tenant, is_at, places_on, serving
from plimsoll.placement.options.feasibility import avoidable_price
from plimsoll.placement.transition.hypothesis import Market
from plimsoll.rebalance.law.capacity import ReplicaCapacity, ReplicaModel, capacity_of, model_of
from plimsoll.rebalance.law.price import stakes_of
from plimsoll.rebalance.law.wishes import TOLERANCE
from plimsoll.rebalance.signals.traffic import Lengths
from plimsoll.rebalance.state.memory import LoopMemory


@dataclass(frozen=True, slots=True)
class Site:
    """One place.

    Attributes:
        place: its GPU type and split.
        model: one replica there, as the performance model knows it.
        lengths: of the requests.
        slowness: the measured time of a token over the model's: learned there, or expected from what was learned here.
        hope: the part of what the model says that a replica has shown with a long queue; 1: all of it.
        startup_seconds: the start-up to expect. Those of other places are not known, so all have the one of this place.
        price: the US dollars an hour that end when a replica leaves; None: not known.
    """

    place: Place
    model: ReplicaModel
    lengths: Lengths
    slowness: float
    hope: float
    startup_seconds: float
    price: Decimal | None = None

    @property
    def replica(self) -> ReplicaModel:
        """The model with the slowness."""
        return replace(self.model, slowness=self.slowness)

    def capacity(self, *, learned: bool) -> ReplicaCapacity:
        """Return what a replica carries with its promises kept; without ``learned``, by the model alone."""
        if not learned:
            return capacity_of(replace(self.model, slowness=1.0), self.lengths)
        found = capacity_of(self.replica, self.lengths)
        return replace(found, per_second=self.hope * found.per_second)

    def replicas(self, rate: float, *, learned: bool = True) -> int:
        """Return the replicas for so many requests a second, with room to spare."""
        capacity = self.capacity(learned=learned)
        wanted = rate / (stakes_of(self.model, capacity, self.startup_seconds).spare_use(rate) * capacity.per_second)
        return max(1, math.ceil(wanted * (1 - TOLERANCE)))

    def bill(self, replicas: int) -> Decimal | None:
        """Return US dollars an hour of so many replicas; None if the price is not known."""
        return None if self.price is None else self.price * replicas


@dataclass(frozen=True, slots=True)
class OtherSite(Site):
    """A place that replicas could have, as a solver knows it: ``option``, for the ``request`` on the engine there."""

    option: Option = field(kw_only=True)
    request: Request = field(kw_only=True)

    @property
    def engine(self) -> str:
        """The name of the engine there."""
        return self.request.engine.name

    @property
    def weighed(self) -> Site:
        """The place with the cost by which options are ranked: an fp8 cache and slowness must save more."""
        return replace(self, price=self.option.cost)

    def has_room(self, replicas: int, market: Market) -> bool:
        """Whether so many new replicas have room now."""
        return market.has_room(self.request.with_replicas(replicas), self.option)


def sites_elsewhere(
    tenant: Tenant, market: Market, memory: LoopMemory, here: Site, *, also: tuple[Place, ...] = ()
) -> Iterator[OtherSite]:
    """Yield the places that the spec allows, without those where replicas are; ``also`` are offered nevertheless.

    The places of other engines that the spec allows come last, also those where replicas of the present one are: the
    engine is a part of a place. What was learned here counts for them too, if it is bad: nothing is known of them.
    """
    pools, own = serving(tenant.pools), tenant.request.engine.name
    yield from _sites_on(tenant.request, tenant, market, memory, here, places_on(pools, own) - set(also))
    for request in tenant.request.on_alternatives:
        yield from _sites_on(request, tenant, market, memory, here, places_on(pools, request.engine.name))


def _sites_on(
    request: Request, tenant: Tenant, market: Market, memory: LoopMemory, here: Site, own: set[Place]
) -> Iterator[OtherSite]:
    is_own_engine = request is tenant.request
    try:
        for option in market.options(request, tuple(each.place for each in tenant.left)):
            is_here = is_own_engine and option.target.place == here.place
            if is_here and here.place not in own:
                yield _other(here, request, option, here.model, here.lengths, here.slowness)
            model = None if is_here or option.target.place in own else model_at(request, option)
            if model is not None:
                learned = _learned_at(option.target.place, memory)
                slowness = learned if is_own_engine else max(1.0, here.slowness)
                lengths = _lengths_at(here, model.kv_tokens)
                like = replace(model, spread=here.model.spread, dispersion=here.model.dispersion)
                yield _other(here, request, option, like, lengths, slowness)
    except PlimsollError:  # the request cannot be judged any more, and the plan says so
        return


def _learned_at(place: Place, memory: LoopMemory) -> float:
    """Return the slowness that was learned at a place: only of the present engine anything is known."""
    return memory.slowness_at(next((pool for pool, _ in memory.others if is_at(pool, *place)), ""))


def _other(
    here: Site, request: Request, option: Option, model: ReplicaModel, lengths: Lengths, slowness: float
) -> OtherSite:
    price, place = avoidable_price(option.gpu, option.split), option.target.place
    known = here.hope, here.startup_seconds, price
    return OtherSite(place, model, lengths, slowness, *known, option=option, request=request)


def model_at(request: Request, option: Option) -> ReplicaModel | None:
    """Return one replica as it would run there; None if the performance model does not know it."""
    runs = request.with_cache_as(narrow=option.has_narrow_cache, host_bytes=option.settings.host_cache_bytes)
    return model_of(runs.limited(option.replica_limits), option.gpu, option.split, option.estimate.kv_capacity_tokens)


def _lengths_at(here: Site, kv_tokens: int) -> Lengths:
    """Return the lengths for a replica with another cache: a smaller one keeps fewer prefixes."""
    kept = kv_tokens / here.model.kv_tokens
    return here.lengths if kept >= 1 else replace(here.lengths, cached=kept * here.lengths.cached)
