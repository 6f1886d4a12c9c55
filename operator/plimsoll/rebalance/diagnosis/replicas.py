"""Replicas that are not alike: slow ones, silent ones, and ones to which a router sends more than to others.

What a replica carries is learned from those that are alike, and the number of replicas follows from the total of what
arrives. A slow replica counts as the part of one that it serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, median

from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_milliseconds, to_percent
from plimsoll.rebalance.law.capacity import ReplicaModel, seconds_while_generating
from plimsoll.rebalance.law.wishes import LONG_QUEUE
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.traffic import SIGNIFICANT, PodLoad, Sum, Traffic, summed
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.history import ChangeKind
from plimsoll.rebalance.state.memory import LoopMemory, Suspect
from plimsoll.rebalance.state.situation import Situation

SLOWER = 1.5
"""A replica may be slow from this factor on, by the model as by its siblings, at a load like theirs."""

MUCH_SLOWER = 2.0
"""The factor at another load than that of the siblings, with one sibling, or with none: then the model has to be right
about the difference."""

LIKE_LOAD = 1.25
"""Requests that come, over those that come to a usual sibling, up to which both have a load alike. A slower replica
runs more of them at the same time, because each stays longer (Little's law)."""

STAYS = 0.8
"""A replica is no suspect any more below this part of the factor."""

LEAST_TOKENS = 100
"""Times between two tokens that a mean of them needs: those of one batch are alike, and single long steps are not."""

SLOW_SECONDS = 120.0
"""How long a replica must be slow before anything is done about it: eight scrapes of 15 s.

In 17 simulated runs of eleven situations without a slow replica, none was a suspect for longer than 40 s.
"""

SILENT_SECONDS = 300.0
"""How long a ready replica may report nothing while others do. Scrapes are lost, and an exporter may start again."""

LEAST_COUNTED_SECONDS = 30.0
"""How long arrivals at a replica are counted before its share of them says something."""


_UNUSABLE = (SignalState.STALE, SignalState.MISSING, SignalState.INVALID)


@dataclass(frozen=True, slots=True)
class Alike:
    """The load of the replicas that are alike, with all requests that come.

    Attributes:
        traffic: their load. Of a favoured replica, the queue counts as if it were that of the others: no other replica
            serves what waits there.
        apart: the slow replicas.
        favoured: the replicas to which more is sent than to the others.
        lost: how many replicas the slow ones are less than they seem, as far as no successor starts.
        share: all requests that come over those that come to replicas that are alike.
        teaches: whether it shows what a replica does. A lone slow one does not, before a new one was no better.
    """

    traffic: Traffic
    apart: tuple[PodLoad, ...] = ()
    favoured: tuple[PodLoad, ...] = ()
    lost: float = 0.0
    share: float = 1.0
    teaches: bool = True

    @property
    def teaching(self) -> Traffic:
        """The load of those that show what a replica does: without those that generate nothing."""
        loads = [each for each in self.traffic.loads if not each.is_stalled]
        return self.traffic.of_pods(loads) if 0 < len(loads) < len(self.traffic.loads) else self.traffic


def alike_of(situation: Situation, memory: LoopMemory, traffic: Traffic) -> Alike:
    """Return the load of the replicas that are alike. If all are suspects, none of them is left out."""
    slow = {each.pod: each for each in memory.suspects if each.reason is DecisionReason.REPLICA_SLOW}
    apart = tuple(each for each in traffic.loads if each.pod in slow)
    rest = tuple(each for each in traffic.loads if each.pod not in slow)
    if not rest:
        back = situation.history.only(DecisionReason.REPLICA_SLOW.value).last(ChangeKind.ROLL_BACK)
        return Alike(traffic, teaches=back is not None)
    favoured = favoured_of(rest)
    if not apart and not favoured:
        return Alike(traffic)
    others = [each for each in rest if each not in favoured]
    waiting, preempted = fmean(each.waiting for each in others), summed(each.preempted for each in others)
    usual = Sum(preempted.total / len(others), preempted.number / len(others))
    loads = [replace(each, waiting=waiting, preempted=usual) if each in favoured else each for each in rest]
    successor = situation.replacement
    lost = (slow[each.pod] for each in apart if successor is None or each.pod != successor.pod)
    came, of_rest = (sum(each.arrivals.per_second for each in some) for some in (traffic.loads, rest))
    return Alike(
        traffic.of_pods(loads),
        apart,
        favoured,
        sum(1 - 1 / each.ratio for each in lost if is_certain(each, situation)),
        min(came / of_rest, len(traffic.loads) / len(rest)) if of_rest > 0 else 1.0,
    )


def is_certain(suspect: Suspect, situation: Situation) -> bool:
    """Whether a replica has been slow or silent for long enough to do something about it."""
    return situation.now - suspect.since >= _seconds_to_be_certain(suspect.reason, situation)


def _seconds_to_be_certain(reason: str, situation: Situation) -> float:
    bound = SLOW_SECONDS if reason == DecisionReason.REPLICA_SLOW else SILENT_SECONDS
    return max(bound, 2 * (situation.load.period_seconds or 0.0))


def cleared_nodes(memory: LoopMemory, situation: Situation) -> frozenset[str]:
    """Return the nodes that were left for one replica and where a later one is like the others.

    It has served there for as long as a replica must be slow or silent until it counts as that.
    """
    load, suspects = situation.load, {each.pod for each in memory.suspects}
    compared = _compared(memory, situation)
    fresh = {each.pod for each in load.pods if each.state is SignalState.FRESH}
    return frozenset(
        left.node
        for left in situation.left
        for each in situation.placement.serving
        if each.node == left.node
        and each.pod not in suspects
        and each.pod in (compared if left.reason == DecisionReason.REPLICA_SLOW else fresh)
        and each.since is not None
        and each.since >= left.at
        and situation.now - each.since >= _seconds_to_be_certain(left.reason, situation)
    )


def _compared(memory: LoopMemory, situation: Situation) -> frozenset[str]:
    """Return the replicas that would be suspects if they were slow: of others, nothing can be said now."""
    traffic = situation.load.traffic
    if traffic is None or traffic.lengths is None or situation.placement.model is None:
        return frozenset()
    measured = frozenset(each.pod for each in traffic.loads if _is_measured(each))
    return measured if len(measured) > 1 or memory.speed_agreed else frozenset()


def silent_pods(memory: LoopMemory, situation: Situation) -> frozenset[str]:
    """Return the ready replicas that have reported nothing for long while others did."""
    silent = (each for each in memory.suspects if each.reason is DecisionReason.REPLICA_SILENT)
    return frozenset(each.pod for each in silent if is_certain(each, situation))


def favoured_of(loads: Sequence[PodLoad]) -> tuple[PodLoad, ...]:
    """Return the replicas with a long queue that get more than chance makes of equal shares, if others have none."""
    above = [each for each in _above_equal_shares(loads) if each.waiting >= LONG_QUEUE]
    others = [each.waiting for each in loads if each not in above]
    return tuple(above) if above and others and fmean(others) < 1 else ()


def uneven(traffic: Traffic | None) -> bool:
    """Whether more requests come to some replicas than chance makes of equal shares."""
    return traffic is not None and any(_above_equal_shares(traffic.loads))


def _above_equal_shares(loads: Sequence[PodLoad]) -> Iterator[PodLoad]:
    """Yield the replicas that get more, if arrivals at each have been counted for long enough."""
    if not loads or any(each.arrivals.seconds < LEAST_COUNTED_SECONDS for each in loads):
        return
    usual = fmean(each.arrivals.per_second for each in loads)
    for each in loads:
        expected = usual * each.arrivals.seconds
        if each.arrivals.per_second * each.arrivals.seconds - expected > SIGNIFICANT * sqrt(expected):
            yield each


def share_numbers(favoured: PodLoad, loads: Sequence[PodLoad]) -> Numbers:
    """Return the part of the requests that a replica gets, and an equal part, in percent; empty if nothing came."""
    total = sum(each.arrivals.per_second for each in loads)
    if total <= 0:
        return ()
    share = favoured.arrivals.per_second / total
    return ("share_percent", to_percent(share)), ("equal_percent", to_percent(1 / len(loads)))


def with_suspects(memory: LoopMemory, situation: Situation) -> LoopMemory:
    """Return the memory with the replicas that are slow or silent now, each with the moment since when.

    One of which nothing can be said now stays a suspect. A clock that was set back lengthens no time.
    """
    load, now = situation.load, situation.now
    known = {(each.pod, each.reason): each for each in memory.suspects}
    found = {(each.pod, each.reason): each for each in (*_slow(situation, memory, known.keys()), *_silent(load, now))}
    ready = {each.pod for each in load.pods}
    measured = set() if load.traffic is None else {each.pod for each in load.traffic.loads if _is_measured(each)}
    silent = set() if load.fresh_pods else ready
    unsaid = {DecisionReason.REPLICA_SLOW: ready - measured, DecisionReason.REPLICA_SILENT: silent}
    kept = {key: each for key, each in known.items() if each.pod in unsaid[each.reason]}
    suspects = [
        replace(each, since=min(now, known[key].since)) if key in known else each
        for key, each in (kept | found).items()
    ]
    if not (suspects or known):
        return memory
    return replace(memory, suspects=tuple(sorted(suspects, key=lambda each: (each.since, each.pod))))


def _silent(load: LoadSummary, now: float) -> Iterator[Suspect]:
    """Yield the ready replicas that report nothing usable while others do. If none reports, the source is at fault."""
    if load.fresh_pods:
        for each in load.pods:
            if each.state in _UNUSABLE:
                yield Suspect(each.pod, DecisionReason.REPLICA_SILENT, now)


def _slow(situation: Situation, memory: LoopMemory, known: Iterable[object]) -> Iterator[Suspect]:
    """Yield the replicas that are slower than their siblings, and than the model with what was learned says.

    Of a lone one, an earlier speed must have agreed with what was learned: the model alone may be wrong.
    """
    traffic, model, before = situation.load.traffic, situation.placement.model, set(known)
    if traffic is None or traffic.lengths is None or model is None:
        return
    model = replace(model, slowness=memory.slowness)
    speeds = [_Speed.of(each, traffic, model) for each in traffic.loads]
    measured = [each for each in speeds if each is not None]
    for speed in measured:
        others = [each for each in measured if each is not speed]
        usual = median(each.by_model for each in others) if others else 1.0
        bound = speed.bound(others) * (STAYS if (speed.load.pod, DecisionReason.REPLICA_SLOW) in before else 1.0)
        ratio = speed.by_model / usual
        if (others or memory.speed_agreed) and min(ratio, speed.by_model) >= bound:
            figures = ratio, speed.seconds, speed.seconds / ratio
            yield Suspect(speed.load.pod, DecisionReason.REPLICA_SLOW, situation.now, *figures)


def _is_measured(load: PodLoad) -> bool:
    return load.token_seconds.number >= LEAST_TOKENS


@dataclass(frozen=True, slots=True)
class _Speed:
    """The seconds between two tokens at one replica, and their ratio to those of the model at its load."""

    load: PodLoad
    seconds: float
    by_model: float

    @staticmethod
    def of(load: PodLoad, traffic: Traffic, model: ReplicaModel) -> _Speed | None:
        mean = load.token_seconds.mean
        if mean is None or traffic.lengths is None or not _is_measured(load):
            return None
        return _Speed(load, mean, mean / seconds_while_generating(model, traffic.lengths, load.generating))

    def bound(self, others: Sequence[_Speed]) -> float:
        """Return the factor from which it is slow."""
        if len(others) <= 1:
            return MUCH_SLOWER
        usual = median(each.load.arrivals.per_second for each in others)
        is_like = self.load.arrivals.per_second <= LIKE_LOAD * usual and not self.load.preempted.total
        return SLOWER if is_like else MUCH_SLOWER


def suspect_numbers(suspect: Suspect, situation: Situation) -> Numbers:
    """Return what proves that a replica is slow or silent, for people."""
    node = situation.placement.node_of(suspect.pod)
    where: Numbers = (("node", node),) if node else ()
    gpus = situation.load.gpus
    faults = "" if gpus is None else dict(gpus.faults).get(suspect.pod, "")
    seconds = round(situation.now - suspect.since)
    figures: Numbers = (
        ("pod", suspect.pod),
        *where,
        ("seconds", seconds),
        *((("fault", faults),) if faults else ()),
    )
    if suspect.reason is DecisionReason.REPLICA_SILENT:
        return figures
    return (
        *figures,
        ("ratio_percent", to_percent(suspect.ratio)),
        ("pod_ms", to_milliseconds(suspect.seconds)),
        ("usual_ms", to_milliseconds(suspect.usual_seconds)),
    )
