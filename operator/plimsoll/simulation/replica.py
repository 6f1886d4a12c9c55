"""One replica in the course of time: its engine, driven by the agenda, and the life of its pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.engine import Engine
from plimsoll.simulation.values import Fate, Request


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
    engine: Engine
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

    def receive(self, request: Request) -> None:
        """Take a request.

        Raises:
            ValueError: the engine could never serve it.
        """
        self.engine.add(request, self.agenda.now)
        self._go_on()

    def forget(self, request: Request) -> None:
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
