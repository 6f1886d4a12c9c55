"""A law that computes the number of replicas from the arrivals and from what a replica is known to carry.

It is no peer. It shows what the same signals allow: an absolute number every time, no wait between additions, and
removals only after ten minutes that agree. Its parameters come from a search on simulated traffic.

Each tick, with R ready replicas, W waiting requests, and the mean prompt I and output O of 10 minutes:

- arrivals: prompt tokens a second over I and the growth of W a second, over 120 s, or over 45 s while W is at least 2
  R;
- what a replica serves a second: its work (:mod:`plimsoll.simulation.peers.service_rate`) over I + 4 O;
- the wish: the most of three needs, rounded up: arrivals at 90 % of the service; arrivals and all but 2 R of the
  waiting requests within 60 s; the KV cache in use and that of the waiting requests at 85 % of what a replica has;
- if all replicas have been ready for 45 s and W is at least 5 R, the wish is at least 1.5 R;
- starting replicas count, except those that start for longer than 1.5 of the longest start seen;
- removals go to the largest wish of 600 s, at most to a half, and only where every pod is known, and none had a queue
  or a preemption in 120 s. The arrivals at a replica that once filled the KV caches bound the removals, by the most
  arrivals of 600 s, because the KV cache in use falls with the latency as soon as there are more replicas;
- two additions an hour may follow a removal; after them nothing is removed.

Without metrics nothing changes. A pod without a recent sample adds nothing to the wish, and prevents removals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from plimsoll.simulation.peers.service_rate import OUTPUT_WEIGHT, ServiceRate
from plimsoll.simulation.peers.signals import (
    Lengths,
    Read,
    clamped,
    highest,
    increase,
    known,
    lengths,
    recent,
    serving,
    total_of,
)
from plimsoll.simulation.peers.view import FleetSizes, PodView, Policy, View
from plimsoll.simulation.values import Sample

LENGTHS_SECONDS = 600.0
CALM_SECONDS, BUSY_SECONDS = 120.0, 45.0
"""The windows of the arrival rate."""

NORMAL_QUEUE = 2.0
"""Waiting requests of a replica that are no backlog."""

LONG_QUEUE = 5.0
"""Waiting requests of a replica with which more are needed, whatever is known of its rate."""

LOAD, KV_LOAD = 0.9, 0.85
"""The parts of the service and of the KV cache that a replica shall use."""

BACKLOG_SECONDS = 60.0
"""The time in which a backlog shall be served."""

SETTLED_SECONDS = 45.0
"""How long all replicas must have been ready before a long queue alone adds some."""

LONG_QUEUE_GROWTH = 1.5
HOLD_SECONDS = 600.0
"""How long the wish must have been low before a removal."""

QUIET_SECONDS = 120.0
"""How long no request may have waited before a removal."""

STUCK_STARTS = 1.5
"""A replica is no supply if it has started for longer than the longest start seen, times this factor."""

FIRST_START_SECONDS = 300.0
"""The start-up that is assumed before one was seen."""

REVERSALS_PER_HOUR = 2
"""The most additions after a removal in an hour. Then nothing is removed until an hour has passed."""

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Demand:
    """The load of all known pods: requests a second, waiting requests, KV tokens in use, and mean lengths."""

    arrivals: float
    waiting: float
    kv_tokens: float
    mean: Lengths


@dataclass(frozen=True, slots=True)
class Wish:
    """The replicas that a load needs. ``by_cache`` is true where the KV cache needs the most."""

    replicas: int
    by_cache: bool


@dataclass(frozen=True, slots=True)
class Look:
    """One tick: the replicas that were wished for, and the requests a second that arrived."""

    at: float
    replicas: int
    arrivals: float


def demand_of(pods: Sequence[PodView], view: View) -> Demand:
    """Measure the load. Before a request has finished, its length is what it has got so far."""
    mean = lengths(pods, view.now, LENGTHS_SECONDS) or _so_far(pods, view.now)
    queue = total_of(pods, view.now, lambda sample: sample.waiting)
    window = BUSY_SECONDS if queue >= NORMAL_QUEUE * len(pods) else CALM_SECONDS
    grown = sum(_growth(pod, view.now, window, lambda sample: sample.waiting) for pod in pods)
    prompts = sum(_growth(pod, view.now, window, _prompt_tokens) for pod in pods)
    started = prompts / mean.prompt if mean.prompt > 0 else 0.0
    used = total_of(pods, view.now, lambda sample: sample.kv_usage) * view.engine.kv_tokens
    return Demand(max(0.0, started + grown), queue, used, mean)


def _growth(pod: PodView, now: float, seconds: float, read: Read) -> float:
    """Return the increase a second over the window, or between the last two scrapes if they are further apart."""
    samples = recent(pod, now, seconds)
    if len(samples) < 2:  # noqa: PLR2004 - a difference takes two
        samples = recent(pod, now, LENGTHS_SECONDS)[-2:]
    span = samples[-1].at - samples[0].at
    return (read(samples[-1]) - read(samples[0])) / span if span > 0 else 0.0


def _prompt_tokens(sample: Sample) -> float:
    return sample.prompt_tokens_total


def _so_far(pods: Sequence[PodView], now: float) -> Lengths:
    started = total_of(pods, now, lambda sample: sample.first_tokens_total)
    if started <= 0:
        return Lengths(0, 0)
    outputs = total_of(pods, now, lambda sample: sample.generation_tokens_total)
    return Lengths(total_of(pods, now, _prompt_tokens) / started, outputs / started)


def wish_of(demand: Demand, ready: int, work: float | None, kv_tokens: int) -> Wish:
    """Return the replicas for the demand.

    Args:
        demand: the load of all known pods.
        ready: the replicas that serve.
        work: what one of them does a second; None where it is unknown, and only the KV cache counts.
        kv_tokens: the KV cache of one of them.
    """
    by_cache = (demand.kv_tokens + demand.waiting * demand.mean.in_cache) / (KV_LOAD * kv_tokens)
    request_work = demand.mean.prompt + OUTPUT_WEIGHT * demand.mean.output
    by_service = 0.0
    if work and request_work > 0:
        backlog = max(0.0, demand.waiting - NORMAL_QUEUE * ready) / BACKLOG_SECONDS
        by_service = max(demand.arrivals / LOAD, demand.arrivals + backlog) * request_work / work
    return Wish(max(1, math.ceil(max(by_cache, by_service))), by_cache > by_service)


@dataclass(slots=True)
class BetterLaw:
    """The law with what it has learned."""

    tick_seconds: float = 5.0
    rate: ServiceRate = field(default_factory=ServiceRate)
    looks: list[Look] = field(default_factory=list)
    longest_start: float | None = None
    crowded_arrivals: float | None = None
    """Requests a second of one replica with which the KV caches were full; None where that never happened."""
    removed_last: bool = False
    reversals: list[float] = field(default_factory=list)

    def __call__(self, view: View) -> int:
        """Return the replicas for the load: more at once, fewer after ten minutes."""
        pods = known(view)
        self._learn_starts(view)
        if not pods:
            return view.wanted
        self.rate.read(pods, view.now)
        demand, ready = demand_of(pods, view), len(serving(view))
        wish = wish_of(demand, ready, self.rate.work, view.engine.kv_tokens)
        replicas = max(wish.replicas, _for_long_queue(demand, view))
        self.looks = [look for look in self.looks if view.now - look.at <= HOLD_SECONDS]
        self.looks.append(Look(view.now, replicas, demand.arrivals))
        target = clamped(replicas + self._stuck(view), view)
        if target > view.wanted:
            return self._added(target, demand.arrivals / ready if wish.by_cache else None, view.now)
        return self._lowered(pods, view)

    def _learn_starts(self, view: View) -> None:
        starts = [pod.ready_since - pod.created_at for pod in view.pods if pod.ready_since is not None]
        self.longest_start = max([*starts, self.longest_start or 0.0], default=0.0) or None

    def _stuck(self, view: View) -> int:
        """Return the replicas that start for too long."""
        longest = STUCK_STARTS * (self.longest_start or FIRST_START_SECONDS)
        return sum(pod.ready_since is None and view.now - pod.created_at > longest for pod in view.pods)

    def _added(self, target: int, crowded: float | None, now: float) -> int:
        if crowded is not None:
            self.crowded_arrivals = crowded
        if self.removed_last:
            self.reversals.append(now)
        self.removed_last = False
        return target

    def _lowered(self, pods: Sequence[PodView], view: View) -> int:
        """Return fewer replicas where nothing forbids it."""
        if not self._may_remove(pods, view):
            return view.wanted
        wished = max(look.replicas for look in self.looks)
        for_cache = self._for_cache(max(look.arrivals for look in self.looks))
        target = max(wished, for_cache, math.ceil(view.wanted / 2), view.min_replicas)
        if target >= view.wanted:
            return view.wanted
        self.removed_last = True
        return target

    def _may_remove(self, pods: Sequence[PodView], view: View) -> bool:
        held = view.now - self.looks[0].at >= HOLD_SECONDS - self.tick_seconds
        recent_reversals = sum(view.now - at < HOUR_SECONDS for at in self.reversals)
        everybody = len(pods) == len(view.pods) == view.wanted
        return (
            held and everybody and recent_reversals < REVERSALS_PER_HOUR and all(_is_quiet(pod, view) for pod in pods)
        )

    def _for_cache(self, arrivals: float) -> int:
        """Return the replicas with which each gets fewer requests than when the KV caches were full."""
        return math.floor(arrivals / self.crowded_arrivals) + 1 if self.crowded_arrivals else 0


def _for_long_queue(demand: Demand, view: View) -> int:
    """Return half as many again if the queue is long, and every replica has been ready for some time; else 0."""
    since = [pod.ready_since for pod in view.pods if pod.ready_since is not None]
    settled = len(since) == view.wanted and view.now - max(since) > SETTLED_SECONDS
    return math.ceil(LONG_QUEUE_GROWTH * len(since)) if settled and demand.waiting >= LONG_QUEUE * len(since) else 0


def _is_quiet(pod: PodView, view: View) -> bool:
    """Whether no request waited and none was preempted."""
    preempted = increase(pod, view.now, QUIET_SECONDS, lambda sample: sample.preemptions_total)
    return preempted == 0 and highest(pod, view.now, QUIET_SECONDS, lambda sample: sample.waiting) == 0


def better_law(_: FleetSizes) -> Policy:
    """Make the policy."""
    return BetterLaw()
