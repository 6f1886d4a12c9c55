"""The replicas of a deployment: how they start, work and are removed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Generic, Protocol, TypeVar

from plimsoll.simulation.agenda import Action, Agenda
from plimsoll.simulation.draws import Chance
from plimsoll.simulation.engine import SimulatedEngine, StepTimes
from plimsoll.simulation.values import EngineLimits, Fate, FaultKind, InjectedFault, SimulatedRequest


class Stage(Enum):
    """Where a pod is in its life."""

    STARTING = auto()
    READY = auto()
    DRAINING = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class Replica:
    """A pod and its engine.

    ``placed_at`` is when it gets its GPUs. ``on_idle`` is called whenever the last request of the engine is done.
    """

    number: int
    engine: SimulatedEngine
    agenda: Agenda
    created_at: float
    placed_at: float
    on_idle: Callable[[Replica], None]
    stage: Stage = Stage.STARTING
    ready_since: float | None = None
    ended_at: float | None = None
    _due: float | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The name of the pod."""
        return f"pod-{self.number}"

    @property
    def is_placed(self) -> bool:
        """Say whether it has its GPUs."""
        return self.placed_at <= self.agenda.now

    def held_seconds(self, until: float) -> float:
        """Return how long it has held its GPUs at its end or at ``until``."""
        end = until if self.ended_at is None else min(until, self.ended_at)
        return max(0.0, end - self.placed_at)

    def get_ready(self) -> None:
        """Serve from now on."""
        self.stage, self.ready_since = Stage.READY, self.agenda.now

    def receive(self, request: SimulatedRequest) -> None:
        """Take a request.

        Raises:
            ValueError: the engine could never serve it.
        """
        self.engine.add(request, self.agenda.now)
        self._go_on()

    def forget(self, request: SimulatedRequest) -> None:
        """Drop a request whose client is gone."""
        self.engine.drop(request)
        self._go_on()

    def stop(self) -> None:
        """End the pod now. The requests that it has are lost."""
        self.stage, self.ended_at = Stage.GONE, self.agenda.now
        for request in self.engine.requests():
            request.fate = Fate.LOST

    def _go_on(self) -> None:
        """Begin a step if the engine is idle, or let it look at its queue after the step under way."""
        if self.engine.plan is None:
            self.engine.begin(self.agenda.now)
        else:
            self.engine.interrupt(self.agenda.now)
        self._await_end()

    def _await_end(self) -> None:
        plan = self.engine.plan
        due = None if plan is None else plan.ends_at
        if due is not None and due != self._due:
            self.agenda.at(due, self._end_step)
        self._due = due

    def _end_step(self) -> None:
        """End the plan, unless its end was moved since."""
        if self._due != self.agenda.now or self.stage is Stage.GONE:
            return
        self.engine.end()
        self.engine.begin(self.agenda.now)
        self._await_end()
        if self.engine.load == 0:
            self.on_idle(self)


def lasts(fault: InjectedFault, now: float) -> bool:
    """Say whether a fault has begun and has not ended."""
    return fault.begins_at <= now < fault.begins_at + fault.seconds


@dataclass(slots=True)
class Stock:
    """GPUs that several deployments share, for so many replicas. Replicas that find none wait in their order."""

    free: int
    _waiting: dict[Replica, Action] = field(default_factory=dict, init=False)

    def take(self, replica: Replica, on_placed: Action) -> None:
        """Place a replica now, or as soon as it is its turn."""
        self._waiting[replica] = on_placed
        self._serve()

    def give_back(self, replica: Replica) -> None:
        """Take back what a replica that has ended had, or its place in the queue."""
        if self._waiting.pop(replica, None) is None:
            self.free += 1
            self._serve()

    def _serve(self) -> None:
        while self.free > 0 and self._waiting:
            replica = next(iter(self._waiting))
            self.free -= 1
            replica.placed_at = replica.agenda.now
            self._waiting.pop(replica)()


Limits = TypeVar("Limits", bound=EngineLimits)
Limits_co = TypeVar("Limits_co", bound=EngineLimits, covariant=True)


class Rules(Protocol[Limits_co]):
    """How the replicas of a deployment start and end. Times are in seconds."""

    @property
    def engine(self) -> Limits_co:
        """The engine of a replica at the beginning."""

    @property
    def start_replicas(self) -> int:
        """Replicas that serve at the beginning."""

    @property
    def cold_start_seconds(self) -> float:
        """From the creation of a replica until it serves, times a factor of ``cold_start_spread``."""

    @property
    def cold_start_spread(self) -> tuple[float, float]:
        """The least and the largest factor."""

    @property
    def drain_seconds(self) -> float:
        """How long a removed replica may finish its requests; after that they are lost."""

    @property
    def faults(self) -> tuple[InjectedFault, ...]:
        """The faults that may hit new replicas."""


@dataclass(frozen=True, slots=True)
class SteadyRules(Generic[Limits]):
    """The rules of a fleet in which nothing goes wrong: each start takes the same time."""

    engine: Limits
    start_replicas: int
    cold_start_seconds: float
    drain_seconds: float
    cold_start_spread: tuple[float, float] = (1.0, 1.0)
    faults: tuple[InjectedFault, ...] = ()

    @property
    def max_replicas(self) -> int:
        """The most that a static law may begin with."""
        return self.start_replicas


@dataclass
class SimulatedFleet(Generic[Limits]):
    """All replicas that ever were, in the order of their creation. ``on_ready`` is called when one begins to serve."""

    rules: Rules[Limits]
    times: StepTimes
    agenda: Agenda
    rng: Chance
    on_ready: Callable[[Replica], None]
    stock: Stock | None = None
    """The GPUs that there are; None: they never run out."""
    kept_tokens: int | None = None
    """The tokens of prompts that a replica keeps; None: those of its KV cache."""
    replicas: list[Replica] = field(default_factory=list)
    engine: Limits = field(init=False)
    """How replicas are created from now on."""
    _outdated: list[Replica] = field(default_factory=list, init=False)
    _living: list[Replica] = field(default_factory=list, init=False)
    _ready: list[Replica] = field(default_factory=list, init=False)
    _hit: Counter[InjectedFault] = field(default_factory=Counter, init=False)
    """How many replicas each fault has hit."""

    def __post_init__(self) -> None:
        """Begin with the engine of the rules."""
        self.engine = self.rules.engine

    @property
    def shown(self) -> tuple[Replica, ...]:
        """The replicas that start or serve, the oldest first."""
        return tuple(self._living)

    def ready(self) -> list[Replica]:
        """Return the replicas that take requests."""
        return self._ready

    def begin(self) -> None:
        """Create the replicas that serve from the beginning, and let pods get slow at their times.

        Raises:
            ValueError: the stock has no GPUs for them.
        """
        if self.stock is not None and self.stock.free < self.rules.start_replicas:
            raise ValueError(f"stock: {self.stock.free} replicas, and {self.rules.start_replicas} serve at the start")
        for _ in range(self.rules.start_replicas):
            replica = self._create(self.agenda.now)
            if self.stock is not None:
                self.stock.take(replica, lambda: None)
            self._get_ready(replica)
        for fault in self.rules.faults:
            if fault.kind is FaultKind.SLOW_POD:
                self.agenda.at(fault.begins_at, partial(self._slow_down, fault))

    def _slow_down(self, fault: InjectedFault) -> None:
        for replica in self._ready[: fault.replicas]:
            replica.engine.slow_down(fault.amount)
            self.agenda.at(fault.begins_at + fault.seconds, partial(replica.engine.slow_down, 1 / fault.amount))

    def resize(self, wanted: int) -> None:
        """Create or remove replicas until so many start or serve. An update has one more."""
        wanted += 1 if self._outdated else 0
        for _ in range(len(self._living), wanted):
            self._start()
        for _ in range(wanted, len(self._living)):
            self._remove(self._least_missed())

    def end(self, name: str) -> None:
        """Remove one replica that serves. None is created in its place."""
        for replica in [each for each in self._ready if each.name == name]:
            self._remove(replica)

    def update(self, engine: Limits) -> None:
        """Replace all replicas by others with this engine, one after another and each new one before an old one."""
        if engine == self.engine:
            return
        self.engine, self._outdated = engine, list(self._living)
        self._start()

    def _go_on_with_update(self) -> None:
        """Remove an old replica, now that a new one serves, and start the next one if there are more."""
        self._outdated = [replica for replica in self._outdated if replica in self._living]
        if self._outdated:
            self._remove(min(self._outdated, key=lambda replica: (replica.engine.load, replica.number)))
        self._outdated = [replica for replica in self._outdated if replica in self._living]
        if self._outdated:
            self._start()

    def replica_seconds(self, until: float) -> float:
        """Return how long all replicas held their GPUs, to their end or ``until``."""
        return sum(replica.held_seconds(until) for replica in self.replicas)

    def _create(self, placed_at: float) -> Replica:
        engine, now = SimulatedEngine(self.engine, self.times, self.kept_tokens), self.agenda.now
        replica = Replica(len(self.replicas), engine, self.agenda, now, placed_at, self._end_if_draining)
        self.replicas.append(replica)
        self._living.append(replica)
        return replica

    def _start(self) -> None:
        """Create a replica that serves after its cold start. Its factor is drawn even if it is stuck."""
        factor = self.rng.uniform(*self.rules.cold_start_spread)
        shortage = self._strike(FaultKind.NO_ROOM)
        placed_at = self.agenda.now if shortage is None else shortage.begins_at + shortage.seconds
        replica = self._create(placed_at if self.stock is None else math.inf)
        seconds = self.rules.cold_start_seconds * factor
        is_stuck = self._strike(FaultKind.STUCK_STARTS) is not None
        begin = partial(self._await_ready, replica, math.inf if is_stuck else seconds)
        if self.stock is None:
            begin()
        else:
            self.stock.take(replica, begin)

    def _await_ready(self, replica: Replica, seconds: float) -> None:
        """Let a replica that is placed serve after so many seconds; one that is stuck never does."""
        if seconds < math.inf:
            self.agenda.at(replica.placed_at + seconds, partial(self._get_ready, replica))

    def _strike(self, kind: FaultKind) -> InjectedFault | None:
        """Return the fault of a kind that hits the replica that is created now."""
        lasting = (fault for fault in self.rules.faults if fault.kind is kind and lasts(fault, self.agenda.now))
        hit = next((fault for fault in lasting if fault.replicas is None or self._hit[fault] < fault.replicas), None)
        if hit is not None:
            self._hit[hit] += 1
        return hit

    def _get_ready(self, replica: Replica) -> None:
        if replica.stage is Stage.STARTING:
            replica.get_ready()
            self._ready.append(replica)
            self.on_ready(replica)
            if self._outdated and replica not in self._outdated:
                self._go_on_with_update()

    def _least_missed(self) -> Replica:
        """Return the replica to remove: the newest that is not ready, else the one with the least load."""
        starting = [replica for replica in self._living if replica.stage is Stage.STARTING]
        if starting:
            return starting[-1]
        return min(self._living, key=lambda replica: (replica.engine.load, -replica.number))

    def _remove(self, replica: Replica) -> None:
        self._living.remove(replica)
        if replica.stage is Stage.STARTING or replica.engine.load == 0:
            self._stop(replica)
        else:
            replica.stage = Stage.DRAINING
            self.agenda.at(self.agenda.now + self.rules.drain_seconds, partial(self._end_if_draining, replica))
        if replica in self._ready:
            self._ready.remove(replica)

    def _end_if_draining(self, replica: Replica) -> None:
        if replica.stage is Stage.DRAINING:
            self._stop(replica)

    def _stop(self, replica: Replica) -> None:
        replica.stop()
        if self.stock is not None:
            self.stock.give_back(replica)
