"""Pages of other tenants on a real Prometheus: whatever they report, the honest engines' figures are their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.questions import QUEUE_METRICS
from plimsoll.adapters.prometheus.readings import Asked
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from testbed.binaries import ensure_binaries
from testbed.prometheus import Prometheus
from testbed.waiting import wait_until
from tests.adapters.fake_engine import PAGE, engine, page

pytestmark = pytest.mark.cluster

METRICS = engine_of().metrics
HOUR_MS = 3_600_000


def claims(namespace: str, pod: str, labels: tuple[str, str]) -> str:
    """A page on which somebody else's pod is full, and a queue waits at its gateway."""
    of_namespace, of_pod = labels
    mine = f'{of_namespace}="{namespace}",{of_pod}="{pod}",'
    queue = f'{QUEUE_METRICS[0]}{{{mine}inference_pool="pool"}} 100000\n'
    return PAGE.replace("{", "{" + mine).replace(" 0.5", " 1.0").replace(" 3.0\n", " 900.0\n") + queue


def crowd() -> str:
    """Ten thousand series of one engine."""
    return PAGE + "".join(f'{METRICS.running}{{engine="0",junk="{number}"}} 1\n' for number in range(10_000))


def odd(value: str) -> str:
    """Gauges and counters that cannot be."""
    return PAGE.replace(" 0.5\n", f" {value}\n").replace(" 3.0\n", f" {value}\n").replace(" 900.0\n", f" {value}\n")


def ahead() -> str:
    """Samples of the next hour."""
    at = round(time.time() * 1000) + HOUR_MS
    return "\n".join(line if line.startswith("#") else f"{line} {at}" for line in PAGE.splitlines()) + "\n"


NEW, RENAMED, OLD = (
    ("namespace", "pod"),
    ("exported_namespace", "exported_pod"),
    ("kubernetes_namespace", "kubernetes_pod_name"),
)
HONEST = [("chat", "honest-0", NEW), ("chat", "old-0", OLD)]
"""Engines with the two sets of labels that targets usually have. The pod ``silent-0`` is not scraped at all."""

LIARS: list[tuple[str, tuple[str, str], Callable[[], str]]] = [
    ("renamed-0", NEW, lambda: claims("chat", "silent-0", NEW)),
    ("free-0", NEW, lambda: claims("chat", "silent-0", OLD)),
    ("own-0", NEW, lambda: claims("chat", "silent-0", RENAMED)),
    ("first-0", OLD, lambda: claims("chat", "old-0", NEW)),
    ("crowd-0", NEW, crowd),
    ("nan-0", NEW, lambda: odd("NaN")),
    ("huge-0", NEW, lambda: odd("1e308")),
    ("less-0", NEW, lambda: odd("-1")),
    ("ahead-0", NEW, ahead),
]
"""Pods of the namespace ``foreign``: the labels of their targets, and their pages."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus without ``honor_labels`` that has scraped everybody."""
    pods = [*((*pod, PAGE) for pod in HONEST), *(("foreign", pod, labels, text()) for pod, labels, text in LIARS)]
    with ExitStack() as stack:
        jobs = []
        for namespace, pod, labels, text in pods:
            served = stack.enter_context(engine(page(text)))
            target = {
                "targets": [f"127.0.0.1:{served.port}"],
                "labels": dict(zip(labels, (namespace, pod), strict=True)),
            }
            jobs.append({"job_name": pod, "static_configs": [target]})
        running = stack.enter_context(
            Prometheus(ensure_binaries(), tmp_path_factory.mktemp("prometheus"), [], jobs=jobs)
        )
        wait_until(lambda: running.value("count(count_over_time(up[1m]) > 2)") == len(pods), 60, "three scrapes of all")
        yield running


def read(prometheus: Prometheus, namespace: str, *pods: str) -> Reading:
    return PrometheusSignals(prometheus.url).read(namespace, pods, window_seconds=60, now=time.time())


def test_no_page_reports_for_the_pods_of_another_namespace(prometheus: Prometheus) -> None:
    for labels in (RENAMED, OLD, NEW):
        forged = f'count(vllm:num_requests_running{{{labels[0]}="chat"}})'
        assert prometheus.value(forged) > 0, "Prometheus has the forged series"
    reading = read(prometheus, "chat", "honest-0", "silent-0", "old-0")
    assert reading.state is SignalState.FRESH
    assert {pod: {(each.kv_usage, each.waiting) for each in one.samples} for pod, one in reading.pods.items()} == {
        "honest-0": {(0.5, 3.0)},
        "old-0": {(0.5, 3.0)},
    }


def test_no_page_puts_requests_into_the_queue_of_another_namespace(prometheus: Prometheus) -> None:
    assert prometheus.value(f"count({QUEUE_METRICS[0]})") > 0
    queue = PrometheusSignals(prometheus.url).read_queue("chat", "pool", now=time.time())
    assert (queue.is_known, queue.waiting) == (False, 0)


def test_crowds_impossible_numbers_and_times_to_come_cost_their_own_pod_alone(prometheus: Prometheus) -> None:
    """The reader is the same for all, and is asked about the honest tenant again after each of the others."""
    signals = PrometheusSignals(prometheus.url)
    for pod, labels, _ in LIARS:
        theirs = signals.read("foreign", [pod], window_seconds=60, now=time.time())
        mine = signals.read("chat", ["honest-0"], window_seconds=60, now=time.time())
        assert {each.kv_usage for each in mine.pods["honest-0"].samples} == {0.5}
        assert theirs.state is SignalState.FRESH, (pod, labels)
        assert (pod in theirs.pods) == (pod in ("nan-0", "huge-0", "less-0"))


def test_one_query_about_all_tenants_gives_the_honest_ones_their_own_figures(prometheus: Prometheus) -> None:
    """The page with ten thousand series is in it, and each reading is that of its own pod."""
    pods = [("chat", "honest-0"), ("chat", "silent-0"), ("chat", "old-0"), *(("foreign", pod) for pod, _, _ in LIARS)]
    asked = [Asked(namespace, {pod: ""}, 60) for namespace, pod in pods]
    readings = PrometheusSignals(prometheus.url).read_all(asked, METRICS, now=time.time())
    found = {pod: reading for (_, pod), reading in zip(pods, readings, strict=True)}
    assert {each.state for each in readings} == {SignalState.FRESH}
    for pod in ("honest-0", "old-0"):
        assert {each.kv_usage for each in found[pod].pods[pod].samples} == {0.5}
    assert not found["silent-0"].pods
    assert found["crowd-0"].series > 4096
    assert found["honest-0"].series == read(prometheus, "chat", "honest-0").series
