"""A closed loop of users on one replica: each sends its next request as soon as the last one is answered.

Public benchmarks of serving are such loops, so that their rows can be simulated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import Final

from plimsoll.simulation.engine import SimulatedEngine
from plimsoll.simulation.values import Arrival, SimulatedRequest

SPREAD: Final = 0.1
"""Lengths are drawn evenly from so much below the mean to so much above it, so that users do not end in step."""


@dataclass(frozen=True, slots=True)
class Load:
    """``users`` who send ``rounds`` requests each. Lengths are means, in tokens."""

    users: int
    rounds: int
    prompt_tokens: float
    output_tokens: float

    @property
    def most_tokens(self) -> int:
        """The most tokens that all users' requests have at the same time."""
        return self.users * (_most(self.prompt_tokens) + _most(self.output_tokens) + 1)


@dataclass(frozen=True, slots=True)
class Times:
    """The means over all requests, in seconds. ``tpot_seconds`` leaves out the first token."""

    ttft_seconds: float
    tpot_seconds: float


def mean_times(engine: SimulatedEngine, load: Load, seed: int) -> Times:
    """Serve all requests of a load by an idle engine.

    Raises:
        ValueError: there is no request, no answer of two tokens, or one is larger than the KV cache.
    """
    answered = [request.answered for request in _Loop(engine, load, Random(seed)).run()]  # noqa: S311 - a simulation
    return Times(
        fmean(each.ttft_seconds for each in answered if each.ttft_seconds is not None),
        fmean(each.tpot_seconds for each in answered if each.tpot_seconds is not None),
    )


@dataclass(slots=True)
class _Loop:
    """The users' requests: those that come next, in the order of their times, and how many are to follow."""

    engine: SimulatedEngine
    load: Load
    rng: Random
    _coming: deque[SimulatedRequest] = field(default_factory=deque, init=False)
    _left: int = field(default=0, init=False)

    def run(self) -> Iterator[SimulatedRequest]:
        """Yield each request when it is answered."""
        self._left = self.load.users * (self.load.rounds - 1)
        self._coming.extend(self._request(0.0) for _ in range(self.load.users))
        while self._coming or self.engine.plan:
            if self._is_request_next():
                self._receive(self._coming.popleft())
            else:
                yield from self._end_step()

    def _is_request_next(self) -> bool:
        plan = self.engine.plan
        return bool(self._coming) and (plan is None or self._coming[0].arrival.at <= plan.ends_at)

    def _receive(self, request: SimulatedRequest) -> None:
        now = request.arrival.at
        self.engine.add(request, now)
        while self._coming and self._coming[0].arrival.at <= now:
            self.engine.add(self._coming.popleft(), now)
        if self.engine.plan is None:
            self.engine.begin(now)
        else:
            self.engine.interrupt(now)

    def _end_step(self) -> list[SimulatedRequest]:
        now = 0.0 if self.engine.plan is None else self.engine.plan.ends_at
        done = self.engine.end()
        self.engine.begin(now)
        for request in done[: self._left]:
            self._coming.append(self._request(now if request.finished_at is None else request.finished_at))
        self._left = max(0, self._left - len(done))
        return done

    def _request(self, at: float) -> SimulatedRequest:
        return SimulatedRequest(Arrival(at, self._draw(self.load.prompt_tokens), self._draw(self.load.output_tokens)))

    def _draw(self, mean: float) -> int:
        return max(1, round(mean * self.rng.uniform(1 - SPREAD, 1 + SPREAD)))


def _most(mean: float) -> int:
    return max(1, round(mean * (1 + SPREAD)))
