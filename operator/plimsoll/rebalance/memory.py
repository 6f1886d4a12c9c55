"""The live loop's memory of one deployment between two turns: what it saw, and what it learned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.rebalance.capacity import ReplicaModel, times_of
from plimsoll.rebalance.traffic import Traffic
from plimsoll.rebalance.trend import Point

LEARNED_SHARE = 0.15
"""The part of a difference in speed that one comparison corrects. With scrapes of 15 s, five minutes correct 80 %."""

MOST_WRONG = 3.0
"""The performance model is never trusted to be wrong by more than this factor. Beyond it, something else is slow."""

FIRST_STARTUP_SECONDS = 300.0
"""The start-up that is assumed before one was seen. llm-d reports 278 s for one start, with the image, the download
and the graphs (guides/gke-pod-snapshots)."""

UNIMPORTANT = 0.1
"""Differences of learned figures that change no decision by a replica of ten."""

LONGEST_GAP_SECONDS = 90.0
"""If no pod was known for longer than this, what was enough before says nothing of the time since."""

STUCK_STARTUPS = 1.5
"""A replica is stuck if it has started for longer than the longest start-up seen, times this factor."""

LEAST_STUCK_SECONDS = 60.0
"""No replica is stuck sooner: where the image is on one node already, another node may take this long to pull it."""


@dataclass(frozen=True, slots=True)
class Look:
    """One turn: the replicas that would have been enough, with room to spare."""

    at: float
    enough: int


@dataclass(frozen=True, slots=True)
class Learned:
    """The part that the status keeps across restarts, of the replicas of ``pool``; see :class:`LoopMemory`."""

    pool: str
    slowness: float = 1.0
    startup_seconds: float | None = None
    most_work: float | None = None

    def is_like(self, other: Learned) -> bool:
        """Whether the difference is too small to write it: 10 % of each figure."""
        pairs = (
            (self.slowness, other.slowness),
            (self.startup_seconds or 0.0, other.startup_seconds or 0.0),
            (self.most_work or 0.0, other.most_work or 0.0),
        )
        return self.pool == other.pool and all(abs(ours - theirs) <= UNIMPORTANT * theirs for ours, theirs in pairs)


@dataclass(frozen=True, slots=True)
class LoopMemory:
    """The traces that one deployment's turns left behind.

    Attributes:
        pool: the pool whose replicas were measured.
        looks: the turns of the time for which fewer replicas must have been enough.
        points: the arrivals over time, while no request waited.
        slowness: the measured time of a token over that of the performance model.
        compared_at: when these were last compared, POSIX seconds.
        startup_seconds: the longest start-up that was seen; None: none.
        most_work: what one replica does a second with a long queue (:attr:`Lengths.work` of the requests that it
            begins); None: no long queue was seen.
    """

    pool: str = ""
    looks: tuple[Look, ...] = ()
    points: tuple[Point, ...] = ()
    slowness: float = 1.0
    compared_at: float = 0.0
    startup_seconds: float | None = None
    most_work: float | None = None

    @staticmethod
    def of(learned: Learned) -> LoopMemory:
        """Return the memory of a new process."""
        return LoopMemory(
            learned.pool,
            slowness=learned.slowness,
            startup_seconds=learned.startup_seconds,
            most_work=learned.most_work,
        )

    @property
    def learned(self) -> Learned:
        """The part that survives a restart."""
        return Learned(self.pool, self.slowness, self.startup_seconds, self.most_work)

    def about(self, pool: str) -> LoopMemory:
        """Return the memory for a pool. Other replicas are another kind, of which nothing is known."""
        return self if pool == self.pool else LoopMemory(pool=pool)

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

    def with_speed(self, traffic: Traffic, replica: ReplicaModel, now: float) -> LoopMemory:
        """Return the memory with the measured time per token compared with the model's, once for each new window.

        Engines with a queue, and engines that do nothing, teach nothing: the model's load is another one then.
        """
        measured, lengths = traffic.token_seconds, traffic.lengths
        is_new = now - self.compared_at >= traffic.recent.seconds
        is_usual = traffic.waiting < traffic.pods <= traffic.running
        if measured is None or lengths is None or not (is_new and is_usual):
            return self
        expected = times_of(replace(replica, slowness=1.0), lengths, traffic.running / traffic.pods).token
        ratio = min(MOST_WRONG, max(1 / MOST_WRONG, measured / expected))
        slowness = self.slowness * (ratio / self.slowness) ** LEARNED_SHARE
        return replace(self, slowness=slowness, compared_at=now)

    def with_work(self, traffic: Traffic, *, is_saturated: bool) -> LoopMemory:
        """Return the memory with what a replica does at most.

        With a long queue at replicas that have all served for a while, this is measured. Without one, a replica that
        does more proves that the figure is too low.
        """
        if traffic.lengths is None:
            return self
        work = traffic.served * traffic.lengths.work / traffic.pods
        if is_saturated and work > 0:
            known = work if self.most_work is None else self.most_work
            return replace(self, most_work=known + LEARNED_SHARE * (work - known))
        is_more = self.most_work is not None and traffic.waiting < traffic.pods and work > self.most_work
        return replace(self, most_work=work) if is_more else self

    def after_retune(self) -> LoopMemory:
        """Return the memory for engines with another limit: what a replica did at most is known no more."""
        return replace(self, most_work=None)

    def with_arrivals(self, traffic: Traffic, keep_seconds: float, now: float) -> LoopMemory:
        """Return the memory with one more point for each new window without a queue.

        While requests wait, clients may give up unseen, and a queue that is served looks like a rise.
        """
        is_known = bool(self.points) and now - self.points[-1].at < traffic.recent.seconds
        if is_known or traffic.waiting >= 2 * traffic.pods:
            return self
        kept = tuple(point for point in self.points if now - point.at <= keep_seconds)
        return replace(self, points=(*kept, Point(now, traffic.recent.per_second)))

    def with_look(self, enough: int, keep_seconds: float, now: float) -> LoopMemory:
        """Return the memory with one more turn, without those that are too old, or that lie before a gap."""
        has_gap = bool(self.looks) and now - self.looks[-1].at > LONGEST_GAP_SECONDS
        old = sum(now - look.at >= keep_seconds for look in self.looks)
        kept = () if has_gap else self.looks[max(0, old - 1) :]  # the newest of the old ones covers the time's begin
        return replace(self, looks=(*kept, Look(now, enough)))
