"""One look at the load: how many replicas it needs, and what the look teaches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from plimsoll.rebalance.diagnosis.replicas import Alike, alike_of, with_suspects
from plimsoll.rebalance.guard import cooldown_seconds
from plimsoll.rebalance.law.capacity import ReplicaModel
from plimsoll.rebalance.law.promise import is_strained, missed_figures
from plimsoll.rebalance.law.wishes import (
    LONG_QUEUE,
    DeploymentLoad,
    Wish,
    wish_for_queue,
    wish_of,
    with_forecast,
)
from plimsoll.rebalance.signals.forecast import LEAST_STARTUP_SECONDS, Expected, expected_within, rise_within
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.traffic import Traffic
from plimsoll.rebalance.state.history import ChangeKind
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.situation import Situation

SETTLED_SECONDS = 45.0
SETTLED_SCRAPES = 3
"""How long every replica must have served before a long queue alone asks for more, or teaches anything: three scrapes,
which usually are 15 s apart."""

FILLED_SECONDS = 180.0
"""How long a new replica takes until it holds as many requests as the others: a few times as long as a long answer."""

TREND_SECONDS = 600.0
"""A trend is looked for in the last ten minutes, or in two start-ups if these are longer."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The wish for the load, for all replicas. None if no pod is known. ``memory`` has learned from the look.

    ``alike`` is the load of the replicas that are alike.
    """

    wish: Wish | None
    memory: LoopMemory
    model: ReplicaModel | None = None
    alike: Alike | None = None

    @property
    def traffic(self) -> Traffic | None:
        """The load of the replicas that are alike; None if no pod is known."""
        return None if self.alike is None else self.alike.traffic


def judged(situation: Situation) -> Judged:
    """Look at the load once."""
    memory = with_suspects(situation.memory.with_startup(situation.placement.startup_seconds), situation)
    if situation.load.traffic is None:
        return Judged(_without_engines(situation), memory)
    alike = alike_of(situation, memory, situation.load.traffic)
    traffic = alike.traffic
    memory = _with_quiet(_with_lessons(memory, situation, alike), situation)
    wish, model = _wish(memory, situation, alike)
    wish = _with_unknown(wish, situation.unknown)
    missed = model is not None and bool(missed_figures(traffic, model.slo))
    strained = model is not None and is_strained(traffic, model)
    memory = memory.with_promise(missed=missed, strained=strained, now=situation.now)
    memory = memory.with_look(wish.enough, cooldown_seconds(situation), situation.now, wish.rate)
    return Judged(wish, memory, model, alike)


def without_promise(judged: Judged, situation: Situation, figure: str) -> Judged:
    """Return the wish if a promised time (``ttft`` or ``tpot``) does not count, because no replica keeps it."""
    alike, model = judged.alike, situation.placement.model
    if alike is None or model is None:
        return judged
    slo = replace(model.slo, ttft_seconds=None) if figure == "ttft" else replace(model.slo, tpot_seconds=None)
    placement = replace(situation.placement, model=replace(model, slo=slo))
    wish, relaxed = _wish(judged.memory, replace(situation, placement=placement), alike)
    return replace(judged, wish=replace(wish, replicas=wish.replicas + situation.unknown), model=relaxed)


def _with_unknown(wish: Wish, unknown: int) -> Wish:
    return replace(wish, replicas=wish.replicas + unknown, enough=wish.enough + unknown, kept=wish.kept + unknown)


def _with_lessons(memory: LoopMemory, situation: Situation, alike: Alike) -> LoopMemory:
    """Return the memory with what the replicas that are alike teach.

    Those with a queue of their own show what a replica does at most. If requests wait at the gateway alone, all do. If
    others do more without a queue, it shows nothing: a replica may just have become slow.
    """
    model, keep = situation.placement.model, max(TREND_SECONDS, 2 * memory.expected_startup_seconds)
    traffic, teaching = alike.traffic, alike.teaching
    if not alike.teaches:
        return memory.with_answers(traffic).with_arrivals(traffic, keep, situation.now)
    if model is not None:
        memory = memory.with_spread(traffic, model.slo.percentile)
        memory = memory.with_speed(teaching, model)
    memory = memory.with_dispersion(teaching, _long_serving(situation, alike))
    busy = [each for each in (*teaching.loads, *alike.favoured) if each.waiting >= LONG_QUEUE]
    waiting = teaching.waiting + sum(each.waiting for each in alike.favoured)
    is_odd = bool(busy) and fmean(each.served for each in busy) < fmean(each.served for each in teaching.loads)
    has_queue = waiting >= LONG_QUEUE * teaching.pods and _is_settled(situation) and not is_odd
    measured = teaching.of_pods(busy) if has_queue and busy else teaching
    memory = memory.with_work(measured, is_saturated=has_queue).with_answers(traffic)
    return memory.with_arrivals(traffic, keep, situation.now)


def _long_serving(situation: Situation, alike: Alike) -> frozenset[str]:
    """Return the pods that have served for so long that they are as full as the router makes them."""
    favoured = {each.pod for each in alike.favoured}
    return frozenset(
        each.pod
        for each in situation.placement.serving
        if each.pod not in favoured and each.since is not None and situation.now - each.since >= FILLED_SECONDS
    )


def _without_engines(situation: Situation) -> Wish | None:
    """Return the wish for the gateway's queue, if no engine is known; None if nobody waits."""
    queue, model = situation.load.gateway or GatewayQueue(), situation.placement.model
    return wish_for_queue(queue.waiting, model) if queue.waiting > 0 else None


def _with_quiet(memory: LoopMemory, situation: Situation) -> LoopMemory:
    """Note since when no request came, if every ready pod and the gateway say so."""
    load, quiet, queue = situation.load, situation.load.quiet, situation.load.gateway
    all_known = load.state is SignalState.FRESH and load.fresh_pods >= situation.placement.ready
    if quiet is None or not all_known or not (queue is None or queue.is_known):
        return memory
    held_at = situation.now if queue is not None and queue.waiting > 0 else None
    moments = (quiet.last_request, situation.placement.settled_since, held_at)
    quiet = replace(quiet, last_request=max((at for at in moments if at is not None), default=None))
    return memory.with_quiet(quiet, situation.now, load.quiet_before, has_gateway=queue is not None)


def _wish(memory: LoopMemory, situation: Situation, alike: Alike) -> tuple[Wish, ReplicaModel | None]:
    placement, startup, traffic = situation.placement, memory.expected_startup_seconds, alike.traffic
    model = None if placement.model is None else memory.known_of(placement.model)
    load = DeploymentLoad(
        traffic,
        traffic.pods,
        max(1, situation.load.held_tokens // (traffic.pods + len(alike.apart))),
        rise=rise_within(memory.points, startup + traffic.steady.seconds / 2),
        is_settled=_is_settled(situation),
        most_work=memory.most_work,
        startup_seconds=startup,
        apart=len(alike.apart),
        lost=alike.lost,
        share=alike.share,
        served=traffic.served if situation.load.traffic is None else situation.load.traffic.served,
        stay_seconds=cooldown_seconds(situation),
        starting=tuple(
            max(0.0, since + startup - situation.now)
            for since in placement.starting_since
            if situation.now - since <= memory.stuck_after_seconds
        ),
    )
    coming = None if _has_just_removed(situation) else _expected(memory, situation, traffic, 0.0)
    later = _expected(memory, situation, traffic, cooldown_seconds(situation))
    return with_forecast(wish_of(load, model), coming, later), model


def _has_just_removed(situation: Situation) -> bool:
    """Whether a forecast would take a removal back: then arrivals decide."""
    last = situation.history.last(ChangeKind.REMOVE)
    return last is not None and situation.now - last < cooldown_seconds(situation)


def _expected(memory: LoopMemory, situation: Situation, traffic: Traffic, more_seconds: float) -> Expected | None:
    """Return the arrivals to expect until so long after a start-up; None if start-ups are short or nothing rises."""
    season, startup = situation.load.season, memory.startup_seconds or 0.0
    if season is None or startup < LEAST_STARTUP_SECONDS:
        return None
    return expected_within(season, situation.now, startup + more_seconds, traffic.arrivals.per_second)


def _is_settled(situation: Situation) -> bool:
    """Whether all replicas have served for a while as they are set now.

    A queue is no news while it is left of a start, or of engines that are replaced by others with a larger limit.
    """
    placement, retuned = situation.placement, situation.history.last(ChangeKind.RETUNE)
    all_ready = placement.ready >= placement.replicas - placement.new_replicas
    since = placement.settled_since
    if since is None or placement.updating or not all_ready:
        return False
    scrapes = SETTLED_SCRAPES * (situation.load.period_seconds or 0.0)
    return situation.now - max(since, retuned or since) > max(SETTLED_SECONDS, scrapes)
