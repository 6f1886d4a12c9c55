"""WVA's throughput analyzer, which users switch on in addition to V2.

Source: llm-d/llm-d-workload-variant-autoscaler, analyzers/throughput/constants.go and
docs/developer-guide/throughput-analyzer.md. The time of a token is a line over the KV use k: ITL(k) = A k + B seconds,
fitted to at most 20 pairs of the last 30 minutes with k from 0.15 to 0.85. It needs 10 pairs that spread over 0.30, and
starts again where a mean length changes by 20 %. Until then B is 6 ms and A fits the present pairs. The supply of a
replica is its requests at k = 0.85 over ITL(0.85), in tokens a second. The demand is arrivals times the mean output,
and waiting requests over 2 ITL(0.85). Without metrics, lengths or a rising line it is silent.

The time of a token is the mean time between tokens of one minute. The blocks of a shared prompt are counted for each
request here, so its part in the prefix cache is not taken off the need of a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from plimsoll.simulation.peers.signals import (
    Lengths,
    arrivals,
    increase,
    known,
    lengths,
    newest,
    total_of,
)
from plimsoll.simulation.peers.view import FleetSizes, PodView, Policy, View
from plimsoll.simulation.peers.wva import Analysis, Wva, analysis_of
from plimsoll.simulation.peers.wva_v2 import Saturation

SATURATED_USE = 0.85
"""The KV use at which the supply is taken, 0 to 1."""

USABLE = 0.15, 0.85
LEAST_SPREAD = 0.30
LEAST_PAIRS, MOST_PAIRS = 10, 20
PAIR_SECONDS = 1800.0
BASE_SECONDS = 0.006
"""The time of a token at an empty KV cache before it is fitted."""

DRAIN_FACTOR = 2.0
LENGTH_TOLERANCE = 0.20
RATE_SECONDS = 60.0
LENGTHS_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A KV use (0 to 1) and the seconds of a token that were seen with it."""

    at: float
    use: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Line:
    """The seconds of a token as a line over the KV use."""

    slope: float
    base: float

    def at(self, use: float) -> float:
        """Return the seconds of a token at a KV use."""
        return self.slope * use + self.base


@dataclass(slots=True)
class Throughput:
    """The analyzer, with its pairs and the lengths for which they hold."""

    pairs: list[Pair] = field(default_factory=list)
    shape: Lengths | None = None

    def __call__(self, view: View) -> Analysis | None:
        """Compare the demand with the supply in tokens a second; None where the line or the lengths are unknown."""
        pods = known(view)
        mean = lengths(pods, view.now, LENGTHS_SECONDS)
        if mean is None or mean.in_cache <= 0:
            return None
        seen = [pair for pair in (_pair(pod, view.now) for pod in pods) if pair is not None]
        self._keep(seen, mean, view.now)
        line = _fitted(self.pairs) or _with_base(seen)
        if line is None:
            return None
        per_token = line.at(SATURATED_USE)
        supply = SATURATED_USE * view.engine.kv_tokens / mean.in_cache / per_token
        queue = total_of(pods, view.now, lambda sample: sample.waiting)
        demand = sum(arrivals(pod, view.now, RATE_SECONDS) for pod in pods) * mean.output
        return analysis_of(demand + queue / (DRAIN_FACTOR * per_token), supply, view)

    def _keep(self, seen: Iterable[Pair], mean: Lengths, now: float) -> None:
        if self.shape is None or _differs(self.shape, mean):
            self.shape, self.pairs = mean, []
        usable = [pair for pair in seen if USABLE[0] <= pair.use <= USABLE[1]]
        recent_pairs = [pair for pair in self.pairs if now - pair.at < PAIR_SECONDS]
        self.pairs = [*recent_pairs, *usable][-MOST_PAIRS:]


def _pair(pod: PodView, now: float) -> Pair | None:
    tokens = increase(pod, now, RATE_SECONDS, lambda sample: sample.token_gaps_total)
    if tokens <= 0:
        return None
    seconds = increase(pod, now, RATE_SECONDS, lambda sample: sample.token_gap_seconds_total)
    return Pair(now, newest(pod, now).kv_usage, seconds / tokens)


def _differs(before: Lengths, now: Lengths) -> bool:
    pairs = (before.prompt, now.prompt), (before.output, now.output)
    return any(abs(later - earlier) > LENGTH_TOLERANCE * earlier for earlier, later in pairs)


def _fitted(pairs: Sequence[Pair]) -> Line | None:
    """Return the line of least squares; None where the pairs are too few, too close, or the line falls."""
    uses = [pair.use for pair in pairs]
    if len(pairs) < LEAST_PAIRS or max(uses) - min(uses) < LEAST_SPREAD:
        return None
    use, seconds = fmean(uses), fmean(pair.seconds for pair in pairs)
    together = sum((pair.use - use) * (pair.seconds - seconds) for pair in pairs)
    slope = together / sum((each - use) ** 2 for each in uses)
    return Line(slope, seconds - slope * use) if slope > 0 else None


def _with_base(pairs: Sequence[Pair]) -> Line | None:
    """Return the line through the fixed base; None where it does not rise."""
    squares = sum(pair.use**2 for pair in pairs)
    slope = sum((pair.seconds - BASE_SECONDS) * pair.use for pair in pairs) / squares if squares else 0.0
    return Line(slope, BASE_SECONDS) if slope > 0 else None


def wva_throughput(_: FleetSizes) -> Policy:
    """Make V2 with both analyzers."""
    return Wva([Saturation(), Throughput()])
