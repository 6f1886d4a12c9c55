"""Played engines, scraped by a real Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.api_client import ApiError, http_text
from testbed.control_plane import ControlPlane
from testbed.engines import Engines
from testbed.prometheus import Prometheus
from testbed.waiting import wait_until
from tests.support.workloads import gpu_deployment

pytestmark = pytest.mark.cluster


@pytest.fixture
def engines(control_plane: ControlPlane) -> Iterator[Engines]:
    with Engines(control_plane.client) as running:
        yield running


@pytest.fixture
def prometheus(control_plane: ControlPlane, engines: Engines, tmp_path: Path) -> Iterator[Prometheus]:
    with Prometheus(control_plane.binaries, tmp_path / "prometheus", [engines.target]) as running:
        yield running


def usage(prometheus: Prometheus, namespace: str) -> list[float]:
    return [sample.value for sample in prometheus.query(f'vllm:kv_cache_usage_perc{{namespace="{namespace}"}}')]


def test_prometheus_sees_the_load_spread_over_ready_replicas(
    control_plane: ControlPlane, namespace: str, engines: Engines, prometheus: Prometheus
) -> None:
    capacity = {"plimsoll.dev/kv-capacity-tokens": "100000"}
    control_plane.apply([gpu_deployment("chat", namespace, annotations=capacity)])
    key = f"{namespace}/chat"
    wait_until(lambda: len(engines.ready(key)) == 1, 60, "one engine")

    engines.load(key, kv_usage=0.8)
    wait_until(lambda: usage(prometheus, namespace) == [0.8], 60, "the load in Prometheus")
    control_plane.kubectl("scale", "deployment/chat", "--namespace", namespace, "--replicas=2")
    wait_until(lambda: usage(prometheus, namespace) == [0.4, 0.4], 60, "the load spread over two")

    [info, _] = prometheus.query(f'vllm:cache_config_info{{namespace="{namespace}"}}')
    assert (info.labels["kv_cache_size_tokens"], info.labels["num_gpu_blocks"]) == ("100000", "6250")
    assert prometheus.value(f'sum(vllm:num_requests_running{{namespace="{namespace}"}})') == 40


def test_prometheus_can_be_killed_and_comes_back_with_its_data(
    control_plane: ControlPlane, namespace: str, engines: Engines, prometheus: Prometheus
) -> None:
    control_plane.apply([gpu_deployment("chat", namespace)])
    wait_until(lambda: usage(prometheus, namespace) == [0.0], 60, "an idle engine in Prometheus")

    prometheus.kill()
    with pytest.raises((OSError, ApiError)):
        prometheus.query("up")
    prometheus.start()

    assert prometheus.query("max_over_time(up[1h])")[0].value == 1
    assert engines.target


def test_faults_of_the_metrics_page(control_plane: ControlPlane, namespace: str, engines: Engines) -> None:
    control_plane.apply([gpu_deployment("chat", namespace)])
    key = f"{namespace}/chat"
    [pod] = wait_until(lambda: engines.ready(key), 60, "one engine")
    engines.load(key, kv_usage=2.0)

    assert f'pod="{pod}",engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"}} 1.0' in engines.page()
    engines.nan()
    assert f'vllm:kv_cache_usage_perc{{namespace="{namespace}",pod="{pod}"' in engines.page()
    assert " NaN\n" in engines.page()
    engines.garbage()
    assert engines.page().startswith("<html>")
    engines.stall()
    with pytest.raises(TimeoutError):
        http_text(f"http://{engines.target}/metrics", timeout=0.5)
    engines.heal()
    assert pod in http_text(f"http://{engines.target}/metrics")
    engines.drop(pod)
    assert pod not in engines.page()


def test_counters_count_until_they_are_reset(control_plane: ControlPlane, namespace: str, engines: Engines) -> None:
    control_plane.apply([gpu_deployment("chat", namespace)])
    key = f"{namespace}/chat"
    wait_until(lambda: engines.ready(key), 60, "one engine")
    engines.load(key, kv_usage=2.0)

    def preemptions() -> float:
        lines = [line for line in engines.page().splitlines() if line.startswith("vllm:num_preemptions_total{")]
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if namespace in line), math.nan)

    wait_until(lambda: preemptions() >= 1, 60, "a preemption")
    engines.reset_counters()

    assert preemptions() == 0


def test_usage_needs_something_to_be_measured_by(engines: Engines) -> None:
    with pytest.raises(ValueError, match="no ready replica"):
        engines.load("nowhere/nothing", kv_usage=0.5)
    with pytest.raises(ValueError, match="both are given"):
        engines.load("nowhere/nothing", kv_usage=0.5, kv_tokens=1)
