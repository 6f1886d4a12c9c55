"""The chart's recorded names on a real Prometheus: engines of vLLM, of SGLang, of both and of others side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.binaries import ensure_binaries
from testbed.played_past import PlayedPast
from testbed.prometheus import Prometheus
from testbed.waiting import wait_until
from tests.support.alerting import RECORDS, RULES_FILE

pytestmark = pytest.mark.cluster

KV, TTFT, GAP = "plimsoll:engine_kv_cache_usage_ratio:max", "time_to_first_token_seconds", "inter_token_latency_seconds"
RUNNING, WAITING = "plimsoll:engine_running_requests:sum", "plimsoll:engine_waiting_requests:sum"
PREEMPTED = "plimsoll:engine_preemptions:rate5m"
READ, WRITTEN = "plimsoll:engine_prompt_tokens:rate5m", "plimsoll:engine_generation_tokens:rate5m"
FIRST, BETWEEN = "plimsoll:engine_first_token_seconds:mean5m", "plimsoll:engine_token_gap_seconds:mean5m"


@dataclass(frozen=True, slots=True)
class Engine:
    """The series of one engine for half an hour before and after a time, one sample a minute.

    Attributes:
        labels: of each series.
        gauges: a value for each name.
        rates: the growth a second for each counter.
    """

    now: float
    labels: Mapping[str, str]
    gauges: Mapping[str, float]
    rates: Mapping[str, float]

    def lines(self) -> Iterator[str]:
        """Yield the samples with their times."""
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        for minute in range(61):
            at = round(1000 * (self.now + 60 * (minute - 30)))
            for name, value in self.gauges.items():
                yield f"{name}{{{labels}}} {value} {at}"
            for name, rate in self.rates.items():
                yield f"{name}{{{labels}}} {60 * minute * rate} {at}"


def engine(now: float, namespace: str, model: str, pod: str, figures: Mapping[str, float], **more: str) -> Engine:
    """An engine whose figures of counters are their growth a second."""
    is_rate = {name: name.endswith(("_total", "_sum", "_count")) for name in figures}
    return Engine(
        now,
        {"namespace": namespace, "pod": pod, "model_name": model, **more},
        {name: value for name, value in figures.items() if not is_rate[name]},
        {name: value for name, value in figures.items() if is_rate[name]},
    )


def vllm(usage: float, running: int, waiting: int, ttft: tuple[float, float], **more: float) -> dict[str, float]:
    """A release of vLLM; ``ttft``: seconds and requests a second."""
    return {
        "vllm:kv_cache_usage_perc": usage,
        "vllm:num_requests_running": running,
        "vllm:num_requests_waiting": waiting,
        f"vllm:{TTFT}_sum": ttft[0],
        f"vllm:{TTFT}_count": ttft[1],
        **{f"vllm:{name}": value for name, value in more.items()},
    }


def sglang(usage: float, running: int, waiting: int) -> dict[str, float]:
    """The gauges of SGLang."""
    return {"sglang:token_usage": usage, "sglang:num_running_reqs": running, "sglang:num_queue_reqs": waiting}


def known(now: float, name: str, metric: str) -> Engine:
    """The operator's own series of a deployment."""
    return Engine(now, {"namespace": "serving", "name": name}, {metric: 0}, {})


def series(now: float) -> Iterator[Engine]:
    # Two ranks of vLLM, of a release that has two names for the use of its cache and for the times between tokens.
    tokens = {"num_preemptions_total": 0.5, "prompt_tokens_total": 100, "generation_tokens_total": 40}
    both = {f"{GAP}_sum": 2, f"{GAP}_count": 100, "time_per_output_token_seconds_sum": 9}
    first = vllm(
        0.5, 10, 1, (1, 4), **tokens, **both, time_per_output_token_seconds_count=100, gpu_cache_usage_perc=0.99
    )
    second = vllm(0.75, 20, 2, (1.5, 1), prompt_tokens_total=50)
    yield engine(now, "serving", "chat", "chat-0", first, engine="0")
    yield engine(now, "serving", "chat", "chat-0", second, engine="1")
    yield engine(now, "serving", "chat", "chat-0", second, engine="1", endpoint="a-second-job")
    yield known(now, "chat", "plimsoll_unplaced_replicas")
    # SGLang divides its counters by whether an answer streams. The deployment cannot be planned any more, and serves.
    gaps = {"sglang:num_retracted_requests_total": 0.2, f"sglang:{GAP}_sum": 1, f"sglang:{GAP}_count": 100}
    yield engine(now, "serving", "qa", "qa-0", sglang(0.4, 4, 6) | gaps)
    for streams, prompt, seconds, requests in (("true", 30, 0.6, 2), ("false", 10, 0.4, 3)):
        counters = {"sglang:prompt_tokens_total": prompt, "sglang:generation_tokens_total": prompt / 10}
        times = {f"sglang:{TTFT}_sum": seconds, f"sglang:{TTFT}_count": requests}
        yield engine(now, "serving", "qa", "qa-0", counters | times, is_streaming=streams)
        yield engine(now, "serving", "qa", "qa-0", counters | times, is_streaming=streams, container="a-second-job")
    yield known(now, "qa", "plimsoll_problems")
    # One engine takes over from the other, which is of an old release.
    old = {"vllm:gpu_cache_usage_perc": 0.3, f"vllm:{TTFT}_sum": 1, f"vllm:{TTFT}_count": 1}
    slow = {"vllm:time_per_output_token_seconds_sum": 3, "vllm:time_per_output_token_seconds_count": 50}
    new = {f"sglang:{TTFT}_sum": 0.6, f"sglang:{TTFT}_count": 3, f"sglang:{GAP}_sum": 1, f"sglang:{GAP}_count": 150}
    yield engine(now, "serving", "moving", "moving-vllm-0", old | slow, engine="0")
    yield engine(now, "serving", "moving", "moving-sglang-0", sglang(0.1, 1, 0) | new)
    yield known(now, "moving", "plimsoll_unplaced_replicas")
    # A full cache and a queue. Nobody has asked for anything else.
    idle = {f"sglang:{TTFT}_sum": 0, f"sglang:{TTFT}_count": 0}
    yield engine(now, "serving", "full", "full-0", sglang(0.95, 50, 3) | idle)
    yield known(now, "full", "plimsoll_unplaced_replicas")
    # Others: an engine of each kind that no deployment has, and one with a deployment's name in another namespace.
    yield engine(now, "serving", "theirs", "theirs-0", vllm(1, 50, 9, (1, 1)), engine="0")
    yield engine(now, "serving", "theirs", "theirs-1", sglang(0.95, 50, 3))
    yield engine(now, "others", "chat", "chat-0", vllm(0.1, 50, 9, (1, 1)), engine="0")


EXPECTED = {
    (KV, "chat", "chat-0"): 0.75,
    (KV, "qa", "qa-0"): 0.4,
    (KV, "moving", "moving-vllm-0"): 0.3,
    (KV, "moving", "moving-sglang-0"): 0.1,
    (KV, "full", "full-0"): 0.95,
    (RUNNING, "chat", "chat-0"): 30,
    (RUNNING, "qa", "qa-0"): 4,
    (RUNNING, "moving", "moving-sglang-0"): 1,
    (RUNNING, "full", "full-0"): 50,
    (WAITING, "chat", "chat-0"): 3,
    (WAITING, "qa", "qa-0"): 6,
    (WAITING, "moving", "moving-sglang-0"): 0,
    (WAITING, "full", "full-0"): 3,
    (PREEMPTED, "chat", "chat-0"): 0.5,
    (PREEMPTED, "qa", "qa-0"): 0.2,
    (READ, "chat", "chat-0"): 150,
    (READ, "qa", "qa-0"): 40,
    (WRITTEN, "chat", "chat-0"): 40,
    (WRITTEN, "qa", "qa-0"): 4,
    # Of five requests a second, four take 0.25 s and one takes 1.5 s: the mean of the ranks' means would be 0.875 s.
    (FIRST, "chat", ""): 0.5,
    (FIRST, "qa", ""): 0.2,
    # One request in a second takes 1 s, three take 0.2 s: the mean of the engines' means would be 0.6 s.
    (FIRST, "moving", ""): 0.4,
    (BETWEEN, "chat", ""): 0.02,
    (BETWEEN, "qa", ""): 0.01,
    (BETWEEN, "moving", ""): 0.02,
}
"""The recorded figures, by name, deployment and pod; all of them are in one namespace."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory: Path = tmp_path_factory.mktemp("records")
    played = PlayedPast(series(time.time() // 60 * 60), days=1)
    with played, Prometheus(ensure_binaries(), directory, [], jobs=[played.job], days=1, rules=[RULES_FILE]) as started:
        wait_until(lambda: started.query(BETWEEN), 60, "the recorded names")
        yield started


def test_one_set_of_names_holds_the_figures_of_all_engines_of_deployments_and_no_others(prometheus: Prometheus) -> None:
    found = prometheus.query('{__name__=~"plimsoll:engine_.*"}')
    assert {each.labels["namespace"] for each in found} == {"serving"}
    figures = {(s.labels["__name__"], s.labels["name"], s.labels.get("pod", "")): s.value for s in found}
    assert figures == pytest.approx(EXPECTED)
    assert {name for name, _, _ in figures} == RECORDS.keys() - {"plimsoll:deployments:group1d"}


def test_the_alerts_hold_for_the_sglang_deployments_with_the_fault_and_for_no_neighbour(prometheus: Prometheus) -> None:
    def held() -> set[tuple[str, str, str]]:
        labels = [each["labels"] for each in prometheus.ask("alerts")["alerts"]]
        about = {"PlimsollKvCacheOverLine", "PlimsollQueueWithFreeCache"}
        return {(each["alertname"], each["namespace"], each["name"]) for each in labels if each["alertname"] in about}

    expected = {
        ("PlimsollKvCacheOverLine", "serving", "full"),
        ("PlimsollQueueWithFreeCache", "serving", "qa"),
    }
    wait_until(lambda: held() == expected, 60, "the alerts")
