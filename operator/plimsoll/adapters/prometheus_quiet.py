"""The question to Prometheus about requests of the last hours, of all pods that a deployment had then."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.adapters.engine_series import Series, pod_signals
from plimsoll.engines.metrics import EngineMetrics, count_of
from plimsoll.rebalance.signals import PodSignals


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
