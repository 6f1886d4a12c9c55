"""How a demand becomes metrics of engines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plimsoll.adapters.prometheus.engine_series import pod_signals
from plimsoll.adapters.prometheus.pod_scrape import read_page
from plimsoll.engines.sglang.metrics import METRICS as SGLANG_METRICS
from plimsoll.engines.vllm.metrics import METRICS
from testbed.api_client import ApiClient
from testbed.engine_counters import Counters
from testbed.engine_metrics import Demand, Engine, Server, spread
from testbed.engine_page import exposition
from testbed.engine_queue import Stream
from testbed.engines import Engines


def engine(
    pod: str, *, capacity_tokens: int = 400_000, usage: float = 0.0, running: int = 0, waiting: int = 0
) -> Engine:
    return Engine("team", pod, "org/model", capacity_tokens, usage=usage, running=running, waiting=waiting)


def samples(page: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels["pod"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_one_replica_more_lowers_the_usage_of_each() -> None:
    demand = Demand(kv_tokens=720_000)

    two = spread([engine("a"), engine("b")], demand)
    three = spread([engine("a"), engine("b"), engine("c")], demand)

    assert [shown.usage for shown in two] == pytest.approx([0.9, 0.9])
    assert [shown.usage for shown in three] == pytest.approx([0.6, 0.6, 0.6])


def test_what_does_not_fit_waits() -> None:
    [shown] = spread([engine("a")], Demand(kv_tokens=500_000))

    assert shown.usage == 1.0
    assert (shown.running, shown.waiting) == (200, 50)


def test_counts_that_are_given_are_spread_without_loss() -> None:
    shown = spread([engine("a"), engine("b"), engine("c")], Demand(kv_tokens=0, running=8, waiting=4))

    assert [one.running for one in shown] == [3, 3, 2]
    assert [one.waiting for one in shown] == [2, 1, 1]


def test_no_engines_take_no_demand() -> None:
    assert spread([], Demand(kv_tokens=1_000)) == []


def test_only_a_full_engine_with_a_queue_preempts() -> None:
    full, half = engine("a", usage=1.0, running=10, waiting=3), engine("a", usage=0.5, running=10)

    generated = Counters(generation_tokens=2000.0, gaps=2000.0, gap_seconds=40.0)
    assert full.after(4.0).counters == generated + Counters(preemptions=4.0)
    assert half.after(4.0).counters == generated


def test_a_crowd_begins_and_ends_no_request() -> None:
    totals = engine("a", usage=0.5, running=10).after(4.0).counters

    assert (totals.first_tokens, totals.finished, totals.prompt_tokens) == (0, 0, 0)


def test_a_stream_is_divided_among_the_engines() -> None:
    stream = Stream(rate=3.0, prompt=1000, output=100, first_token_seconds=0.2, token_seconds=0.05)

    shown = spread([engine("a"), engine("b")], Demand(stream=stream))

    assert [one.stream.rate for one in shown if one.stream] == [1.5, 1.5]


def test_a_stream_runs_in_the_slots_and_in_the_cache() -> None:
    stream = Stream(rate=10.0, prompt=1000, output=100, first_token_seconds=0.2, token_seconds=10.0)
    wide, narrow = Engine("team", "a", "org/model", 400_000, slots=8), Engine("team", "a", "org/model", 4_400, slots=8)

    [eight], [four] = (spread([one], Demand(stream=stream)) for one in (wide, narrow))
    eight, four = eight.after(2.05), four.after(2.05)

    assert (eight.running, eight.waiting, four.running, four.waiting) == (8, 12, 4, 16)
    assert four.usage == pytest.approx(4 * 1001 / 4_400)


def test_totals_never_fall_when_a_crowd_takes_the_place_of_a_stream() -> None:
    stream = Stream(rate=10.0, prompt=1000, output=100, first_token_seconds=0.2, token_seconds=0.05)
    [streaming] = spread([engine("a")], Demand(stream=stream))
    streaming = streaming.after(3.0)

    [crowd] = spread([streaming], Demand(kv_tokens=10_000))

    assert crowd.counters == streaming.counters
    assert crowd.counters.first_tokens > 0
    assert (crowd.running, crowd.restarted().counters) == (5, Counters())


def test_prometheus_reads_the_page() -> None:
    page = exposition([engine("a", usage=0.25, running=7, waiting=1)])

    read = samples(page)
    assert read["vllm:kv_cache_usage_perc", "a"] == 0.25
    assert read["vllm:num_requests_running", "a"] == 7
    assert read["vllm:num_requests_waiting", "a"] == 1
    assert read["vllm:cache_config_info", "a"] == 1
    assert 'num_gpu_blocks="25000",kv_cache_size_tokens="400000"' in page


def test_the_page_has_every_metric_that_the_operator_reads() -> None:
    named = {name for name, _ in samples(exposition([engine("a")]))}

    assert set(METRICS.names) - named == set()


def test_the_totals_of_requests_are_on_the_page() -> None:
    stream = Stream(rate=1.0, prompt=1000, output=101, first_token_seconds=0.5, token_seconds=0.02)
    [streaming] = spread([engine("a")], Demand(stream=stream))

    read = samples(exposition([streaming.after(3.8)]))  # requests came at 1, 2 and 3 s; one takes 2.5 s

    assert read["vllm:prompt_tokens_total", "a"] == 3000
    assert read["vllm:time_to_first_token_seconds_count", "a"] == 3
    assert read["vllm:time_to_first_token_seconds_sum", "a"] == pytest.approx(1.5)
    assert read["vllm:request_generation_tokens_sum", "a"] == 101
    assert read["vllm:e2e_request_latency_seconds_sum", "a"] == pytest.approx(2.5)
    assert read["vllm:e2e_request_latency_seconds_bucket", "a"] == 1
    gaps = read["vllm:inter_token_latency_seconds_count", "a"]
    assert read["vllm:generation_tokens_total", "a"] == gaps + 3
    assert read["vllm:inter_token_latency_seconds_sum", "a"] == pytest.approx(0.02 * gaps)
    assert read["vllm:num_requests_running", "a"] == 2


def test_labels_are_escaped() -> None:
    odd = Engine("team", "a", 'C:\\models\n"x"', 16)

    families = list(text_string_to_metric_families(exposition([odd])))

    assert families[0].samples[0].labels["model_name"] == 'C:\\models\n"x"'


def test_nan_hits_gauges_and_spares_counters() -> None:
    page = exposition([engine("a", usage=0.25)], gauge_override="NaN")

    assert 'vllm:kv_cache_usage_perc{namespace="team",pod="a",engine="0",model_name="org/model"} NaN' in page
    assert 'vllm:num_preemptions_total{namespace="team",pod="a",engine="0",model_name="org/model"} 0.0' in page


class Ready:
    """An API server with one ready pod of an engine."""

    def cached_pods(self, _: str) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"name": "a", "namespace": "ns", "labels": {"plimsoll.dev/deployment": "model"}},
                "spec": {"containers": [{"args": ["acme/model"]}]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        ]


def test_an_engine_can_get_another_kv_cache_in_its_pod() -> None:
    engines = Engines(cast("ApiClient", Ready()))
    engines.resize("ns/other", 1_000)
    assert 'kv_cache_size_tokens="400000"' in engines.page()
    engines.resize("ns/model", 30_000)
    engines.refresh()
    assert 'kv_cache_size_tokens="30000"' in engines.page()


def test_the_page_of_a_played_sglang_has_what_the_adapter_reads_and_the_labels_of_a_real_one() -> None:
    """The names are compared with a real server's by ``make test-engine``."""
    stream = Stream(rate=2.0, prompt=1000, output=100, first_token_seconds=0.2, token_seconds=0.01)
    idle = replace(engine("a", capacity_tokens=50_000), server=Server.SGLANG)
    [played] = spread([idle], Demand(stream=stream))
    page = exposition([played.after(60.0), engine("b")])
    (found,) = pod_signals("a", read_page(page, 1.0, SGLANG_METRICS), SGLANG_METRICS).samples
    totals = played.after(60.0).counters
    assert found.kv_capacity_tokens == 50_000
    assert found.finished_total == int(totals.finished) > 100
    assert found.finished_prompt_tokens_total == found.prompt_tokens_total == found.prefix_queried_tokens_total
    assert found.preemptions_total is None, "it appears with the first request that is thrown out"
    read = {"a": set[str](), "b": set[str]()}
    for sample in (sample for family in text_string_to_metric_families(page) for sample in family.samples):
        read[sample.labels["pod"]].add(sample.name.partition(":")[0])
        if sample.labels["pod"] == "a":
            assert {*sample.labels} - {"namespace", "pod", "le"} <= SGLANG_METRICS.labels
    assert read == {"a": {"sglang"}, "b": {"vllm"}}
