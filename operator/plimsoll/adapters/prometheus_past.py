"""The question to Prometheus about the arrivals of days before, summed over all pods that a deployment ever had."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll.rebalance.past import STEP_SECONDS
from plimsoll.rebalance.trend import Point

LONGEST_PREFIX = 58
"""Kubernetes cuts the name that it generates for a pod after so many characters, and adds five of its own
(k8s.io/apiserver/pkg/storage/names)."""


def pods_of(workloads: Collection[str]) -> str:
    """Return a regular expression for the names of all pods of Deployments, also of those that are gone.

    A pod is named after its Deployment, a digest and some characters. Names of Kubernetes need no escapes but for dots.
    """
    prefixes = sorted({f"{workload}-"[:LONGEST_PREFIX] for workload in workloads})
    return "|".join(f"{prefix.replace('.', '[.]')}[0-9a-z-]+" for prefix in prefixes)


@dataclass(frozen=True, slots=True)
class Pods:
    """The matchers of the pods under one pair of labels, and the labels by which series of one engine are known."""

    matchers: str
    labels: tuple[str, ...]


def query_of(counter: str, pods: Sequence[Pods], seconds: float) -> str:
    """Return one query for the mean rate in each step of so many seconds.

    A pod that is scraped twice counts once, and each of its data-parallel ranks counts. Each step is the rate over its
    own time, so a pod that ended counts as long as it was. Prometheus begins the steps of a subquery at multiples of
    their length, so that the steps of all days are the same. Of several pairs of labels, the first one that has samples
    counts in each step, because two of them may be of the same series.
    """
    return f"({' or '.join(_sum(counter, each) for each in pods)})[{math.ceil(seconds)}s:{STEP_SECONDS:.0f}s]"


def _sum(counter: str, pods: Pods) -> str:
    engines = ",".join(pods.labels)
    return f"sum(max by ({engines}) (rate({counter}{{{pods.matchers}}}[{STEP_SECONDS:.0f}s])))"


def points_of(result: Any) -> list[Point]:
    """Read the ``data.result`` of the query's reply; what is no number is left out."""
    return [Point(at, rate) for entry in _listed(result) for at, rate in _values(entry)]


def _values(entry: Any) -> Iterator[tuple[float, float]]:
    for pair in _listed(entry.get("values") if isinstance(entry, dict) else None):
        try:
            yield float(pair[0]), float(pair[1])
        except (IndexError, KeyError, OverflowError, TypeError, ValueError):
            continue


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []
