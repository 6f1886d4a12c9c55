"""The scrapes of simulated engines, each at its own phase, as far back as the live loop reads them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.chance import Chance
from plimsoll.simulation.replica import Replica, Stage
from plimsoll.simulation.values import Sample

HISTORY_SECONDS: Final = 600.0
"""How far back the live loop reads."""


@dataclass(slots=True)
class Scrapes:
    """The samples of all replicas that serve, the oldest first.

    They are taken ``every_seconds`` until ``ends_at``, in seconds since the beginning of the run.
    """

    agenda: Agenda
    chance: Chance
    every_seconds: float
    ends_at: float
    _samples: dict[str, deque[EngineSample]] = field(default_factory=dict, init=False)

    def watch(self, replica: Replica, kv_tokens: int) -> None:
        """Scrape a replica with a KV cache of so many tokens from now on, first at a random part of the interval."""
        self._samples[replica.name] = deque()
        first = self.agenda.now + self.chance.uniform(0, self.every_seconds)
        self.agenda.every(first, self.every_seconds, self.ends_at, partial(self._scrape, replica, kv_tokens))

    def signals(self) -> tuple[PodSignals, ...]:
        """Return what the live loop reads now: the samples of ten minutes of all replicas that had any."""
        oldest = self.agenda.now - HISTORY_SECONDS
        for samples in self._samples.values():
            while samples and samples[0].at < oldest:
                samples.popleft()
        return tuple(PodSignals(name, tuple(samples)) for name, samples in self._samples.items() if samples)

    def _scrape(self, replica: Replica, kv_tokens: int) -> None:
        if replica.stage is Stage.READY:
            self._samples[replica.name].append(engine_sample(replica.engine.sample(self.agenda.now), kv_tokens))


def engine_sample(sample: Sample, kv_tokens: int) -> EngineSample:
    """Return a sample as the live loop reads it, of an engine with a KV cache of so many tokens."""
    return EngineSample(
        at=sample.at,
        kv_usage=sample.kv_usage,
        waiting=sample.waiting,
        running=sample.running,
        preemptions_total=sample.preemptions_total,
        kv_capacity_tokens=kv_tokens,
        prompt_tokens_total=sample.prompt_tokens_total,
        generation_tokens_total=sample.generation_tokens_total,
        finished_total=sample.finished_total,
        finished_prompt_tokens_total=sample.finished_prompt_tokens_total,
        finished_output_tokens_total=sample.finished_output_tokens_total,
        ttft_seconds_total=sample.ttft_seconds_total,
        first_tokens_total=sample.first_tokens_total,
        token_gap_seconds_total=sample.token_gap_seconds_total,
        token_gaps_total=sample.token_gaps_total,
        prefix_queried_tokens_total=sample.prefix_queried_tokens_total,
        prefix_hit_tokens_total=sample.prefix_hit_tokens_total,
    )
