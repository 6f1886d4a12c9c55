"""Requests with their lengths, drawn from a seed. The same seed gives the same requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from math import exp, log, sqrt
from operator import attrgetter
from random import Random

from benchmarks.rebalance.demand import Demand
from benchmarks.rebalance.engines import CONTEXT_TOKENS
from plimsoll.simulation.values import Arrival

MOST_TOKENS = CONTEXT_TOKENS // 2
"""The longest prompt, and the longest answer, so that every request is within the context of its engine."""

USUAL_SPREAD = 0.5
"""The standard deviation of lengths as a part of their mean. In the Azure traces it is 0.96 for prompts and 0.77 for
answers of conversations; the synthetic scenarios are of one kind of use and narrower."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean lengths in tokens. Lengths are log-normal around them; ``spread`` is the standard deviation over the mean.

    ``cached`` is the part of a prompt that may be in a prefix cache.
    """

    prompt: float
    output: float
    spread: float = USUAL_SPREAD
    cached: float = 0.0


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of requests. ``burstiness`` is explained at :meth:`Demand.moments`."""

    demand: Demand
    lengths: Lengths
    burstiness: float = 1.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """Requests of several streams at the same time."""

    streams: tuple[Stream, ...]

    def __call__(self, seed: int) -> tuple[Arrival, ...]:
        """Return the requests in the order of their arrival."""
        each = (_requests(stream, Random(f"{seed}/{index}")) for index, stream in enumerate(self.streams))  # noqa: S311
        return tuple(merge(*each, key=attrgetter("at")))


def drawn(*streams: Stream) -> Drawn:
    """Return the requests of these streams, from a seed."""
    return Drawn(streams)


def _requests(stream: Stream, random: Random) -> Iterator[Arrival]:
    lengths = stream.lengths
    for at in stream.demand.moments(random, stream.burstiness):
        prompt = _length(lengths.prompt, lengths.spread, random)
        output = _length(lengths.output, lengths.spread, random)
        yield Arrival(at, prompt, output, min(prompt - 1, round(prompt * lengths.cached)))


def _length(mean: float, spread: float, random: Random) -> int:
    """Return a length of 1 token at least."""
    variance = log(1 + spread**2)
    drawn_tokens = mean * exp(random.gauss(-variance / 2, sqrt(variance)))
    return max(1, min(MOST_TOKENS, round(drawn_tokens)))
