"""The scrapes of each pod at its own phase, and the part of them that a policy sees."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import ceil, isnan, nan
from random import Random
from typing import Final

from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.fleet import Replica, SimulatedFleet, lasts
from plimsoll.simulation.peers.view import PodView
from plimsoll.simulation.values import FaultKind, InjectedFault, Sample

HISTORY_SECONDS: Final = 600.0
"""How far back a policy sees."""

STEP_SECONDS: Final = 300.0
"""The steps in which a policy sees the days before."""


@dataclass(slots=True)
class Scraping:
    """The samples of all pods that are ready, taken while the run is measured."""

    scenario: Scenario
    agenda: Agenda
    rng: Random
    _samples: dict[Replica, deque[Sample]] = field(default_factory=dict, init=False)
    _victims: dict[Replica, list[InjectedFault]] = field(default_factory=dict, init=False)
    _begun: dict[int, float] = field(default_factory=dict, init=False)
    _past: list[tuple[float, float]] | None = field(default=None, init=False)
    _ended: int = field(default=0, init=False)

    def _count(self, replica: Replica, sample: Sample) -> None:
        """Add the first tokens since the last scrape of a pod to the step in which it is scraped."""
        before = self._samples[replica][-1].first_tokens_total if self._samples[replica] else 0.0
        step = ceil(sample.at / STEP_SECONDS)
        self._begun[step] = self._begun.get(step, 0.0) + sample.first_tokens_total - (0.0 if isnan(before) else before)

    def past(self, seed: int) -> Sequence[tuple[float, float]]:
        """Return the requests a second by steps that are over, of the days before the run too."""
        ended = int(self.agenda.now // STEP_SECONDS)
        if self._past is None:
            self._past = [] if self.scenario.past is None else list(self.scenario.past(seed))
        if self.scenario.past is not None and ended > self._ended:
            steps = range(self._ended + 1, ended + 1)
            self._past = [
                *self._past,
                *((step * STEP_SECONDS, self._begun.get(step, 0.0) / STEP_SECONDS) for step in steps),
            ]
            self._ended = ended
        return self._past

    def strike_at_their_times(self, fleet: SimulatedFleet[EngineSpec]) -> None:
        """Let each fault of a pod hit the pod that is the oldest when it begins."""
        for fault in self.scenario.faults:
            if fault.kind in (FaultKind.STALE_POD, FaultKind.NOT_A_NUMBER):
                self.agenda.at(fault.begins_at, partial(self._strike, fault, fleet))

    def watch(self, replica: Replica) -> None:
        """Scrape a pod from now on. Its first scrape is at a random part of the interval."""
        self._samples[replica] = deque()
        every = self.scenario.scrape_seconds
        first = self.agenda.now + self.rng.uniform(0, every)
        self.agenda.every(first, every, self.scenario.seconds, partial(self._scrape, replica))

    def view(self, replica: Replica, *, has_metrics: bool) -> PodView:
        """Return a pod as a policy sees it."""
        samples = self._recent(replica) if has_metrics else ()
        return PodView(replica.name, replica.created_at, replica.ready_since, samples, replica.is_placed)

    def _recent(self, replica: Replica) -> tuple[Sample, ...]:
        samples = self._samples.get(replica)
        if samples is None:
            return ()
        while samples and samples[0].at < self.agenda.now - HISTORY_SECONDS:
            samples.popleft()
        return tuple(samples)

    def _strike(self, fault: InjectedFault, fleet: SimulatedFleet[EngineSpec]) -> None:
        for oldest in fleet.shown[:1]:
            self._victims.setdefault(oldest, []).append(fault)

    def _scrape(self, replica: Replica) -> None:
        faults = {fault.kind for fault in self._victims.get(replica, ()) if lasts(fault, self.agenda.now)}
        if FaultKind.STALE_POD in faults:
            return
        sample = replica.engine.sample(self.agenda.now)
        for fault in self.scenario.faults:
            if fault.kind is FaultKind.FULL_CACHE and lasts(fault, self.agenda.now):
                sample = replace(sample, kv_usage=fault.amount)
        self._count(replica, sample)
        self._samples[replica].append(_not_numbers(sample.at) if FaultKind.NOT_A_NUMBER in faults else sample)


def _not_numbers(at: float) -> Sample:
    """Return a sample without any number but its time."""
    return Sample(at, *(nan for each in fields(Sample) if each.name != "at"))
