"""More questions to Prometheus: the queue of a gateway, the past of a deployment, and the activity of GPUs.

The queue of a gateway's endpoint picker, from the series of Prometheus.
The endpoint picker of llm-d and of the Gateway API inference extension holds requests when the engines are full or
none runs (flow control). Its gauge has a series for each fairness id, priority and model, so their sum is the queue. It
exists from the first request that the picker holds: no series is not an empty queue.

The questions to Prometheus about the past of a deployment: arrivals of days before, and requests of the last hours.
The questions are about all pods that the deployment ever had. A pod counts if its namespace, its own name and
the name under which its engine serves the model agree with the deployment. All three stay when the deployment moves to
other GPUs, and no other deployment of the namespace has the same three.

How busy the GPUs of pods are, as NVIDIA's DCGM exporter reports it to Prometheus. Nothing needs it.
The two series are in the exporter's default set: the share of cycles in which the memory sends or receives data, and in
which tensor cores work (https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html). GPUs without
profiling, such as GeForce, do not have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean
from typing import Any

from plimsoll.adapters.prometheus.engine_series import Series, pod_signals
from plimsoll.adapters.prometheus.readings import is_share
from plimsoll.engines.metrics import EngineMetrics, count_of
from plimsoll.engines.registry import ENGINES
from plimsoll.rebalance.signals.forecast import STEP_SECONDS, Point
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.gateway_scrapes import Scrapes, queue_of
from plimsoll.rebalance.signals.metrics import GpuActivity, PodSignals, SignalState

QUEUE_METRICS = ("llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size")
"""Requests that wait, as llm-d 0.9 names them, and the older name, under which it reports the same requests again."""

POOL_LABEL = "inference_pool"

WINDOW_SECONDS = 240
"""How far back the queue is read: the usual window of 120 s, and four scrapes of 30 s."""

_OWN_LABELS = frozenset({"__name__", "fairness_id", "priority", "model_name", "target_model_name"})
"""Labels that the picker gives its series itself. Others say where a series was scraped."""


@dataclass(frozen=True, slots=True)
class GatewayMetrics:
    """The metrics of a queue, the best one first, and the label that holds the InferencePool's name."""

    names: tuple[str, ...] = QUEUE_METRICS
    pool_label: str = POOL_LABEL

    def missing(self, pool: str) -> str:
        """Return the series that are missing, and what to look for, as text for people."""
        names = " or ".join(self.names)
        return (
            f'Prometheus has no recent series of {names} with {self.pool_label}="{pool}": there is no InferencePool '
            f"{pool} in this namespace, it names no endpoint picker (spec.endpointPickerRef), it holds no queue "
            "(flowControl), or nobody scrapes it."
        )


USUAL_METRICS = GatewayMetrics()
"""Those of llm-d's endpoint picker."""


def gateway_queue(
    series: Sequence[Series], metrics: GatewayMetrics, pool: str, pod_label: str, now: float
) -> GatewayQueue:
    """Return the queue. Only the best metric that has recent samples is read: two names report the same requests."""
    found = GatewayQueue(SignalState.MISSING)
    for name in metrics.names:
        some = [each for each in series if each.name == name]
        found = queue_of(_processes(some, metrics, pod_label), now)
        if found.state not in (SignalState.MISSING, SignalState.STALE):
            break
    if found.state is SignalState.INVALID:
        return replace(found, error=f"the queue of {pool} is an impossible number in three scrapes in a row.")
    return found if found.is_known else replace(found, error=metrics.missing(pool))


def _processes(series: Sequence[Series], metrics: GatewayMetrics, pod_label: str) -> list[Scrapes]:
    """Return the queue of each pod of the gateway. A pod that is scraped twice counts once, as it was scraped last."""
    by_pod: dict[str, dict[tuple[tuple[str, str], ...], list[Series]]] = {}
    for each in series:
        target = _target(each, metrics)
        by_pod.setdefault(each.labels.get(pod_label) or str(target), {}).setdefault(target, []).append(each)
    return [_summed(max(targets.values(), key=_newest)) for targets in by_pod.values()]


def _target(series: Series, metrics: GatewayMetrics) -> tuple[tuple[str, str], ...]:
    own = _OWN_LABELS | {metrics.pool_label}
    return tuple(sorted((label, value) for label, value in series.labels.items() if label not in own))


def _newest(some: Sequence[Series]) -> float:
    return max(max(each.points) for each in some)


def _summed(some: Sequence[Series]) -> Scrapes:
    """Add the series of each scrape. One impossible value stays, so that no other value hides it."""
    scrapes: dict[float, list[float]] = {}
    for each in some:
        for at, value in each.points.items():
            scrapes.setdefault(at, []).append(value)
    return {at: next((value for value in values if not value >= 0), sum(values)) for at, values in scrapes.items()}


def any_of(names: Sequence[str], matchers: str) -> str:
    """Return one selector for all names, so that all values are of one moment."""
    return f'{{__name__=~"{"|".join(names)}",{matchers}}}'


LONGEST_PREFIX = 58
"""Kubernetes cuts the name that it generates for a pod after so many characters, and adds five of its own
(k8s.io/apiserver/pkg/storage/names)."""

OWN_CHARACTERS = 5

MOST_DIGEST = 10
"""Characters of a pod template's digest: the digits of a number of 32 bits (k8s.io/kubernetes/pkg/controller)."""

_POOL = f"[0-9a-z-]+-tp[0-9]+(-pp[0-9]+)?(-dp[0-9]+)?(-({'|'.join(ENGINES)}))?"
"""The names of all pools (:func:`plimsoll.placement.demands.pools.name_of_new`)."""


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


def past_points_of(result: Any) -> tuple[Point, ...]:
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
    """Return one selector for the series that show requests."""
    counters = (metrics.prompt_tokens, metrics.generation_tokens)
    counts = (count_of(metrics.first_token_seconds), count_of(metrics.output_lengths))
    names = [name for name in (metrics.kv_usage, metrics.waiting, metrics.running, *counters, *counts) if name]
    former = [old for old, name in metrics.former_names.items() if name in names]
    return any_of((*names, *former), matchers)


def samples_by_pod(series: Sequence[Series], pod_label: str, metrics: EngineMetrics) -> dict[str, PodSignals]:
    """Return the samples of each pod that has any."""
    by_pod: dict[str, list[Series]] = {}
    for each in series:
        by_pod.setdefault(each.labels.get(pod_label, ""), []).append(each)
    return {pod: pod_signals(pod, some, metrics) for pod, some in by_pod.items()}


GPU_MEMORY = "DCGM_FI_PROF_DRAM_ACTIVE"
TENSOR_CORES = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"


XID_ERRORS = "DCGM_FI_DEV_XID_ERRORS"
"""The number of the last XID error of a GPU; 0 if there was none."""
ECC_ERRORS = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
"""Double-bit ECC errors since the driver was loaded."""
CLOCK_REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
"""Why clocks are lowered, as bits; the second is the name of earlier releases.

Source: https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html
"""

GPU_NAMES = (GPU_MEMORY, TENSOR_CORES, XID_ERRORS, ECC_ERRORS, *CLOCK_REASONS)

_THROTTLED = {0x08: "hardware slowdown", 0x20: "too hot", 0x40: "far too hot", 0x80: "power brake"}
"""The bits that no usual load sets, ``nvmlClocksEventReasons`` of NVML. Idle, chosen clocks and the power limit are."""

_SHARES = (GPU_MEMORY, TENSOR_CORES)


def activity_of(series: Mapping[str, Sequence[Series]]) -> GpuActivity | None:
    """Return the means of the newest shares of all GPUs, and what those of each pod report of themselves.

    None if there is no figure that can be. ``series`` are those of each pod.
    """
    shares: dict[str, list[float]] = {name: [] for name in _SHARES}
    newest = {pod: [(each.name, each.points[max(each.points)]) for each in some] for pod, some in series.items()}
    for name, value in chain.from_iterable(newest.values()):
        if name in shares and is_share(value):
            shares[name].append(value)
    memory, cores = (fmean(found) if found else None for found in shares.values())
    faults = tuple((pod, words) for pod, some in sorted(newest.items()) if (words := _faults(some)))
    return GpuActivity(memory, cores, faults) if faults or not (memory is None and cores is None) else None


def _faults(newest: Iterable[tuple[str, float]]) -> str:
    found: list[str] = []
    for name, value in newest:
        if not 0 < value <= _LARGEST_FAULT:
            continue
        if name == XID_ERRORS:
            found.append(f"XID {value:.0f}")
        elif name == ECC_ERRORS:
            found.append(f"double-bit ECC errors: {value:.0f}")
        elif name in CLOCK_REASONS:
            found += [f"throttling: {words}" for bit, words in _THROTTLED.items() if int(value) & bit]
    return ", ".join(sorted(set(found)))


_LARGEST_FAULT = 2**31
"""No number of errors, and no set of bits, is larger."""
