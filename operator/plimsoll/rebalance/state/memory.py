"""The live loop's memory of one deployment between two turns: what it saw, and what it learned."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.public_words import Numbers
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.demands.pools import Place
from plimsoll.rebalance.law import dispersion
from plimsoll.rebalance.law.capacity import FIRST_TOKEN_SHARE, TOKEN_SHARE, ReplicaModel, seconds_while_generating
from plimsoll.rebalance.law.dispersion import USUAL_DISPERSION
from plimsoll.rebalance.law.spread import NO_SPREAD, Spread
from plimsoll.rebalance.law.wishes import NORMAL_QUEUE, PATIENCE_SECONDS
from plimsoll.rebalance.signals.forecast import Point
from plimsoll.rebalance.signals.idle import LONGEST_HOLE_SECONDS, Quiet
from plimsoll.rebalance.signals.load import LEAST_RECENT_SECONDS
from plimsoll.rebalance.signals.traffic import ENOUGH_FINISHED, LENGTHS_SECONDS, Lengths, Traffic
from plimsoll.rebalance.state.decisions import DecisionReason

LEARNED_SHARE = 0.15
"""The part of a difference that a measurement over half a minute corrects. Five minutes correct 80 %."""

AGREES = 0.25
"""A measured time that differs by less from the learned one confirms it."""

MOST_WRONG = 3.0
"""The performance model is never trusted to be wrong by more than this factor. Beyond it, something else is slow."""

UNIMPORTANT = 0.1
"""Differences of learned figures that change no decision by a replica of ten."""

SAME_ANSWERS = 0.25
"""A mean of answers that differs by less is the same one: with 60 answers of the spread of public traces, chance makes
a difference of 13 % (one standard deviation). What is decided from it is rounded more than that."""

SAME_DISPERSION = 0.5
"""An index of dispersion that differs by less is the same one: a variance of a few replicas is known no better, and its
root decides."""

LONGEST_GAP_SECONDS = 90.0
"""If no pod was known for longer than this, what was enough before says nothing of the time since."""

LONGEST_LOOK_SECONDS = 30.0
LEAST_LOOKS = 20
"""Turns come every 5 to 10 s. Those of up to 30 s are kept as one, and less if the time that counts is short: it
always has so many looks. A need is then forgotten by at most that much later than it was there."""

STUCK_STARTUPS = 1.5
"""A replica is stuck if it has started for longer than the longest start-up seen, times this factor. If none was seen,
that is so only of one that failed: see :attr:`plimsoll.rebalance.state.situation.Situation.stuck`."""

LEAST_STUCK_SECONDS = 60.0
"""No replica is stuck sooner: if the image is on one node already, another node may take this long to pull it."""

MOST_OTHERS = 8
"""The most pools that were left and are remembered."""


@dataclass(frozen=True, slots=True)
class Look:
    """Turns that follow closely: the most replicas that would have been enough at one of them, with room to spare.

    ``at`` is the first turn and ``until`` the last one, in POSIX seconds. ``rate`` are the most requests a second.
    """

    at: float
    enough: int
    until: float
    rate: float

    def with_turn(self, enough: int, rate: float, now: float) -> Look:
        """Return the look with one more turn."""
        return replace(self, enough=max(self.enough, enough), until=now, rate=max(self.rate, rate))


@dataclass(frozen=True, slots=True)
class Sought:
    """The last search for another place: why (a public reason), in which market and for which load (``digest``).

    ``place`` and ``replicas`` are what was found, with the ``numbers`` of their sentence; None: nothing. ``engine`` is
    that of the place; empty: the one that runs.
    """

    reason: str
    digest: int
    place: Place | None = None
    replicas: int = 0
    numbers: Numbers = ()
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A replica that is not like the others: why (slow or silent), and since when in POSIX seconds.

    Of a slow one, ``seconds`` are those between two of its tokens, and ``ratio`` is that to ``usual_seconds``, which
    tokens take at the same load.
    """

    pod: str
    reason: DecisionReason
    since: float
    ratio: float = 1.0
    seconds: float = 0.0
    usual_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Learned:
    """The part that the status keeps across restarts.

    Attributes:
        pool: the pool whose replicas were measured.
        slowness: the measured time of a token over that of the performance model.
        startup_seconds: the longest start-up that was seen; None: none.
        most_work: what one replica does a second with a long queue (:attr:`Lengths.work` of the requests that it
            begins); None: no long queue was seen.
        output_tokens: the mean length of an answer; None: too few were seen. It does not depend on the pool.
        others: the slownesses of pools that were left, by name. Without them, a place that proved too slow would look
            as good as the performance model says.
        spread: the promised percentile over the mean. It does not depend on the pool.
        engine: the name of the engine that was measured, in all of these pools.
        dispersion: how unevenly requests are spread over the replicas. It is the router's, and no pool's.
    """

    pool: str
    slowness: float = 1.0
    startup_seconds: float | None = None
    most_work: float | None = None
    output_tokens: float | None = None
    others: tuple[tuple[str, float], ...] = ()
    spread: Spread = NO_SPREAD
    engine: str = DEFAULT_ENGINE
    dispersion: float = USUAL_DISPERSION

    def is_like(self, other: Learned) -> bool:
        """Whether the difference is too small to write it: 10 % of each figure; a new length of answers is written."""
        slow, known = dict(self.others), dict(other.others)
        pairs = (
            (self.slowness, other.slowness),
            (self.startup_seconds or 0.0, other.startup_seconds or 0.0),
            (self.most_work or 0.0, other.most_work or 0.0),
            (self.spread.first_token or 0.0, other.spread.first_token or 0.0),
            (self.spread.token or 0.0, other.spread.token or 0.0),
            *((slow[pool], known[pool]) for pool in slow.keys() & known.keys()),
        )
        ours = self.pool, self.engine, self.output_tokens
        theirs = other.pool, other.engine, other.output_tokens
        kinds = (slow.keys(), self.spread.percentile), (known.keys(), other.spread.percentile)
        is_as_even = abs(self.dispersion - other.dispersion) <= SAME_DISPERSION * other.dispersion
        same = ours == theirs and kinds[0] == kinds[1] and is_as_even
        return same and all(abs(ours - theirs) <= UNIMPORTANT * theirs for ours, theirs in pairs)


@dataclass(frozen=True, slots=True)
class LoopMemory(Learned):
    """The traces that one deployment's turns left behind.

    Attributes:
        looks: the turns of the time for which fewer replicas must have been enough.
        points: the arrivals over time, while no request waited.
        compared_at: up to when a token's time was last compared with the performance model's, POSIX seconds.
        missed_since: since when a measured time misses its promise, POSIX seconds; None: none does.
        strained_since: since when a token takes longer than a replica's capacity allows for, POSIX seconds.
        queued_since: since when replicas that have all served for a while have a long queue, POSIX seconds.
        sought: the last search for another place; None: there was none.
        turn_before: the turn before the last one, POSIX seconds; None: there was none, or it was too long ago.
        quiet_since: POSIX seconds since when no request came; None: unknown.
        quiet_at: the last turn that knew this.
        cut_off_since: since when no request reaches the picker of a router, POSIX seconds; None: they do.
        suspects: the replicas that are slow or silent, the oldest first.
        speed_agreed: whether a token's time once was about as this process had learned it.
        spread_at: up to when the spread was last measured, POSIX seconds.
        dispersion_at: the same of the dispersion.
    """

    pool: str = ""
    looks: tuple[Look, ...] = ()
    points: tuple[Point, ...] = ()
    compared_at: float = 0.0
    missed_since: float | None = None
    strained_since: float | None = None
    queued_since: float | None = None
    sought: Sought | None = None
    turn_before: float | None = None
    quiet_since: float | None = None
    quiet_at: float = 0.0
    cut_off_since: float | None = None
    suspects: tuple[Suspect, ...] = ()
    speed_agreed: bool = False
    spread_at: float = 0.0
    dispersion_at: float = 0.0

    @staticmethod
    def of(learned: Learned) -> LoopMemory:
        """Return the memory of a new process."""
        figures = learned.slowness, learned.startup_seconds, learned.most_work, learned.output_tokens
        others, spread = learned.others[-MOST_OTHERS:], learned.spread
        return LoopMemory(learned.pool, *figures, others, spread, learned.engine, learned.dispersion)

    @property
    def learned(self) -> Learned:
        """The part that survives a restart. A slowness of exactly 1 was never measured.

        A router that spreads requests more evenly than usual changes nothing.
        """
        figures = self.slowness, self.startup_seconds, self.most_work, self.output_tokens
        others = tuple(each for each in self.others if each[1] != 1)
        uneven = max(USUAL_DISPERSION, self.dispersion)
        return Learned(self.pool, *figures, others, self.spread, self.engine, uneven)

    def about(self, pool: str, engine: str = DEFAULT_ENGINE) -> LoopMemory:
        """Return the memory for a pool. Other replicas are another kind: of them, at most the slowness is known.

        Of another engine not even that is. How long answers are does not depend on the pool or the engine. Without a
        pool, no engine runs instead of the one that did.
        """
        engine = engine if pool else self.engine
        if (pool, engine) == (self.pool, self.engine):
            return self
        known = {name: slowness for name, slowness in self.others if name != self.pool} | {self.pool: self.slowness}
        known = known if engine == self.engine else {}
        others = tuple((name, slowness) for name, slowness in known.items() if name not in ("", pool))[-MOST_OTHERS:]
        known_here = LoopMemory(pool=pool, slowness=known.get(pool, 1.0), others=others, suspects=self.suspects)
        about_requests = replace(known_here, output_tokens=self.output_tokens, spread=self.spread)
        return replace(about_requests, engine=engine, dispersion=self.dispersion)

    def known_of(self, model: ReplicaModel) -> ReplicaModel:
        """Return the model of a replica with what was learned."""
        return replace(model, slowness=self.slowness, spread=self.spread, dispersion=self.dispersion)

    def slowness_at(self, pool: str) -> float:
        """Return the slowness to expect of a pool: the one learned there, else this one if it is above 1."""
        return dict(self.others).get(pool, max(1.0, self.slowness))

    def with_promise(self, *, missed: bool, strained: bool, now: float) -> LoopMemory:
        """Return the memory with the moments since when a promise is missed, and since when a token takes too long."""
        missed_since = (now if self.missed_since is None else self.missed_since) if missed else None
        strained_since = (now if self.strained_since is None else self.strained_since) if strained else None
        if (missed_since, strained_since) == (self.missed_since, self.strained_since):
            return self
        return replace(self, missed_since=missed_since, strained_since=strained_since)

    def with_way(self, *, cut_off: bool, now: float) -> LoopMemory:
        """Return the memory with the moment since when no request reaches the picker."""
        since = (now if self.cut_off_since is None else self.cut_off_since) if cut_off else None
        return self if since == self.cut_off_since else replace(self, cut_off_since=since)

    @property
    def expected_startup_seconds(self) -> float:
        """The start-up to expect of a new replica."""
        return self.startup_seconds or FIRST_STARTUP_SECONDS

    @property
    def stuck_after_seconds(self) -> float:
        """How long a replica may start before it is no supply."""
        return max(LEAST_STUCK_SECONDS, STUCK_STARTUPS * self.expected_startup_seconds)

    def with_startup(self, seconds: float | None) -> LoopMemory:
        """Return the memory with a start-up that was seen; None: none was."""
        if seconds is None or seconds <= (self.startup_seconds or 0.0):
            return self
        return replace(self, startup_seconds=seconds)

    def with_spread(self, traffic: Traffic, percentile: int | None) -> LoopMemory:
        """Return the memory with the promised percentile over the mean, once for each new window without a queue.

        Of another percentile than the one that was promised before, nothing is known.
        """
        spread = self.spread.about(percentile)
        is_new = traffic.end - self.spread_at >= traffic.recent.seconds
        if percentile is None or not is_new or not traffic.waiting < traffic.pods <= traffic.running:
            return self if spread == self.spread else replace(self, spread=spread)
        usual = 1 / FIRST_TOKEN_SHARE, 1 / TOKEN_SHARE
        spread = spread.learned(traffic.ttft_percentile, traffic.token_percentile, usual, _learned_share(traffic))
        return replace(self, spread=spread, spread_at=traffic.end)

    def with_dispersion(self, traffic: Traffic, pods: Collection[str]) -> LoopMemory:
        """Return the memory with how unevenly these pods hold requests, once for each new window.

        Pods that have just begun hold less than the others, whatever the router does: they should not be among these.
        """
        seconds, lengths = traffic.end - self.dispersion_at, traffic.lengths
        if lengths is None or seconds < traffic.recent.seconds:
            return self
        held = [each.used_tokens for each in traffic.loads if each.pod in pods]
        seen = dispersion.dispersion_of(held, lengths.in_cache)
        if seen is None:
            return self
        index = dispersion.learned(self.dispersion, seen, len(held), min(seconds, 2 * traffic.recent.seconds))
        return replace(self, dispersion=index, dispersion_at=traffic.end)

    def with_speed(self, traffic: Traffic, replica: ReplicaModel) -> LoopMemory:
        """Return the memory with the measured time per token compared with the model's, once for the same samples.

        Engines with a queue, and engines that do nothing, teach nothing: the model's load is another one then.
        """
        measured, lengths = traffic.token_seconds, traffic.lengths
        is_new = traffic.end - self.compared_at >= traffic.recent.seconds
        is_usual = traffic.waiting < traffic.pods <= traffic.running
        if measured is None or lengths is None or not (is_new and is_usual):
            return self
        expected = _expected_token(replace(replica, slowness=1.0), lengths, traffic)
        ratio = min(MOST_WRONG, max(1 / MOST_WRONG, measured / expected))
        slowness = self.slowness * (ratio / self.slowness) ** _learned_share(traffic)
        agrees = self.speed_agreed or abs(ratio / self.slowness - 1) <= AGREES
        return replace(self, slowness=slowness, compared_at=traffic.end, speed_agreed=agrees)

    def with_work(self, traffic: Traffic, *, is_saturated: bool) -> LoopMemory:
        """Return the memory with what a replica does at most.

        With a long queue at replicas that have all served for a while, this is measured: once the queue has been long
        for as long as the counted time. Before, it counts what replicas did without one. Without a queue, a replica
        that does more proves that the figure is too low.
        """
        since = self._queued_since(traffic.end) if is_saturated else None
        memory = self if since == self.queued_since else replace(self, queued_since=since)
        if traffic.lengths is None:
            return memory
        work = traffic.served * traffic.lengths.work / traffic.pods
        if since is not None and traffic.end - since >= traffic.recent.seconds and work > 0:
            known = work if self.most_work is None else self.most_work
            return replace(memory, most_work=known + LEARNED_SHARE * (work - known))
        is_more = self.most_work is not None and traffic.waiting < traffic.pods and work > self.most_work
        return replace(memory, most_work=work) if is_more else memory

    def _queued_since(self, end: float) -> float:
        """Return since when a queue that is long at a moment has been long. After a time without turns it is new."""
        is_gone = bool(self.looks) and end - self.looks[-1].until > LONGEST_GAP_SECONDS
        return end if self.queued_since is None or is_gone else min(end, self.queued_since)

    def with_answers(self, traffic: Traffic) -> LoopMemory:
        """Return the memory with the mean length of answers, if it differs from the known one by more than chance.

        Few requests give no mean: so many must come in the time over which lengths are counted as a mean needs.
        """
        lengths, known = traffic.lengths, self.output_tokens
        if lengths is None or traffic.steady.per_second * LENGTHS_SECONDS[-1] < ENOUGH_FINISHED:
            return self
        tokens = float(round(lengths.output))
        if known is not None and abs(tokens - known) <= SAME_ANSWERS * known:
            return self
        return replace(self, output_tokens=tokens)

    def after_retune(self) -> LoopMemory:
        """Return the memory for engines with another limit: what a replica did at most is known no more."""
        return replace(self, most_work=None)

    def with_arrivals(self, traffic: Traffic, keep_seconds: float, now: float) -> LoopMemory:
        """Return the memory with one more point for each new window in which no client has given up unseen.

        A short queue hides nobody: what came is what ended, and what more runs and waits. If the first token takes half
        of clients' patience, some may have left, and with more replicas fewer leave, which looks like a rise.
        """
        is_known = bool(self.points) and now - self.points[-1].at < traffic.recent.seconds
        has_queue, waits = traffic.waiting >= NORMAL_QUEUE * traffic.pods, traffic.ttft_seconds
        if is_known or (has_queue and (waits is None or waits > PATIENCE_SECONDS / 2)):
            return self
        kept = tuple(point for point in self.points if now - point.at <= keep_seconds)
        return replace(self, points=(*kept, Point(now, traffic.recent.per_second)))

    def with_quiet(
        self, quiet: Quiet, now: float, before: Quiet | None = None, *, has_gateway: bool = False
    ) -> LoopMemory:
        """Return the memory after a turn in which every ready pod was known.

        After a time without such turns, what was known before says nothing any more. ``before`` is what samples show of
        the time before this process began. It counts once, if the first turn continues it without a hole. Samples of
        engines alone show nothing of an earlier time if a gateway may have held a request.
        """
        earlier = self.quiet_since if now - self.quiet_at <= LONGEST_HOLE_SECONDS else None
        if self.quiet_since is None and before is not None and before.known_until >= quiet.known_since:
            earlier = before.since(None)
        since = now if earlier is None and has_gateway else quiet.since(earlier)
        return replace(self, quiet_since=since, quiet_at=now)

    def with_look(self, enough: int, keep_seconds: float, now: float, rate: float) -> LoopMemory:
        """Return the memory with one more turn, without those that are too old, or that lie before a gap.

        Turns that follow closely are one look with the most replicas of them, so that no need is forgotten.
        """
        last = self.looks[-1].until if self.looks else None
        has_gap = last is not None and now - last > LONGEST_GAP_SECONDS
        old = sum(now - look.at >= keep_seconds for look in self.looks)
        kept = () if has_gap else self.looks[max(0, old - 1) :]  # the newest of the old ones covers the time's begin
        if kept and 0 <= now - kept[-1].at < min(LONGEST_LOOK_SECONDS, keep_seconds / LEAST_LOOKS):
            looks = (*kept[:-1], kept[-1].with_turn(enough, rate, now))
        else:
            looks = (*kept, Look(now, enough, now, rate))
        return replace(self, looks=looks, turn_before=None if has_gap else last)


def _learned_share(traffic: Traffic) -> float:
    """Return the part of a difference that the last scrapes correct: the longer they count, the more."""
    return 1 - math.pow(1 - LEARNED_SHARE, traffic.recent.seconds / LEAST_RECENT_SECONDS)


def _expected_token(replica: ReplicaModel, lengths: Lengths, traffic: Traffic) -> float:
    """Return the mean seconds between two tokens by the model, each pod with the requests that it ran itself."""
    timed = [
        (seconds_while_generating(replica, lengths, each.generating), each.token_seconds.number)
        for each in traffic.loads
    ]
    return sum(seconds * number for seconds, number in timed) / sum(number for _, number in timed)
