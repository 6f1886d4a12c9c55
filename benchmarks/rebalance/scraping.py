"""The scrapes of each pod at its own phase, and the part of them that a policy sees."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields
from functools import partial
from math import nan
from random import Random
from typing import Final

from benchmarks.rebalance.agenda import Agenda
from benchmarks.rebalance.faults import lasts
from benchmarks.rebalance.fleet import Fleet
from benchmarks.rebalance.replica import Replica
from benchmarks.rebalance.values import Fault, FaultKind, PodView, Sample, Scenario

HISTORY_SECONDS: Final = 600.0
"""How far back a policy sees."""


@dataclass(slots=True)
class Scraping:
    """The samples of all pods that are ready, taken while the run is measured."""

    scenario: Scenario
    agenda: Agenda
    rng: Random
    _samples: dict[Replica, deque[Sample]] = field(default_factory=dict, init=False)
    _victims: dict[Replica, list[Fault]] = field(default_factory=dict, init=False)

    def strike_at_their_times(self, fleet: Fleet) -> None:
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

    def _strike(self, fault: Fault, fleet: Fleet) -> None:
        for oldest in fleet.shown[:1]:
            self._victims.setdefault(oldest, []).append(fault)

    def _scrape(self, replica: Replica) -> None:
        faults = {fault.kind for fault in self._victims.get(replica, ()) if lasts(fault, self.agenda.now)}
        if FaultKind.STALE_POD in faults:
            return
        sample = replica.engine.sample(self.agenda.now)
        self._samples[replica].append(_not_numbers(sample.at) if FaultKind.NOT_A_NUMBER in faults else sample)


def _not_numbers(at: float) -> Sample:
    """Return a sample without any number but its time."""
    return Sample(at, *(nan for each in fields(Sample) if each.name != "at"))
