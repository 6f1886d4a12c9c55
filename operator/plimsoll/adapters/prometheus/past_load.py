"""The load of a deployment over days, from Prometheus: requests, their lengths, and how much of the time is known.

Each question is about one counter and one day at most, so that no answer has more than 288 points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics, count_of
from plimsoll.rebalance.signals.forecast import MOST_PER_SECOND, STEP_SECONDS
from plimsoll.simulation.past import PastStep

DAY_SECONDS: Final = 86_400.0

ANSWER_SECONDS: Final = 30.0
"""The longest time for the answer about one day: a person waits for it."""

MOST_TOKENS: Final = 10_000_000.0
"""A request with more tokens is an impossible number."""


@dataclass(frozen=True, slots=True)
class PastLoad:
    """The load of a time that is over.

    Attributes:
        begin: POSIX seconds.
        seconds: how long it is.
        steps: those of which anything is known, in seconds since ``begin``.
        known: the part of the time that is known, 0 to 1.
        startup_seconds: the longest start-up that the operator's metrics show; None: they show none.
    """

    begin: float
    seconds: float
    steps: tuple[PastStep, ...]
    known: float
    startup_seconds: float | None


def past_load(
    signals: PrometheusSignals,
    key: ObjectKey,
    metrics: EngineMetrics,
    *,
    until: float,
    seconds: float,
    progress: Callable[[float], None],
) -> PastLoad:
    """Ask for the load of a deployment, day by day. A step of which nothing is known is left out.

    Args:
        signals: the Prometheus.
        key: the deployment.
        metrics: the names that its engine uses.
        until: the end in POSIX seconds; it is moved back to the end of a step.
        seconds: how long the time is.
        progress: is called with the part that was asked for, 0 to 1.

    Raises:
        SourceUnavailable: Prometheus does not answer.
    """
    end = math.floor(until / STEP_SECONDS) * STEP_SECONDS
    count = max(1, math.ceil(seconds / STEP_SECONDS))
    begin = end - count * STEP_SECONDS
    counters = (
        count_of(metrics.first_token_seconds),
        metrics.prompt_tokens,
        metrics.generation_tokens,
        metrics.prefix_hit,
    )
    read: tuple[dict[int, float], ...] = tuple({} for _ in counters)
    for first, last in _days(begin, end):
        for counter, rates in zip(counters, read, strict=True):
            day = dict[int, float]()
            for part in metrics.summands(counter):
                answer = signals.rates_before(
                    part,
                    key.namespace,
                    key.name,
                    metrics,
                    until=last,
                    seconds=last - first,
                    limit_seconds=ANSWER_SECONDS,
                )
                if answer.error:
                    raise SourceUnavailable(f"Prometheus cannot say what came: {answer.error}")
                for at, rate in answer.points:
                    if _is_possible(rate):
                        step = round(at / STEP_SECONDS)
                        day[step] = day.get(step, 0.0) + rate
            rates.update(day)
        progress((last - begin) / (end - begin))
    steps = tuple(_steps(read, begin, count))
    startup = signals.longest_startup(key.namespace, key.name, until=end, seconds=seconds)
    return PastLoad(begin, count * STEP_SECONDS, steps, len(steps) / count, startup)


def _days(begin: float, end: float) -> Iterator[tuple[float, float]]:
    while begin < end:
        last = min(end, begin + DAY_SECONDS)
        yield begin, last
        begin = last


def _steps(read: tuple[dict[int, float], ...], begin: float, count: int) -> Iterator[PastStep]:
    """Yield the steps. The point of a step is at its end."""
    arrivals, prompts, outputs, hits = read
    for number in range(count):
        at = round(begin / STEP_SECONDS) + number + 1
        rate = arrivals.get(at)
        if rate is None:
            continue
        prompt, output = (_mean(each.get(at), rate) for each in (prompts, outputs))
        if rate > 0 and (prompt is None or output is None):
            continue
        cached = _mean(hits.get(at), rate) or 0.0
        lengths = prompt or 1.0, output or 1.0  # where nothing came, nothing is drawn
        yield PastStep(number * STEP_SECONDS, STEP_SECONDS, rate, *lengths, min(cached, lengths[0]))


def _mean(tokens: float | None, rate: float) -> float | None:
    """Return the mean tokens of a request; None if they are not known, or cannot be."""
    if tokens is None or rate <= 0:
        return None
    return tokens / rate if tokens / rate <= MOST_TOKENS else None


def _is_possible(rate: float) -> bool:
    return 0 <= rate <= MOST_PER_SECOND * MOST_TOKENS
