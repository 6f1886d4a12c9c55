"""The questions to Prometheus about the past of a deployment: arrivals of days before, and requests of the last hours.

The questions are about all pods that the deployment ever had. A pod counts where its namespace, its own name and
the name under which its engine serves the model agree with the deployment. All three stay when the deployment moves to
other GPUs, and no other deployment of the namespace has the same three.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll.adapters.engine_series import Series, pod_signals
from plimsoll.engines.metrics import EngineMetrics, count_of
from plimsoll.rebalance.signals.metrics import PodSignals
from plimsoll.rebalance.signals.past import STEP_SECONDS
from plimsoll.rebalance.signals.trend import Point

LONGEST_PREFIX = 58
"""Kubernetes cuts the name that it generates for a pod after so many characters, and adds five of its own
(k8s.io/apiserver/pkg/storage/names)."""

OWN_CHARACTERS = 5

MOST_DIGEST = 10
"""Characters of a pod template's digest: the digits of a number of 32 bits (k8s.io/kubernetes/pkg/controller)."""

_POOL = "[0-9a-z-]+-tp[0-9]+(-pp[0-9]+)?(-dp[0-9]+)?"
"""The names of all pools (:func:`plimsoll.placement.pools.pool_name`)."""


def pods_of(deployment: str) -> str:
    """Return a regular expression for the names of all pods of a deployment, on whatever GPUs they run or ran.

    A pod is named after the deployment, its pool, a digest and some characters. A name that Kubernetes cut has its full
    length. The deployment's name has letters, digits and dashes only.
    """
    whole = f"{deployment}-{_POOL}-[0-9a-z]{{1,{MOST_DIGEST}}}-[0-9a-z]{{{OWN_CHARACTERS}}}"
    rest = LONGEST_PREFIX + OWN_CHARACTERS - len(f"{deployment}-")
    return f"{whole}|{deployment}-[0-9a-z-]{{{rest}}}" if rest > 0 else whole


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


def points_of(result: Any) -> tuple[Point, ...]:
    """Read the ``data.result`` of the query's reply; what is no number is left out."""
    return tuple(Point(at, rate) for entry in _listed(result) for at, rate in _values(entry))


def _values(entry: Any) -> Iterator[tuple[float, float]]:
    for pair in _listed(entry.get("values") if isinstance(entry, dict) else None):
        try:
            yield float(pair[0]), float(pair[1])
        except (IndexError, KeyError, OverflowError, TypeError, ValueError):
            continue


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def selector_of(metrics: EngineMetrics, matchers: str) -> str:
    """Return one selector for the series that show requests, so that all values are of one moment."""
    counters = (metrics.prompt_tokens, metrics.generation_tokens)
    counts = (count_of(metrics.first_token_seconds), count_of(metrics.output_lengths))
    names = [name for name in (metrics.kv_usage, metrics.waiting, metrics.running, *counters, *counts) if name]
    former = [old for old, name in metrics.former_names.items() if name in names]
    return f'{{__name__=~"{"|".join((*names, *former))}",{matchers}}}'


def samples_by_pod(series: Sequence[Series], pod_label: str, metrics: EngineMetrics) -> dict[str, PodSignals]:
    """Return the samples of each pod that has any."""
    by_pod: dict[str, list[Series]] = {}
    for each in series:
        by_pod.setdefault(each.labels.get(pod_label, ""), []).append(each)
    return {pod: pod_signals(pod, some, metrics) for pod, some in by_pod.items()}
