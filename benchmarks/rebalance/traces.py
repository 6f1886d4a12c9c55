"""Replays of carried traces of real requests. Sources, licences and changes are in ``data/README.md``."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from random import Random

from plimsoll.simulation.values import Arrival

DATA = Path(__file__).with_name("data")
TRACES = ("azure-conv-2023", "azure-code-2023", "mooncake-synthetic-2025")

JITTER_SECONDS = 10.0
"""Copies of a request come up to this much later. Bursts of minutes stay, and copies do not come as one batch."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A trace at a multiple of its rate, cut to a time.

    A whole factor gives so many copies of each request; of the rest of a factor, a part of the requests gets one more.
    The first copy comes at its own time, the others a little later, as the seed says.
    """

    trace: str
    factor: float = 1.0
    seconds: float = float("inf")

    def __call__(self, seed: int) -> tuple[Arrival, ...]:
        """Return the requests in the order of their arrival.

        Raises:
            ValueError: the trace is not carried.
        """
        random = Random(f"{self.trace}/{seed}")  # noqa: S311 - a reproducible draw
        return replayed(requests_of(self.trace), self.factor, self.seconds, random)


def replayed(requests: Iterable[Arrival], factor: float, seconds: float, random: Random) -> tuple[Arrival, ...]:
    """Return requests at a multiple of their rate before a time, in the order of their arrival."""
    copies = (copy for each in requests for copy in _copies(each, factor, random))
    return tuple(sorted((copy for copy in copies if copy.at < seconds), key=attrgetter("at")))


@cache
def requests_of(trace: str) -> tuple[Arrival, ...]:
    """Return a trace as it is carried.

    Raises:
        ValueError: the trace is not carried.
    """
    if trace not in TRACES:
        raise ValueError(f"{trace} is not carried; there are {', '.join(TRACES)}")
    with gzip.open(DATA / f"{trace}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return tuple(_request(row) for row in csv.DictReader(file))


def _request(row: dict[str, str]) -> Arrival:
    return Arrival(
        float(row["seconds"]), int(row["prompt_tokens"]), int(row["output_tokens"]), int(row["cached_tokens"] or 0)
    )


def _copies(request: Arrival, factor: float, random: Random) -> Iterator[Arrival]:
    whole = int(factor) + (random.random() < factor % 1)
    for copy in range(whole):
        later = random.uniform(0, JITTER_SECONDS) if copy else 0.0
        yield replace(request, at=request.at + later)
