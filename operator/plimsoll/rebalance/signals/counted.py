"""The work of all pods over one time: requests that were begun, and the KV cache that they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from plimsoll.rebalance.signals import tracks
from plimsoll.rebalance.signals.metrics import LARGEST_COUNT, EngineSample
from plimsoll.rebalance.signals.tracks import Track
from plimsoll.rebalance.signals.traffic import LENGTHS_SECONDS, SIGNIFICANT

MOST_SECONDS = LENGTHS_SECONDS[-1]
"""The longest time that is counted. Samples are held for a minute more."""

_READ_SPREAD = 2.0
"""The standard deviation of the tokens that one request reads, over their mean. Tokens that are generated and tokens in
the cache both vary about as much as they are long."""


class Growth(NamedTuple):
    """Times as much as before, and its bounds by chance."""

    least: float
    likely: float
    most: float


NO_GROWTH = Growth(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """The work over ``seconds``: requests that got their first token, and the KV tokens that were read.

    Each generated token reads the KV cache of its request once. So what is read is the demand for KV cache over a time,
    whatever the speed of the engines: more requests, longer prompts and longer answers all raise it.
    """

    seconds: float
    begun: float
    read_tokens: float

    @property
    def begun_rate(self) -> float:
        """Requests a second that were begun."""
        return self.begun / self.seconds

    @property
    def read_rate(self) -> float:
        """KV tokens a second that were read."""
        return self.read_tokens / self.seconds

    def growth(self, read_rate: float, begun: float, deviations: float) -> Growth:
        """Return how many times as much is read a second as before.

        Args:
            read_rate: KV tokens a second before.
            begun: the requests over which that was counted.
            deviations: how many standard deviations of chance the bounds are away.
        """
        if min(read_rate, begun, self.read_rate, self.begun) <= 0:
            return NO_GROWTH
        likely = self.read_rate / read_rate
        error = math.exp(deviations * _READ_SPREAD * math.sqrt(1 / begun + 1 / self.begun))
        return Growth(likely / error, likely, likely * error)

    def differs_from(self, longer: Counted) -> bool:
        """Whether requests or reads of this shorter time differ from those of a longer one by more than chance."""
        expected = longer.begun_rate * self.seconds
        if abs(self.begun - expected) > SIGNIFICANT * math.sqrt(max(1.0, expected)):
            return True
        growth = self.growth(longer.read_rate, longer.begun, SIGNIFICANT)
        return not growth.least <= 1 <= growth.most


def counted(pods: Sequence[Track], start: float, end: float) -> Counted:
    """Return the work of these pods between two moments (POSIX seconds), of which the second is later."""

    def grown(read: tracks.Read) -> float:
        return sum(track.grown(read, start, end) or 0.0 for track in pods)

    outputs, ended = grown(tracks.OUTPUTS), grown(tracks.FINISHED)
    begun = grown(tracks.FIRST_TOKENS) or ended  # not all engines count the first
    prompt = grown(tracks.PROMPTS) / begun if begun > 0 else 0.0
    answer = grown(tracks.FINISHED_OUTPUTS) / ended if ended > 0 else outputs / max(1.0, begun)
    read_tokens = outputs * (prompt + answer / 2)
    return Counted(end - start, begun, min(float(LARGEST_COUNT), read_tokens))  # the status has no larger integers


def steadily(pods: Sequence[Track], start: float, end: float, least_seconds: float) -> Counted | None:
    """Return the work of the longest time from which no shorter one differs by more than chance (Lepski, 1991).

    None: not even the shortest time of ``least_seconds`` is known.
    """
    spans = sorted({least_seconds, *LENGTHS_SECONDS})
    known = [counted(pods, end - each, end) for each in spans if end - each >= start]
    is_steady = (each for number, each in reversed([*enumerate(known)]) if not _is_news(known[:number], each))
    return next(is_steady, None)


def _is_news(shorter: Sequence[Counted], longer: Counted) -> bool:
    return any(each.differs_from(longer) for each in shorter)


def first_tokens(pods: Sequence[Track], start: float, end: float) -> tuple[float, float]:
    """Return the mean time to the first token between two moments in seconds (0 if none came), and how many came."""
    totals, counts = (
        sum(track.grown(read, start, end) or 0.0 for track in pods)
        for read in (tracks.TTFT_SECONDS, tracks.FIRST_TOKENS)
    )
    return (totals / counts, counts) if counts > 0 else (0.0, 0.0)


class Level(NamedTuple):
    """A gauge of all pods: its mean over some readings, and the standard deviation of one reading from that.

    That of one reading alone is not known, so it is infinite.
    """

    mean: float
    error: float


def level_of(pods: Sequence[Track], read: Callable[[EngineSample], float], start: float) -> Level | None:
    """Return the level of a gauge since a moment (POSIX seconds); None if a pod was not scraped since then.

    A reading is the sum of as many scrapes as there are pods: the last ones of each, those before them, and so on.
    """
    scrapes = zip(*(reversed([read(each) for each in track.after(start)]) for track in pods), strict=False)
    readings = [sum(of_pods) for of_pods in scrapes]
    if not readings:
        return None
    return Level(fmean(readings), stdev(readings) if len(readings) > 1 else math.inf)
