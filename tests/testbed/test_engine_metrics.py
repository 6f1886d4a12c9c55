"""How a demand becomes metrics of engines."""

from __future__ import annotations

from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testbed.api_client import ApiClient
from testbed.engine_metrics import Counters, Demand, Engine, exposition, spread
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

    assert full.after(4.0).counters == Counters(preemptions=4.0, prompt_tokens=8000.0, generation_tokens=2000.0)
    assert half.after(4.0).counters.preemptions == 0.0


def test_prometheus_reads_the_page() -> None:
    page = exposition([engine("a", usage=0.25, running=7, waiting=1)])

    read = samples(page)
    assert read["vllm:kv_cache_usage_perc", "a"] == 0.25
    assert read["vllm:num_requests_running", "a"] == 7
    assert read["vllm:num_requests_waiting", "a"] == 1
    assert read["vllm:cache_config_info", "a"] == 1
    assert 'num_gpu_blocks="25000",kv_cache_size_tokens="400000"' in page


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

    def pods(self, _: str) -> list[dict[str, Any]]:
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
