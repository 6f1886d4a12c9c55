"""Shares the time for planning: nobody waits for the many, costly or often changed deployments of somebody else.

In each pass only so much CPU time goes to deployments that are new, have changed, or took long in the pass before.
Those beyond it wait for the next pass, and nothing of them changes meanwhile. Namespaces that took the least time
lately come first, and in each of them the higher priority, and then what was cheap. What had a turn without an answer,
because its model is still being read, for example, goes behind. All others cost nearly nothing:
their answers are used again.

A namespace that took much time lately makes way for one that took little: it waits for the next pass if such a
neighbour is in this pass, or asks for the next one. In the pass after that it has some time before it makes way again.

No namespace is planned far ahead of its writes: what is decided and not written yet is decided anew in each pass.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heapreplace
from typing import TypeVar

from plimsoll.decision.deployment import Deployment
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.public_words import ConditionReason
from plimsoll.status.record.report import DeploymentProblem

T = TypeVar("T")

SECONDS = 0.25
"""CPU seconds of a pass for deployments that are new or have changed. A pass in which nothing changes takes 0.15 s with
1,000 deployments, and placing 1,000 new ones of 20 kinds takes 2 s (``python -m benchmarks.planning.passes``)."""

ANSWERED_SECONDS = 1.0
"""The same for deployments that have not changed and took long in the pass before: if a live loop asks for other
places in each pass, or engines report something else each time. They take turns."""

KEPT_SECONDS = 0.1
"""The CPU seconds that are left to those that made way in the pass before, whoever asks for the next pass: nobody waits
for ever, and nobody waits for a whole pass."""

RECORDED_SECONDS = 3.0
"""The same after a start, for deployments that an earlier process has placed."""

READING_SHARE = 0.5
"""The part of these seconds in which specs are read; the other part is for the plan."""

CHEAP_SECONDS = 0.005
"""A deployment that took no longer than this in its last pass waits for nobody."""

FREE_CHANGES = 1
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
CALM_SECONDS = 10.0
"""A deployment that was changed is planned at once. If it is changed again and again, it waits for 1, 2, 4 and at most
30 seconds. Every ten seconds without a change one of the changes is forgotten."""

HALF_LIFE_SECONDS = 30.0
"""How fast the time that a namespace took is forgotten."""

MOST_UNWRITTEN = 64
UNWRITTEN_SECONDS = 30.0
"""The most decisions of a namespace that may wait to be written, in addition to those that are being written: twice as
many as are written at the same time. A decision that was not written within these seconds counts no longer, because the
API server may refuse it for ever."""

NOTICE_SECONDS = 2.0
LATE_NOTICE_SECONDS = 120.0
"""How long a deployment waits before its status says so. While decisions of its namespace are being written, each such
notice delays one of them."""

QUEUED = DeploymentProblem(
    ConditionReason.PLANNING_QUEUED,
    "Waits for its turn: many deployments have changed, and a pass plans some of each namespace. Nothing of it changes "
    "meanwhile.",
    permanent=False,
    reported_after_seconds=NOTICE_SECONDS,
)
CHANGED_OFTEN = DeploymentProblem(
    ConditionReason.PLANNING_QUEUED,
    f"It was changed again and again, and is planned every {LONGEST_PAUSE_SECONDS:.0f} s at the latest. Nothing of it "
    "changes meanwhile.",
    permanent=False,
    reported_after_seconds=NOTICE_SECONDS,
)
AFTER_OTHERS = DeploymentProblem(
    ConditionReason.PLANNING_QUEUED,
    "Waits for its turn: the decisions about many other deployments of its namespace are being written. Nothing of it "
    "changes meanwhile.",
    permanent=False,
    reported_after_seconds=LATE_NOTICE_SECONDS,
)


@dataclass(slots=True)
class _Known:
    """The last planning of a deployment: its generation, CPU seconds and time, and changes that count until then.

    ``turn`` is when it last had its turn, changed or not. All times are POSIX seconds.
    """

    generation: int
    cost: float
    at: float
    changes: float
    turn: float

    def changes_at(self, now: float) -> float:
        """Return the changes that still count."""
        return max(0.0, self.changes - (now - self.at) / CALM_SECONDS)

    def due(self, now: float) -> float:
        """Return when a changed spec may be planned, in POSIX seconds."""
        beyond = self.changes_at(now) - FREE_CHANGES
        if beyond < 0:
            return self.at
        return self.at + min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * math.pow(2.0, beyond))


@dataclass(slots=True)
class PlanningTime:
    """The time of each pass, and who took how much of it lately. Not thread-safe: one pass is made at a time.

    Args:
        seconds: for new, changed and costly deployments; see :data:`SECONDS`. Without a limit, nobody ever waits.
        recorded_seconds: for those that an earlier process has placed.
        clock: CPU seconds of the thread that plans.
        wall: seconds of any clock that is cheap to read.
        is_hurried: whether a deployment of a namespace that took little time lately waits for the next pass.
    """

    seconds: float = math.inf
    recorded_seconds: float = math.inf
    clock: Callable[[], float] = time.thread_time
    wall: Callable[[], float] = time.perf_counter
    is_hurried: Callable[[], bool] = lambda: False
    _known: dict[str, _Known] = field(default_factory=dict)
    _tried: dict[str, float] = field(default_factory=dict)
    """When deployments without an answer had their turn, in POSIX seconds: their model is being read, for example."""
    _taken: dict[str, float] = field(default_factory=dict)
    _costs: dict[str, float] = field(default_factory=dict)
    _queue: list[Deployment] = field(default_factory=list)
    _queued: set[str] = field(default_factory=set)
    _due: list[float] = field(default_factory=list)
    _unwritten: Counter[str] = field(default_factory=Counter)
    """Decisions that wait to be written, and those that this pass has to make, by namespace."""
    _written_late: frozenset[str] = frozenset()
    """The namespaces with decisions of earlier passes that wait to be written."""
    _has_newcomer: bool = False
    _may_make_way: bool = True
    _made_way: bool = False
    _first: str = ""
    _spent: float = 0.0
    _now: float = 0.0

    def begin(
        self, deployments: Sequence[Deployment], now: float, priority_of: Callable[[Deployment], int] = lambda _: 0
    ) -> None:
        """Begin a pass. ``now`` is in POSIX seconds.

        A priority counts among the deployments of one namespace only: who may create them may name any PriorityClass.
        """
        faded = 0.5 ** (max(0.0, now - self._now) / HALF_LIFE_SECONDS)
        self._taken = {name: left for name, taken in self._taken.items() if (left := taken * faded) > CHEAP_SECONDS}
        uids = [deployment.identity.uid for deployment in deployments]
        self._known = {uid: self._known[uid] for uid in uids if uid in self._known}
        self._tried = {uid: self._tried[uid] for uid in uids if uid in self._tried}
        self._costs, self._first, self._spent, self._now, self._due = {}, "", 0.0, now, []
        self._queue = self._in_fair_order(
            [deployment for deployment in deployments if self._is_costly(deployment)], priority_of
        )
        self._queued = {deployment.identity.uid for deployment in self._queue}
        self._unwritten = Counter(
            deployment.key.namespace for deployment in deployments if self._waits_for_its_write(deployment)
        )
        self._written_late = frozenset(self._unwritten)
        self._may_make_way, self._made_way = not self._made_way, False
        self._has_newcomer = any(map(self._is_newcomer, self._queue))

    def took_little(self, namespace: str) -> bool:
        """Whether the deployments of a namespace took less than one pass gives to all. May be called by any thread."""
        return self._taken.get(namespace, 0.0) < SECONDS

    def in_turn(self, deployments: Collection[Deployment]) -> Iterator[Deployment]:
        """Yield the deployments that cost nearly nothing, and then the others in fair order."""
        yield from (deployment for deployment in deployments if deployment.identity.uid not in self._queued)
        yield from self._queue

    def queued(self) -> list[Deployment]:
        """Return those that share the time of this pass, in fair order."""
        return [deployment for deployment in self._queue if deployment.identity.uid in self._queued]

    def waits(self, deployment: Deployment, *, reading: bool = False) -> DeploymentProblem | None:
        """Return why a deployment waits for another pass; None: it has its turn. Who waits stands still in this one."""
        uid, namespace = deployment.identity.uid, deployment.key.namespace
        if uid not in self._queued or deployment.is_faulty or math.isinf(self.seconds):
            return None
        known = self._known.get(uid)
        has_changed = known is not None and known.generation != deployment.identity.generation
        if known is not None and has_changed and known.due(self._now) > self._now:
            return self._wait(uid, CHANGED_OFTEN, known.due(self._now))
        if reading and not self._is_answered(deployment):
            if self._unwritten[namespace] >= MOST_UNWRITTEN:
                return self._wait(uid, AFTER_OTHERS, self._now)
            self._unwritten[namespace] += 1
        most = self._most(deployment)
        self._first = self._first or uid  # it has its turn whatever it costs: every pass plans one at least
        if uid == self._first:
            return None
        if self._spent < most * (READING_SHARE if reading else 1.0) and not self._makes_way(deployment):
            return None
        return self._wait(uid, AFTER_OTHERS if namespace in self._written_late else QUEUED, self._now)

    def spend(self, work: Callable[[], T], *deployments: Deployment) -> T:
        """Do some work, return its result, and charge its seconds to deployments, to each an equal part.

        For those that share the time of this pass these are CPU seconds. For the others the wall clock suffices, which
        is no system call. Whoever seems to take long by it may have waited for another thread: nothing is charged to
        the namespace, and the queue of the next pass shows what it takes.
        """
        uids = [deployment.identity.uid for deployment in deployments]
        clock = self.wall if self._queued.isdisjoint(uids) else self.clock
        began = clock()
        try:
            return work()
        finally:
            part = (clock() - began) / max(1, len(uids))
            for uid in uids:
                self._costs[uid] = self._costs.get(uid, 0.0) + part
                if uid in self._queued:
                    self._spent += part

    def end(self, outcomes: Collection[Outcome]) -> None:
        """End a pass: remember what it has cost, and which specs are planned."""
        for outcome in outcomes:
            uid, namespace, generation = outcome.uid, outcome.key.namespace, outcome.generation
            cost, known = self._costs.get(uid, 0.0), self._known.get(uid)
            if uid in self._queued or cost <= CHEAP_SECONDS:
                self._taken[namespace] = self._taken.get(namespace, 0.0) + cost
            is_answered = outcome.decision is not None or (outcome.problem is not None and outcome.problem.permanent)
            if uid not in self._queued:
                if known is not None and known.cost <= CHEAP_SECONDS:
                    known.cost = cost
                continue
            if not is_answered:
                self._tried[uid] = self._now
                continue
            self._tried.pop(uid, None)
            changes = 0.0 if known is None else known.changes_at(self._now)
            has_changed = known is not None and known.generation != generation
            if known is None or has_changed:
                self._known[uid] = _Known(generation, cost, self._now, changes + has_changed, self._now)
            else:
                known.cost, known.turn = cost, self._now

    def due_in_seconds(self) -> Iterator[float]:
        """Yield the seconds until a deployment that waits has its turn."""
        yield from (max(0.0, due - self._now) for due in self._due)

    def _waits_for_its_write(self, deployment: Deployment) -> bool:
        """Whether this process has decided a deployment lately, and has not begun to write it."""
        known = self._known.get(deployment.identity.uid)
        if known is None or known.generation != deployment.identity.generation or _is_recorded(deployment):
            return False
        return self._now - known.at < UNWRITTEN_SECONDS

    def _makes_way(self, deployment: Deployment) -> bool:
        """Whether a deployment waits because a newcomer whose namespace took little time is there or asks."""
        if self.took_little(deployment.key.namespace):
            return False
        if not self._may_make_way:
            return self._spent >= KEPT_SECONDS and self.is_hurried()
        makes_way = self._has_newcomer or self.is_hurried()
        self._made_way |= makes_way
        return makes_way

    def _is_newcomer(self, deployment: Deployment) -> bool:
        """Whether a deployment is new or has changed, may be planned now, and its namespace took little time lately."""
        uid = deployment.identity.uid
        if self._is_answered(deployment) or uid in self._tried or not self.took_little(deployment.key.namespace):
            return False
        known = self._known.get(uid)
        return known is None or known.due(self._now) <= self._now

    def _most(self, deployment: Deployment) -> float:
        if not self._is_answered(deployment):
            return self.seconds
        is_known = deployment.identity.uid in self._known
        return max(self.seconds, ANSWERED_SECONDS) if is_known else self.recorded_seconds

    def _wait(self, uid: str, why: DeploymentProblem, due: float) -> DeploymentProblem:
        self._queued.discard(uid)
        self._due.append(due)
        return why

    def _is_costly(self, deployment: Deployment) -> bool:
        known = self._known.get(deployment.identity.uid)
        return known is None or known.generation != deployment.identity.generation or known.cost > CHEAP_SECONDS

    def _in_fair_order(
        self, deployments: Sequence[Deployment], priority_of: Callable[[Deployment], int]
    ) -> list[Deployment]:
        """Order by what each namespace took lately, those before in the order included; new and changed ones first."""
        waiting: dict[str, list[Deployment]] = {}
        for deployment in sorted(deployments, key=partial(self._rank, priority_of), reverse=True):
            waiting.setdefault(deployment.key.namespace, []).append(deployment)
        heap = [(self._taken.get(name, 0.0), name) for name in waiting]
        heapify(heap)
        ordered = list[Deployment]()
        while heap:
            taken, name = heap[0]
            deployment = waiting[name].pop()
            ordered.append(deployment)
            if waiting[name]:
                heapreplace(heap, (taken + max(CHEAP_SECONDS, self._last_cost(deployment)), name))
            else:
                heappop(heap)
        return sorted(ordered, key=self._is_answered)

    def _is_answered(self, deployment: Deployment) -> bool:
        """Whether this very spec was planned before, by this process or by an earlier one."""
        known = self._known.get(deployment.identity.uid)
        return _is_recorded(deployment) if known is None else known.generation == deployment.identity.generation

    def _rank(
        self, priority_of: Callable[[Deployment], int], deployment: Deployment
    ) -> tuple[bool, float, int, float, str, str]:
        uid, born = deployment.identity.uid, deployment.identity.created_at
        known, tried = self._known.get(uid), self._tried.get(uid, 0.0)
        if self._is_answered(deployment):
            return True, 0.0 if known is None else known.turn, 0, 0.0, born, uid
        return False, tried, -priority_of(deployment), self._last_cost(deployment), born, uid

    def _last_cost(self, deployment: Deployment) -> float:
        known = self._known.get(deployment.identity.uid)
        return 0.0 if known is None else known.cost


def _is_recorded(deployment: Deployment) -> bool:
    """Whether the status tells the decision about this very spec."""
    status = deployment.record.status
    return status.observed_generation == deployment.identity.generation and bool(status.conditions)
