"""How many replicas a load needs now, and how many would be enough with room to spare.

Every need is an absolute number, so replicas that still start count, and no wait between additions is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from plimsoll.rebalance.law.capacity import ReplicaCapacity, ReplicaModel, capacity_of
from plimsoll.rebalance.law.price import Stakes, stakes_of
from plimsoll.rebalance.signals.forecast import Expected
from plimsoll.rebalance.signals.traffic import Lengths, Traffic

NEEDED_KV_USE = 0.96
SPARE_KV_USE = 0.85
"""The parts of the KV cache that may be in use before one more replica is needed, and for one to be superfluous,
whatever the model says."""

NORMAL_QUEUE = 2.0
"""Waiting requests of a replica that are no backlog."""

LONG_QUEUE = 5.0
"""Waiting requests of a replica with which more are needed, whatever is known of its speed: the queue bound of the
llm-d autoscaler and of the Gateway API inference extension's endpoint picker."""

GROWTH = 1.5
"""The factor by which replicas grow while the need is unknown: for a long queue, because clients that give up are not
counted, and for requests of a new kind."""

PATIENCE_SECONDS = 60.0
"""Clients of public services wait about that long for a first token: an older backlog is none."""

STORM_SHARE = 0.25
"""Preemptions for each request that begins. Each costs the whole prompt again, so this is a quarter of all prompts."""

TOLERANCE = 0.04
"""A need that exceeds a whole number by less than this part is not rounded up."""


EXPECTED_USE = 0.92
KEPT_USE = 0.8
"""The parts of a replica's capacity that expected arrivals may take before a replica is started, and for one to be
superfluous. No room is kept for growth: it is what the forecast expects."""

MOST_FORECAST = 2.0
"""The replicas that a forecast may ask for, over those that the load needs now. It is more often right than wrong, and
a wrong one costs GPUs for a start-up and a cool-down."""


class Need(StrEnum):
    """The needs, of which the largest asks for the most replicas."""

    ARRIVALS = "Arrivals"
    BACKLOG = "Backlog"
    GATEWAY = "Gateway"
    KV_CACHE = "KvCache"
    PREEMPTIONS = "Preemptions"
    QUEUE = "Queue"
    RISE = "Rise"


@dataclass(frozen=True, slots=True)
class Wish:
    """The replicas for a load.

    ``replicas`` are needed now, because of ``need``. ``enough`` would be enough with room to spare. ``capacity`` is
    that of one replica; None if the lengths or the speed are not known. ``rate`` are the requests a second that it
    is made for, a steady rise included. ``use`` is the part of the capacity from which arrivals, or expected ones, ask
    for one more replica; 1.0 if something else does. ``coming`` are the arrivals that the days before let expect,
    and ``kept`` the replicas that are not removed because of them. What was enough is learned from arrivals that came,
    without these. ``clears``: by the performance model, the replicas that are there serve the backlog before a new one
    would serve.
    """

    replicas: int
    need: Need
    enough: int
    capacity: ReplicaCapacity | None
    rate: float
    use: float = 1.0
    coming: Expected | None = None
    kept: int = 0
    clears: bool = False


@dataclass(frozen=True, slots=True)
class DeploymentLoad:
    """The traffic, on so many known replicas with so much KV cache each.

    ``rise`` is by how much arrivals will have risen until a new replica serves. ``is_settled`` means that every replica
    has served for a while. ``most_work`` is what a replica with a long queue was seen to do a second. A start-up takes
    ``startup_seconds``, and what is added stays ``stay_seconds`` at least. ``starting`` are the seconds until each
    replica serves that starts already. ``apart`` further replicas are slow, and ``lost`` is how much less than so many
    replicas these are. ``share`` are all requests that come over those that come to the others. ``served`` are the
    requests that all replicas begin a second.
    """

    traffic: Traffic
    replicas: int
    kv_tokens: int
    rise: float
    is_settled: bool
    most_work: float | None
    startup_seconds: float
    stay_seconds: float
    starting: tuple[float, ...]
    apart: int
    lost: float
    share: float
    served: float


def wish_of(load: DeploymentLoad, replica: ReplicaModel | None) -> Wish:
    """Return the replicas for a load. ``replica`` None: its speed is not known, and cache and queue decide."""
    needs, rate, lengths = _without_model(load), load.traffic.arrivals.per_second + load.rise, load.traffic.lengths
    enough = load.share * _kv_in_use(load) / (SPARE_KV_USE * load.kv_tokens)
    capacity, uses, clears = None, dict[Need, float](), False
    if replica is not None and lengths is not None:
        most = _within(load.most_work, capacity_of(replica, lengths, promised=False), lengths).per_second
        capacity = _within(load.most_work, capacity_of(replica, lengths), lengths)
        stakes = stakes_of(replica, capacity, load.startup_seconds).staying(load.stay_seconds)
        counted = load.traffic.arrivals
        error = counted.error_within(counted.seconds) / max(rate, 1 / counted.seconds)
        uses[Need.ARRIVALS] = stakes.use(rate, error)
        needs[Need.ARRIVALS] = _whole(rate / (uses[Need.ARRIVALS] * capacity.per_second) + load.lost)
        clears = _backlog(load) > 0 >= _left(load, most)
        needs[Need.BACKLOG] = _for_backlog(load, most, stakes)
        enough = max(enough, rate / (stakes.spare_use(rate, error) * capacity.per_second))
        if lengths.is_turning:
            needs |= {each: min(needs[each], _most_unseen(load)) for each in (Need.ARRIVALS, Need.BACKLOG)}
    need = max(needs, key=lambda each: needs[each])
    replicas = max(1, needs[need])
    use = uses.get(need, 1.0)
    enough_whole = max(replicas, _whole(enough + load.lost))
    return Wish(replicas, need, enough_whole, capacity, rate, use, clears=clears)


def _most_unseen(load: DeploymentLoad) -> int:
    """Return the most replicas for requests of a new kind, of which it is not known yet how long their answers are.

    Prompts of one kind with answers of another are requests that nobody sends. A scrape or two later it is known.
    """
    serving = load.replicas + load.apart
    return max(serving + len(load.starting), math.ceil(GROWTH * serving))


def with_forecast(wish: Wish, coming: Expected | None, later: Expected | None) -> Wish:
    """Return the wish with the replicas that a forecast asks for. It adds only.

    Args:
        wish: for the load as it is.
        coming: the arrivals that the days before let expect by the time when a new replica serves; None: no more.
        later: those by the time when a removal could be made good.
    """
    if wish.capacity is None:
        return wish
    most = math.floor(MOST_FORECAST * wish.replicas)
    wanted = min(most, _whole(_rate(coming) / (EXPECTED_USE * wish.capacity.per_second)))
    kept = min(most, _whole(_rate(later) / (KEPT_USE * wish.capacity.per_second)))
    if wanted > wish.replicas:
        wish = replace(wish, replicas=wanted, need=Need.RISE, use=EXPECTED_USE)
    return replace(wish, kept=max(kept, wish.replicas), coming=coming)


def _rate(expected: Expected | None) -> float:
    return 0.0 if expected is None else expected.per_second


def wish_for_queue(waiting: float, replica: ReplicaModel | None) -> Wish:
    """Return the replicas that run all requests of a gateway's queue at the same time.

    Nothing is known of their lengths, so the KV cache may hold fewer. One replica if nothing is known of it either.
    """
    most = waiting if replica is None else float(replica.limits.sequences)
    replicas = max(1, math.ceil(waiting / most))
    return Wish(replicas, Need.GATEWAY, replicas, None, 0.0)


def is_saturated(load: DeploymentLoad) -> bool:
    """Say whether replicas that have all served for a while have a long queue, half of them at least.

    Next to a queue of fewer the others have room: a router or a slow replica makes it, and no number of replicas ends
    it.
    """
    traffic = load.traffic
    queues = [each.waiting + traffic.at_gateway / load.replicas for each in traffic.loads]
    is_common = 2 * sum(queue >= LONG_QUEUE for queue in queues) >= len(queues)
    return load.is_settled and is_common and traffic.waiting >= LONG_QUEUE * load.replicas


def _within(most_work: float | None, capacity: ReplicaCapacity, lengths: Lengths) -> ReplicaCapacity:
    """Return no more capacity than a replica has shown with a long queue: the model may be too hopeful."""
    if most_work is None or most_work >= capacity.per_second * lengths.work:
        return capacity
    return replace(capacity, per_second=most_work / lengths.work)


def is_storm(traffic: Traffic) -> bool:
    """Whether so many requests lose their KV cache that the engines mostly compute prompts again."""
    return traffic.preempted_share is not None and traffic.preempted_share >= STORM_SHARE


def _without_model(load: DeploymentLoad) -> dict[Need, int]:
    """Return the needs that are seen. A backlog that is served in time fills cache and queue, and needs no more."""
    is_served, is_long = _is_served_soon(load), is_saturated(load)
    in_cache = load.share * _kv_in_use(load) / (NEEDED_KV_USE * load.kv_tokens)
    return {
        Need.KV_CACHE: 0 if is_served else math.ceil(in_cache + load.lost),
        Need.PREEMPTIONS: load.replicas + 1 + load.apart if load.is_settled and is_storm(load.traffic) else 0,
        Need.QUEUE: math.ceil(GROWTH * load.replicas) + load.apart if is_long and not is_served else 0,
    }


def _kv_in_use(load: DeploymentLoad) -> float:
    """Return the KV tokens in use, and those of requests that wait as usual. More would count a backlog twice."""
    traffic = load.traffic
    waiting = min(traffic.waiting, NORMAL_QUEUE * load.replicas)
    return traffic.used_tokens + (0.0 if traffic.lengths is None else waiting * traffic.lengths.in_cache)


def _backlog(load: DeploymentLoad) -> float:
    """Return the requests that wait beyond the usual."""
    return load.traffic.waiting - NORMAL_QUEUE * load.replicas


def _left(load: DeploymentLoad, most: float) -> float:
    """Return the requests of the backlog that are left when what is ordered now serves: after a start-up.

    Until then, the replicas that serve and those that start already have served some of it, ``most`` a second each,
    and clients have left that lost patience.
    """
    rate, startup, serving = load.traffic.arrivals.per_second, load.startup_seconds, load.replicas + load.apart
    served = most * ((serving - load.lost) * startup + sum(max(0.0, startup - seconds) for seconds in load.starting))
    return min(_backlog(load) + rate * startup - served, rate * PATIENCE_SECONDS)


def _is_served_soon(load: DeploymentLoad) -> bool:
    """Whether the replicas begin so many more requests than come that no backlog is left when another one would serve.

    Measured, so that a model that is too hopeful takes nothing away.
    """
    gain = load.served - load.traffic.arrivals.per_second
    return 0 < _backlog(load) <= gain * load.startup_seconds


def _for_backlog(load: DeploymentLoad, most: float, stakes: Stakes) -> int:
    """Return the replicas that are worth their price for the arrivals and the backlog; 0 if none is left."""
    left = _left(load, most) if _backlog(load) > 0 else 0.0
    return math.ceil(stakes.behind(left, load.traffic.arrivals.per_second, most) + load.lost) if left > 0 else 0


def _whole(replicas: float) -> int:
    return math.ceil(replicas * (1 - TOLERANCE))
