"""Errors of predictions against measured figures: their sizes, the order of pairs, and what a band covers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from benchmarks.latency.cases import Case
from benchmarks.latency.prediction import Prediction

ORDER_GAP: Final = 1.2
"""Pairs whose measured times differ by less than a fifth are a tie for whoever chooses between them."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors: number, median and 90th percentile of their sizes, and the median with its sign, as shares."""

    count: int
    median: float
    p90: float
    bias: float


def ratios(cases: Sequence[Case], predicted: Sequence[Prediction], *, ttft: bool) -> list[float]:
    """Return predicted over measured for every case that has both."""
    found: list[float] = []
    for case, each in zip(cases, predicted, strict=True):
        measured = case.row.scored_ttft if ttft else case.row.tpot
        value = each.ttft if ttft else each.tpot
        if measured is not None and value is not None:
            found.append(value / measured)
    return found


def errors(found: Iterable[float]) -> Errors | None:
    """Return the errors of ratios; None without any."""
    values = [each - 1 for each in found]
    if not values:
        return None
    sizes = [abs(each) for each in values]
    return Errors(len(values), quantile(sizes, 0.5), quantile(sizes, 0.9), quantile(values, 0.5))


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile by straight lines between neighbours.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("values: none; a quantile needs one or more")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def weighted_quantile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """Return a quantile of values that count as much as their weights, by straight lines between their middles.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("values: none; a quantile needs one or more")
    aim, passed, before = share * sum(weights), 0.0, (-1.0, 0.0)
    ordered = sorted(zip(values, weights, strict=True))
    for value, weight in ordered:
        middle = passed + weight / 2
        if middle >= aim:
            place, lower = before
            return value if place < 0 else lower + (value - lower) * (aim - place) / (middle - place)
        passed, before = passed + weight, (middle, value)
    return ordered[-1][0]


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of places for the same model and load: how many there are, and how many are predicted in their order."""

    pairs: int
    right: int


def order(cases: Sequence[Case], predicted: Sequence[Prediction]) -> Order:
    """Compare GPU types of one source that served the same model, format and load.

    Splits of one GPU type are left out: more GPUs are nearly always faster, and any model says so.
    """
    groups: dict[tuple[object, ...], list[tuple[Case, float]]] = defaultdict(list)
    for case, each in zip(cases, predicted, strict=True):
        row = case.row
        groups[row.source, row.model, row.precision, row.prompt, row.output, row.running].append((case, each.tpot))
    pairs = right = 0
    for group in groups.values():
        for (one, first), (other, second) in combinations(group, 2):
            if one.gpu.name == other.gpu.name or not _differ(one.row.tpot, other.row.tpot):
                continue
            pairs += 1
            right += (first < second) is (one.row.tpot < other.row.tpot)
    return Order(pairs, right)


def _differ(one: float, other: float) -> bool:
    return max(one, other) / min(one, other) > ORDER_GAP


def covered(found: Sequence[float], band: tuple[float, float]) -> int:
    """Return how many measured figures are inside the band around their predictions, given predicted over measured."""
    low, high = band
    return sum(low <= 1 / ratio <= high for ratio in found)
