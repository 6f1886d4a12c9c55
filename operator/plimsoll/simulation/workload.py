"""The requests of a simulation: how many come when, and how long they are.

Workloads to begin with. Each says where its lengths come from; rates are for people to choose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt

from plimsoll.domain.errors import InvalidInput
from plimsoll.simulation.draws import Draws, seed_for
from plimsoll.simulation.values import Arrival

MOST_MINUTES = 240.0
MOST_REQUESTS = 20_000
"""The most requests of a run. Each takes about a tenth of a millisecond, so that a run ends within seconds."""

MOST_SPREAD = 3.0
"""The widest lengths. In public traces the standard deviation is 0.8 to 2.1 of the mean."""

MOST_BURST = 100.0
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that come by chance (Poisson) around a rate, with log-normal lengths.

    Attributes:
        requests_per_second: the rate outside bursts.
        prompt_tokens: mean length of a prompt.
        output_tokens: mean length of an answer.
        spread: standard deviation of both lengths over their mean; 0: all are the same.
        shared_prefix_tokens: tokens at the beginning of every prompt that the prefix cache holds after the first one.
        burst_factor: the rate within a burst over that outside; 1: there is none.
        burst_seconds: how long a burst lasts.
        burst_every_seconds: from the beginning of one burst to that of the next. The first begins after so long, too.
        minutes: how long requests come.
    """

    requests_per_second: float
    prompt_tokens: int
    output_tokens: int
    spread: float = 0.5
    shared_prefix_tokens: int = 0
    burst_factor: float = 1.0
    burst_seconds: float = 120.0
    burst_every_seconds: float = 900.0
    minutes: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated.

        Raises:
            InvalidInput: a figure is out of its range, or there are too many requests.
        """
        _within("prompt", self.prompt_tokens, 1, 2**31)
        _within("output", self.output_tokens, 1, 2**31)
        _within("spread", self.spread, 0, MOST_SPREAD)
        _within("shared-prefix", self.shared_prefix_tokens, 0, self.prompt_tokens - 1)
        _within("minutes", self.minutes, 1, MOST_MINUTES)
        _within("burst", self.burst_factor, 1, MOST_BURST)
        _within("burst-seconds", self.burst_seconds, 1, self.burst_every_seconds)
        _within("burst-every", self.burst_every_seconds, 1, MOST_MINUTES * _MINUTE)
        if not 0 < self.requests_per_second < math.inf:
            raise InvalidInput("requests-per-second", self.requests_per_second, "Use a number above 0.")
        if self.requests > MOST_REQUESTS:
            most = self.requests_per_second * MOST_REQUESTS / self.requests
            raise InvalidInput(
                "requests-per-second",
                self.requests_per_second,
                f"{round(self.requests):,} requests would come, and {MOST_REQUESTS:,} can be simulated at once. Use "
                f"{_floored(most)} or less, or simulate fewer minutes.",
            )

    @property
    def seconds(self) -> float:
        """How long requests come."""
        return self.minutes * _MINUTE

    @property
    def requests(self) -> float:
        """The mean number of requests of a run."""
        return sum((end - start) * rate for start, end, rate in self.phases())

    def phases(self) -> Iterator[tuple[float, float, float]]:
        """Yield beginning, end and requests a second of each phase, in seconds."""
        bounds = [0.0]
        if self.burst_factor > 1:
            begins_at = self.burst_every_seconds
            while begins_at < self.seconds:
                bounds += [begins_at, min(self.seconds, begins_at + self.burst_seconds)]
                begins_at += self.burst_every_seconds
        bounds.append(self.seconds)
        for number, (start, end) in enumerate(pairwise(bounds)):
            if end > start:
                yield start, end, self.requests_per_second * (self.burst_factor if number % 2 else 1.0)


def arrivals(workload: Workload, room_tokens: int, seed: int) -> tuple[Arrival, ...]:
    """Return the requests in the order of their arrival. No prompt with its answer has more than ``room_tokens``."""
    chance, found = Draws(seed_for(seed, "lengths")), list[Arrival]()
    for at in _moments(workload, Draws(seed_for(seed, "moments"))):
        prompt = _length(workload.prompt_tokens, workload.spread, chance, room_tokens - 1)
        output = _length(workload.output_tokens, workload.spread, chance, room_tokens - prompt)
        found.append(Arrival(at, prompt, output, min(prompt - 1, workload.shared_prefix_tokens)))
    return tuple(found)


def _moments(workload: Workload, chance: Draws) -> Iterator[float]:
    """Yield the moments at which requests come. A gap that a phase does not end goes on at the rate of the next."""
    gap = chance.gap()
    for start, end, rate in workload.phases():
        at = start
        while at + gap / rate < end:
            at += gap / rate
            yield at
            gap = chance.gap()
        gap -= (end - at) * rate


def _length(mean: float, spread: float, chance: Draws, most: int) -> int:
    """Return a length of 1 token at least. Its logarithm is normal."""
    variance = log(1 + spread**2)
    drawn = mean * exp(sqrt(variance) * chance.normal() - variance / 2)
    return max(1, min(most, round(drawn)))


def _floored(rate: float) -> float:
    """Round down to two digits after the point, and less if that would be 0."""
    digits = 2 if rate >= 0.01 else 6  # noqa: PLR2004 - so many digits show a small rate
    factor: int = 10**digits
    return math.floor(rate * factor) / factor


def _within(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidInput(field, value, f"Use {least:g} to {most:,.10g}.")


@dataclass(frozen=True, slots=True)
class Preset:
    """A named workload, and a sentence about its figures."""

    name: str
    workload: Workload
    source: str


PRESETS = (
    Preset(
        "chat",
        Workload(2.0, 1155, 211, spread=0.9, burst_factor=2.0, burst_seconds=180, burst_every_seconds=600),
        "Lengths are the means of conversations at Azure (Splitwise, 2023). Rate and bursts are chosen.",
    ),
    Preset(
        "retrieval",
        Workload(1.0, 6000, 300, spread=0.5, shared_prefix_tokens=500),
        "All figures are chosen: long prompts of passages that were found, behind the same instructions.",
    ),
    Preset(
        "agents",
        Workload(0.5, 14898, 149, spread=1.1, shared_prefix_tokens=9622),
        "Lengths and the prefix are the means of Mooncake's synthetic trace (2025). The rate is chosen.",
    ),
    Preset(
        "batch",
        Workload(1.0, 1500, 1000, spread=0.3, burst_factor=20.0, burst_seconds=60, burst_every_seconds=900),
        "All figures are chosen: long answers, and most requests come at once.",
    ),
)
"""The presets, the most usual one first."""


def preset(name: str) -> Preset | None:
    """Return the preset of that name; None if there is none."""
    return next((each for each in PRESETS if each.name == name), None)
