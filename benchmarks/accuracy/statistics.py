"""Median, 90th percentile and worst of errors: nearest rank, so that every figure is one that occurred."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of one column: sizes without sign, and the largest one with its sign (above 0: predicted too much)."""

    count: int
    median: float
    p90: float
    worst: float
    worst_signed: float


def summarize(errors: Sequence[float]) -> Summary | None:
    """The summary of signed errors; None of none."""
    if not errors:
        return None
    sizes = sorted(abs(error) for error in errors)
    return Summary(
        count=len(sizes),
        median=quantile(sizes, 0.5),
        p90=quantile(sizes, 0.9),
        worst=sizes[-1],
        worst_signed=max(errors, key=abs),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed.

    Raises:
        ValueError: there are no values, or they are not in ascending order.
    """
    if not ordered or any(left > right for left, right in pairwise(ordered)):
        raise ValueError("values: give at least one, in ascending order")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
