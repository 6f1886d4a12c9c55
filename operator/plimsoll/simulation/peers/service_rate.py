"""How much work one replica does a second, learned from replicas with a queue.

Work is prompt tokens, and ``OUTPUT_WEIGHT`` times the generated tokens. An engine with a queue does as much as it can.
So more work than known is believed at once. Less is believed slowly, and only of a queue that lasts, because an
interval with few finished prompts shows little work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from plimsoll.simulation.peers.signals import recent
from plimsoll.simulation.peers.view import PodView
from plimsoll.simulation.values import Sample

OUTPUT_WEIGHT = 4.0
"""A generated token costs as much as this many prompt tokens."""

FALL = 0.05
"""The part of a difference downwards that one scrape corrects."""

PATIENT_SCRAPES = 7
"""The scrapes in a row with waiting requests before the rate may fall."""

READ_SECONDS = 180.0


@dataclass(slots=True)
class ServiceRate:
    """The work a second of one replica; None before a queue was seen. All replicas have the same engine."""

    work: float | None = None
    queued: dict[str, int] = field(default_factory=dict)
    read_until: dict[str, float] = field(default_factory=dict)

    def read(self, pods: Iterable[PodView], now: float) -> None:
        """Learn from the scrapes since the last call."""
        for pod in pods:
            samples = recent(pod, now, READ_SECONDS)
            until = self.read_until.get(pod.name, -math.inf)
            for earlier, later in pairwise(samples):
                if later.at > until:
                    self._learn(pod.name, earlier, later)
            self.read_until[pod.name] = samples[-1].at

    def _learn(self, pod: str, earlier: Sample, later: Sample) -> None:
        if min(earlier.waiting, later.waiting) < 1:
            self.queued[pod] = 0
            return
        self.queued[pod] = self.queued.get(pod, 0) + 1
        seen = _work(earlier, later)
        if self.work is None or seen > self.work:
            self.work = seen
        elif self.queued[pod] >= PATIENT_SCRAPES:
            self.work += FALL * (seen - self.work)


def _work(earlier: Sample, later: Sample) -> float:
    prompt = later.prompt_tokens_total - earlier.prompt_tokens_total
    output = later.generation_tokens_total - earlier.generation_tokens_total
    return (prompt + OUTPUT_WEIGHT * output) / (later.at - earlier.at)
