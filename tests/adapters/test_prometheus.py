from __future__ import annotations

import gzip
import json
import math
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.prometheus import prometheus
from plimsoll.adapters.prometheus.access import LABEL_PAIRS
from plimsoll.adapters.prometheus.engine_series import (
    MOST_RANKS,
    MOST_SCRAPES,
    MOST_SERIES,
    Series,
    pod_signals,
    read_names,
)
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.readings import Asked
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.registry import engine_of
from plimsoll.engines.vllm.metrics import capacity_tokens
from plimsoll.rebalance.signals.load import summarize
from plimsoll.rebalance.signals.metrics import EngineSample, SignalState
from plimsoll.rebalance.signals.reading import Reading
from tests.adapters.fake_prometheus import (
    Answer,
    FakePrometheus,
    Query,
    matrix,
    selected,
    send_bytes,
    send_json,
    serving,
    success,
)
from tests.support.tables import every_case
from tests.support.work import measured_effort

NOW = 1_700_000_000.0
TARGET = {"namespace": "chat", "pod": "llama-0", "instance": "10.0.0.7:8000", "job": "chat/llama"}
METRICS = engine_of().metrics
PLACES = {label for pair in LABEL_PAIRS for label in pair}
CONFIG = {"block_size": "16", "num_gpu_blocks": "100", "cache_dtype": "auto", "kv_cache_size_tokens": "1500"}


def series(name: str, points: dict[float, str], target: dict[str, str] | None = None, **labels: str) -> Any:
    own = {"engine": "0", "model_name": "llama"} if name != "cache_config_info" else {"engine": "0"}
    metric = {"__name__": f"vllm:{name}", **own, **(TARGET if target is None else target), **labels}
    return {"metric": metric, "values": [[NOW + at, value] for at, value in points.items()]}


def pod_series(points: dict[float, str], target: dict[str, str] | None = None, **labels: str) -> list[Any]:
    ones = dict.fromkeys(points, "1")
    return [
        series("kv_cache_usage_perc", points, target, **labels),
        series("num_requests_waiting", ones, target, **labels),
        series("num_requests_running", dict.fromkeys(points, "4"), target, **labels),
        series("num_preemptions_total", dict.fromkeys(points, "7"), target, **labels),
        series("prompt_tokens_total", dict.fromkeys(points, "900"), target, **labels),
        series("generation_tokens_total", dict.fromkeys(points, "300"), target, **labels),
        series("cache_config_info", ones, target, **CONFIG, **labels),
    ]


def replying(*found: Any, pod_label: str = "pod") -> Answer:
    """Answer with the series whose pod is asked for under that label."""

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        asked = f',{pod_label}=~"' in query["query"]
        send_json(request, matrix(*found) if asked else matrix())

    return answer


def read(answer: Answer, *pods: str, clock: float = NOW, **options: Any) -> Reading:
    with serving(clock, answer) as fake:
        return PrometheusSignals(fake.url, **options).read("chat", pods or ("llama-0",), window_seconds=300, now=NOW)


def samples(reading: Reading, pod: str = "llama-0") -> list[EngineSample]:
    return list(reading.pods[pod].samples)


def test_a_scrape_becomes_a_sample() -> None:
    reading = read(replying(*pod_series({-20: "0.5", -5: "0.75"})))

    assert reading.state is SignalState.FRESH
    assert samples(reading) == [
        EngineSample(NOW - 20, 0.5, 1.0, 4.0, 7.0, 1500, 900.0, 300.0),
        EngineSample(NOW - 5, 0.75, 1.0, 4.0, 7.0, 1500, 900.0, 300.0),
    ]


def test_the_question_asks_for_raw_samples_of_all_metrics_at_one_moment() -> None:
    with serving(NOW, replying(*pod_series({-5: "0.5"}))) as fake:
        PrometheusSignals(fake.url + "/").read("chat", ["llama-0"], window_seconds=300, now=NOW)

    (query,) = fake.queries
    others = 'exported_namespace=~"|chat",kubernetes_namespace=~"|chat"'
    assert query["query"].endswith(f'",namespace="chat",{others},pod=~"llama-0"}}[300s]')
    assert query["query"].startswith('{__name__=~"vllm:kv_cache_usage_perc|')
    assert float(query["time"]) == NOW


def test_the_age_of_a_silent_pod_is_its_last_scrapes_and_not_the_questions() -> None:
    silent = dict.fromkeys(range(-295, -200, 15), "0.5")

    reading = read(replying(*pod_series({float(at): value for at, value in silent.items()})))
    load = summarize(list(reading.pods.values()), ["llama-0"], NOW, window_seconds=120, capacity_tokens=1500)

    assert load.state is SignalState.STALE
    assert load.pods[0].age_seconds == 205


def test_ranks_of_a_pod_are_put_together() -> None:
    both = [*pod_series({-5: "0.5"}), *pod_series({-5: "0.75"}, engine="1")]

    # 750 and 1,125 of 1,500 tokens each: 1,875 of 3,000.
    by_rank: dict[str, Any] = {"rank_usages": (0.5, 0.75), "rank_queues": (1.0, 1.0)}
    expected = EngineSample(NOW - 5, 0.625, 2.0, 8.0, 14.0, 3000, 1800.0, 600.0, **by_rank)
    assert samples(read(replying(*both))) == [expected]


OFFLOAD = {"cpu_num_chunks": "65536", "cpu_blocks_per_chunk": "1", "cpu_kv_cache_size_bytes": "137438953472"}
"""Labels of the size of a cache in host memory, as vLLM 0.33 writes them (``v1/kv_offload/cpu/common.py``)."""


def in_host(tokens: str, target: dict[str, str] | None = None, **labels: str) -> Any:
    there = {**OFFLOAD, "cpu_kv_cache_size_tokens": tokens}
    return series("kv_offload_config_info", {-5: "1"}, target, **there, **labels)


def test_the_engine_s_own_size_of_its_cache_in_host_memory_is_read_and_one_without_has_none() -> None:
    one = pod_series({-5: "0.5"})
    [alone] = samples(read(replying(*one, in_host("1048576"))))
    assert (alone.host_cache_tokens, alone.kv_capacity_tokens, alone.is_possible) == (1_048_576, 1500, True)
    both = [*one, *pod_series({-5: "0.75"}, engine="1")]
    [ranks] = samples(read(replying(*both, in_host("1048576"), in_host("1048576", engine="1"))))
    assert ranks.host_cache_tokens == 2_097_152
    for unknown in ("None", "", "-5", "1e6", "9" * 400):
        [silent] = samples(read(replying(*one, in_host(unknown))))
        assert (silent.host_cache_tokens, silent.kv_capacity_tokens) == (None, 1500), unknown
    [neighbour] = samples(read(replying(*one)))
    assert neighbour.host_cache_tokens is None


HISTOGRAMS = {
    "request_prompt_tokens": ("900", "3"),
    "request_generation_tokens": ("300", "3"),
    "time_to_first_token_seconds": ("1.5", "4"),
    "inter_token_latency_seconds": ("6", "300"),
}
HISTORY = EngineSample(
    at=NOW - 5,
    kv_usage=0.5,
    waiting=1.0,
    running=4.0,
    preemptions_total=7.0,
    kv_capacity_tokens=1500,
    prompt_tokens_total=900.0,
    generation_tokens_total=300.0,
    finished_total=3.0,
    finished_prompt_tokens_total=900.0,
    finished_output_tokens_total=300.0,
    ttft_seconds_total=1.5,
    first_tokens_total=4.0,
    token_gap_seconds_total=6.0,
    token_gaps_total=300.0,
    prefix_queried_tokens_total=900.0,
    prefix_hit_tokens_total=450.0,
    behind_hit_tokens_total=50.0,
    host_cache_tokens=1_048_576,
)


def full_series(target: dict[str, str] | None = None, **labels: str) -> list[Any]:
    """Every series that is read, of one scrape."""
    found = pod_series({-5: "0.5"}, target, **labels)
    for name, (total, count) in HISTOGRAMS.items():
        found.append(series(f"{name}_sum", {-5: total}, target, **labels))
        found.append(series(f"{name}_count", {-5: count}, target, **labels))
    found.append(series("prefix_cache_queries_total", {-5: "900"}, target, **labels))
    found.append(series("prefix_cache_hits_total", {-5: "400"}, target, **labels))
    found.append(series("external_prefix_cache_hits_total", {-5: "50"}, target, **labels))
    found.append(in_host("1048576", target, **labels))
    return found


def test_a_sample_has_the_lengths_and_the_times() -> None:
    assert samples(read(replying(*full_series()))) == [HISTORY]


def test_tokens_that_were_found_in_host_memory_are_among_those_that_were_found() -> None:
    """From the scrape on that has them: none were found there before, and one that lacks them says nothing."""
    own = series("prefix_cache_hits_total", {-20: "300", -15: "450", -10: "450", -5: "500"})
    more = series("external_prefix_cache_hits_total", {-15: "30", -5: "130"})
    load = pod_series(dict.fromkeys((-20, -15, -10, -5), "0.5"))
    found = samples(read(replying(*load, own, more)))
    assert [each.prefix_hit_tokens_total for each in found] == [300.0, 480.0, None, 630.0]
    assert [each.behind_hit_tokens_total for each in found] == [None, 30.0, None, 130.0]
    alone = samples(read(replying(*load, own)))
    assert [each.prefix_hit_tokens_total for each in alone] == [300.0, 450.0, 450.0, 500.0]
    assert {each.behind_hit_tokens_total for each in alone} == {None}


def test_nothing_is_asked_for_that_no_sample_has() -> None:
    for name in set(read_names(METRICS)) - METRICS.former_names.keys():
        rest = [one for one in full_series() if one["metric"]["__name__"] != name]
        assert len(rest) == len(full_series()) - 1, name
        assert read(replying(*rest)).pods != read(replying(*full_series())).pods, name


def test_a_release_without_a_histogram_leaves_its_figures_open() -> None:
    found = [one for one in full_series() if "inter_token" not in one["metric"]["__name__"]]

    unknown: dict[str, Any] = dict.fromkeys(("token_gap_seconds_total", "token_gaps_total"))
    assert samples(read(replying(*found))) == [replace(HISTORY, **unknown)]


def test_the_former_name_of_the_time_between_tokens_is_understood() -> None:
    found = full_series()
    for one in found:
        name = one["metric"]["__name__"]
        one["metric"]["__name__"] = name.replace("inter_token_latency", "time_per_output_token")

    assert samples(read(replying(*found))) == [HISTORY]


def test_both_names_of_the_time_between_tokens_count_once() -> None:
    found = full_series()
    found.append(series("time_per_output_token_seconds_sum", {-5: "6"}))
    found.append(series("time_per_output_token_seconds_count", {-5: "300"}))

    assert samples(read(replying(*found))) == [HISTORY]


def test_a_rank_without_a_histogram_makes_only_this_unknown() -> None:
    second = [one for one in full_series(engine="1") if "first_token_seconds_count" not in one["metric"]["__name__"]]

    (sample,) = samples(read(replying(*full_series(), *second)))

    assert (sample.ttft_seconds_total, sample.first_tokens_total) == (3.0, None)
    assert (sample.finished_total, sample.prefix_hit_tokens_total) == (6.0, 900.0)


def test_ranks_are_in_the_order_of_their_numbers() -> None:
    uses = {str(rank): str(rank / 100) for rank in (10, 2, 0, 1)}
    ranks = [one for rank, use in uses.items() for one in pod_series({-5: use}, engine=rank)]

    [sample] = samples(read(replying(*ranks)))
    assert sample.rank_usages == (0.0, 0.01, 0.02, 0.1)
    assert sample.rank_queues == (1.0, 1.0, 1.0, 1.0)


def test_ranks_of_which_one_has_an_impossible_queue_have_none() -> None:
    ranks = [one for rank in "01" for one in pod_series({-20: "0.5", -5: "0.5"}, engine=rank)]
    [queue] = [one for one in ranks if one["metric"]["engine"] == "1" and "waiting" in one["metric"]["__name__"]]
    queue["values"][1][1] = "-1"

    first, second = samples(read(replying(*ranks)))
    assert (first.rank_queues, second.rank_queues) == ((1.0, 1.0), ())
    assert second.rank_usages == (0.5, 0.5)


@pytest.mark.parametrize("odd", ["NaN", "+Inf", "-1"])
def test_an_impossible_number_costs_its_own_figure(odd: str) -> None:
    found = [one for one in full_series() if "prefix_cache_hits" not in one["metric"]["__name__"]]
    found.append(series("prefix_cache_hits_total", {-5: odd}))

    assert samples(read(replying(*found))) == [
        replace(HISTORY, prefix_hit_tokens_total=None, behind_hit_tokens_total=None)
    ]


def test_an_impossible_use_between_good_ones_leaves_the_window_usable() -> None:
    points = {float(at): "0.5" for at in range(-180, 0, 15)}
    points[-90.0] = "NaN"

    reading = read(replying(*pod_series(points)))
    load = summarize(list(reading.pods.values()), ["llama-0"], NOW, window_seconds=120, capacity_tokens=1000)

    assert load.state is SignalState.FRESH
    assert [(s.at - NOW, s.waiting) for s in samples(reading) if s.kv_usage is None] == [(-90, 1.0)]


@pytest.mark.parametrize(("wrong", "state"), [(2, SignalState.FRESH), (3, SignalState.INVALID)])
def test_three_impossible_uses_in_a_row_are_an_invalid_engine(wrong: int, state: SignalState) -> None:
    times = [float(at) for at in range(-165, 0, 15)]
    points = dict.fromkeys(times, "0.5") | dict.fromkeys(times[-wrong:], "1.5")

    reading = read(replying(*pod_series(points)))
    load = summarize(list(reading.pods.values()), ["llama-0"], NOW, window_seconds=120, capacity_tokens=1000)

    assert load.state is state


def test_a_point_without_a_time_belongs_to_no_scrape() -> None:
    odd = pod_series({-5: "0.5"})
    for one in odd:
        one["values"].append([math.nan, "0.9"])

    assert [(s.at, s.kv_usage) for s in samples(read(replying(*odd)))] == [(NOW - 5, 0.5)]


def test_one_busy_rank_of_eight_does_not_fill_the_pod() -> None:
    uses = ["0.85", *["0.1"] * 6, "0.07"]
    ranks = [one for rank, use in enumerate(uses) for one in pod_series({-5: use}, engine=str(rank))]

    (sample,) = samples(read(replying(*ranks)))

    # 85 + 6 x 10 + 7 = 152 percent of one rank's 1,500 tokens: 2,280 of 12,000 tokens.
    assert sample.kv_usage == pytest.approx(0.19)
    assert sample.kv_capacity_tokens == 12_000


def test_ranks_count_by_the_size_of_their_caches() -> None:
    large = {**CONFIG, "kv_cache_size_tokens": "4500"}
    second = [one for one in pod_series({-5: "0.2"}, engine="1") if "config" not in one["metric"]["__name__"]]
    second.append(series("cache_config_info", {-5: "1"}, None, **large, engine="1"))

    (sample,) = samples(read(replying(*pod_series({-5: "0.8"}), *second)))

    # 0.8 x 1,500 + 0.2 x 4,500 = 2,100 of 6,000 tokens.
    assert sample.kv_usage == pytest.approx(0.35)
    assert sample.kv_capacity_tokens == 6000


def test_a_scrape_without_the_caches_is_weighed_by_the_last_that_has_them() -> None:
    first = [one for one in pod_series({-20: "0.4", -5: "0.5"}) if "config" not in one["metric"]["__name__"]]
    second = [
        one for one in pod_series({-20: "0.2", -5: "0.1"}, engine="1") if "config" not in one["metric"]["__name__"]
    ]
    caches = [series("cache_config_info", {-5: "1"}, None, **CONFIG, engine=rank) for rank in ("0", "1")]

    found = samples(read(replying(*first, *second, *caches)))

    assert [sample.kv_usage for sample in found] == [pytest.approx(0.3), pytest.approx(0.3)]
    assert [sample.kv_capacity_tokens for sample in found] == [None, 3000]


def test_the_use_of_a_single_engine_is_its_own_figure_to_the_last_digit() -> None:
    for text in ("0.1", "0.3333333333333333", "0.7000000000000001", "0.007998954521693706"):
        (sample,) = samples(read(replying(*pod_series({-5: text}))))
        assert sample.kv_usage == float(text)


def test_what_one_rank_does_not_tell_is_unknown_for_the_pod() -> None:
    second = [one for one in pod_series({-5: "0.8"}, engine="1") if "waiting" not in one["metric"]["__name__"]]
    second = [one for one in second if "config" not in one["metric"]["__name__"]]

    (sample,) = samples(read(replying(*pod_series({-5: "0.5"}), *second)))

    assert (sample.kv_usage, sample.waiting, sample.kv_capacity_tokens) == (0.8, None, None)


@pytest.mark.parametrize("odd", ["NaN", "-1", "1.5"])
def test_a_number_that_cannot_be_is_not_hidden_by_another_rank(odd: str) -> None:
    both = [*pod_series({-5: odd}), *pod_series({-5: "0.8"}, engine="1")]

    (sample,) = samples(read(replying(*both)))

    assert sample.kv_usage is not None
    assert not 0 <= sample.kv_usage <= 1


def test_a_pod_scraped_twice_counts_once_and_the_newest_scrape_wins() -> None:
    other = {**TARGET, "prometheus": "b"}
    twice = [*pod_series({-30: "0.4", -15: "0.5"}), *pod_series({-22: "0.6", -7: "0.7"}, other)]

    assert [(s.at - NOW, s.kv_usage, s.waiting) for s in samples(read(replying(*twice)))] == [
        (-22, 0.6, 1.0),
        (-7, 0.7, 1.0),
    ]


def test_an_earlier_pod_of_the_same_name_is_not_mixed_in() -> None:
    earlier = {**TARGET, "instance": "10.0.0.3:8000"}
    both = [*pod_series({-200: "0.9", -150: "0.9"}, earlier), *pod_series({-5: "0.1"})]

    assert [s.kv_usage for s in samples(read(replying(*both)))] == [0.1]


def test_an_engine_that_came_to_know_its_blocks_has_a_capacity_from_then_on() -> None:
    loads = [one for one in pod_series({-20: "0.1", -5: "0.2"}) if "config" not in one["metric"]["__name__"]]
    unknown = series("cache_config_info", {-20: "1"}, block_size="16", num_gpu_blocks="None")
    known = series("cache_config_info", {-5: "1"}, block_size="16", num_gpu_blocks="100")

    assert [s.kv_capacity_tokens for s in samples(read(replying(*loads, unknown, known)))] == [None, 1600]


@every_case(
    ("labels", "tokens"),
    [
        ({"kv_cache_size_tokens": "1500", "num_gpu_blocks": "100", "block_size": "16"}, 1500),
        ({"kv_cache_size_tokens": "None", "num_gpu_blocks": "100", "block_size": "16"}, 1600),
        ({"num_gpu_blocks": "None", "block_size": "16"}, None),
        ({"num_gpu_blocks": "100"}, None),
        ({"kv_cache_size_tokens": "0"}, None),
        ({"kv_cache_size_tokens": "-5", "num_gpu_blocks": "1e3", "block_size": "16"}, None),
        ({}, None),
    ],
)
def test_capacity_is_the_engines_own_count_or_blocks_times_size(labels: dict[str, str], tokens: int | None) -> None:
    assert capacity_tokens(labels) == tokens


def test_the_name_before_vllm_0_12_is_understood() -> None:
    old = pod_series({-5: "0.5"})
    old[0]["metric"]["__name__"] = "vllm:gpu_cache_usage_perc"

    assert samples(read(replying(*old)))[0].kv_usage == 0.5


def matching(*found: Any) -> Answer:
    """Answer with the series that a query selects."""
    return lambda request, query: send_json(request, matrix(*selected(query["query"], found)))


@pytest.mark.parametrize("renamed", [{"namespace": "chat", "pod": "collector-0"}, {"kubernetes_namespace": "chat"}, {}])
def test_labels_that_prometheus_renamed_are_found_too(renamed: dict[str, str]) -> None:
    target = {"exported_namespace": "chat", "exported_pod": "llama-0", **renamed}

    reading = read(matching(*pod_series({-5: "0.5"}, target)))

    assert samples(reading)[0].kv_usage == 0.5


MINE = [TARGET, {"kubernetes_namespace": "chat", "kubernetes_pod_name": "llama-0"}]
"""The labels of an honest engine's target in two Prometheus servers."""


@pytest.mark.parametrize("mine", MINE)
@pytest.mark.parametrize("pair", LABEL_PAIRS)
def test_a_page_of_another_namespace_speaks_for_nobodys_pod(mine: dict[str, str], pair: tuple[str, str]) -> None:
    """It names an honest pod under each pair of labels that its target leaves free, before that one is scraped, too."""
    theirs = {label: "foreign" if value == "chat" else "liar-0" for label, value in mine.items() if label in PLACES}
    lie = {pair[0]: "chat", pair[1]: "llama-0"} | theirs
    lies = pod_series({-1: "1"}, lie)

    assert not read(matching(*lies)).pods
    assert [each.kv_usage for each in samples(read(matching(*lies, *pod_series({-5: "0.5"}, mine))))] == [0.5]


def test_labels_that_the_admin_names_are_believed_whatever_the_target_is() -> None:
    renamed = {"exported_namespace": "chat", "exported_pod": "llama-0", "namespace": "monitoring", "pod": "collector-0"}
    reported = matching(*pod_series({-5: "0.5"}, renamed))

    assert not read(reported).pods
    assert samples(read(reported, label_pairs=[("exported_namespace", "exported_pod")]))[0].kv_usage == 0.5


def test_a_pod_without_series_has_no_entry_and_others_are_not_let_in() -> None:
    reading = read(replying(*pod_series({-5: "0.5"})), "llama-1")

    assert reading.state is SignalState.FRESH
    assert not reading.pods


def test_a_name_that_is_none_never_reaches_the_query() -> None:
    with serving(NOW, replying()) as fake:
        reading = PrometheusSignals(fake.url).read("chat", ['x"} or up{a="'], window_seconds=300, now=NOW)

    assert not fake.queries
    assert not reading.pods


TEAMS = [ObjectKey(namespace, f"llama-{number}") for namespace in ("chat", "code") for number in range(20)]
"""Pods of two namespaces with the same names."""


def of_pods(*pods: ObjectKey, **more: Any) -> list[Any]:
    return [
        one for pod in pods for one in pod_series({-5: "0.5"}, {"namespace": pod.namespace, "pod": pod.name, **more})
    ]


def together(fake: FakePrometheus, *pods: ObjectKey, signals: PrometheusSignals | None = None) -> list[Reading]:
    """The readings of objects with one pod each."""
    asked = [Asked(pod.namespace, {pod.name: ""}, 300) for pod in pods]
    return (signals or PrometheusSignals(fake.url)).read_all(asked, METRICS, now=NOW)


def loads_of(readings: list[Reading]) -> list[list[float | None]]:
    return [[each.kv_usage for one in reading.pods.values() for each in one.samples] for reading in readings]


def test_pods_of_all_namespaces_are_asked_about_together() -> None:
    mixed = [*of_pods(*TEAMS), *pod_series({-5: "0.9"}, {"namespace": "others", "pod": "llama-0"})]
    with serving(NOW, matching(*mixed)) as fake:
        readings = together(fake, *TEAMS)

    [query] = fake.queries
    assert 'namespace=~"chat|code",pod=~"llama-0|llama-1|' in query["query"]
    assert loads_of(readings) == [[0.5]] * len(TEAMS)
    assert [(reading.series, list(reading.pods)) for reading in readings] == [(7, [pod.name]) for pod in TEAMS]


@pytest.mark.parametrize("lie", [{"exported_namespace": "chat"}, {"kubernetes_namespace": "chat"}])
def test_a_page_of_another_namespace_that_is_read_too_speaks_for_nobodys_pod(lie: dict[str, str]) -> None:
    """Both namespaces are in the query, so Prometheus sends the lie, and its labels name both."""
    liar = {"namespace": "code", "pod": "llama-0", "exported_pod": "llama-0", "kubernetes_pod_name": "llama-0", **lie}
    [mine, theirs] = ObjectKey("chat", "llama-0"), ObjectKey("code", "llama-0")

    with serving(NOW, matching(*pod_series({-1: "1"}, liar))) as fake:
        assert loads_of(together(fake, mine, theirs)) == [[], []]
    with serving(NOW, matching(*pod_series({-1: "1"}, liar), *of_pods(mine))) as fake:
        assert loads_of(together(fake, mine, theirs)) == [[0.5], []]


def test_many_pods_are_asked_for_in_portions_of_few_enough_pods_and_characters() -> None:
    many = [ObjectKey("chat", f"llama-{number:03}") for number in range(prometheus.MOST_KEYS + 1)]
    long = [ObjectKey("n" * 60 + str(number), "p" * 60) for number in range(34)]
    with serving(NOW, matching(*of_pods(*many, *long))) as fake:
        assert loads_of(together(fake, *many)) == [[0.5]] * len(many)
        assert len(fake.queries) == 2
        fake.queries.clear()
        assert loads_of(together(fake, *long)) == [[0.5]] * len(long)
        assert len(fake.queries) == 2
    assert max(len(each["query"]) for each in fake.queries) < prometheus.LONGEST_MATCHERS + 1000


REFUSALS: list[tuple[str, int, bytes]] = [
    ("too many samples", 422, b'{"status":"error","error":"query processing would load too many samples"}'),
    ("too many series", 400, b'{"status":"error","error":"max series"}'),
    ("body", 200, b'{"status":"success","data":"' + b"x" * 4000 + b'"}'),
]


@pytest.mark.parametrize(("status", "body"), [each[1:] for each in REFUSALS], ids=[each[0] for each in REFUSALS])
def test_what_is_refused_of_many_is_asked_in_halves_and_one_pod_costs_no_other(
    status: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the query about one tenant's pod leads to, all others of 40 are read, by few more queries."""
    monkeypatch.setattr(prometheus, "MAX_BODY_BYTES", 3000)
    monkeypatch.setattr(prometheus, "MOST_KEYS", 8)
    bad = ObjectKey("chat", "llama-13")
    few = [series("kv_cache_usage_perc", {-5: "0.5"}, pod._asdict() | {"pod": pod.name}) for pod in TEAMS]
    for each in few:
        del each["metric"]["name"]

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        found = selected(query["query"], few)
        is_bad = any(each["metric"]["namespace"] == "chat" and each["metric"]["pod"] == bad.name for each in found)
        send_bytes(request, body, status=status) if is_bad else send_json(request, matrix(*found))

    with serving(NOW, answer) as fake:
        readings = together(fake, *TEAMS)
    failed = [pod for pod, reading in zip(TEAMS, readings, strict=True) if reading.state is not SignalState.FRESH]
    assert failed == [bad]
    assert not readings[TEAMS.index(bad)].is_shared, "nobody else is the cause"
    assert len([each for each in loads_of(readings) if each == [0.5]]) == len(TEAMS) - 1
    assert len(fake.queries) <= 5 + 2 * 3 + 3 + len(METRICS.names)


def test_a_server_that_takes_fewer_series_is_asked_about_fewer_pods_from_then_on() -> None:
    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        found = selected(query["query"], of_pods(*TEAMS))
        most = 10 * len(pod_series({}))
        send_json(
            request,
            matrix(*found) if len(found) <= most else {"status": "error"},
            status=200 if len(found) <= most else 422,
        )

    with serving(NOW, answer) as fake:
        signals = PrometheusSignals(fake.url)
        assert loads_of(together(fake, *TEAMS, signals=signals)) == [[0.5]] * len(TEAMS)
        fake.queries.clear()
        assert loads_of(together(fake, *TEAMS, signals=signals)) == [[0.5]] * len(TEAMS)
    assert len(fake.queries) == 4, "none of them is refused"


def test_labels_that_a_namespace_has_are_tried_first_the_next_time() -> None:
    with serving(NOW, matching(*pod_series({-5: "0.5"}, MINE[1]))) as fake:
        signals = PrometheusSignals(fake.url)
        for queries in (3, 4):
            assert loads_of(together(fake, ObjectKey("chat", "llama-0"), signals=signals)) == [[0.5]]
            assert len(fake.queries) == queries


def test_a_connection_stays_and_the_time_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseHTTPRequestHandler, "protocol_version", "HTTP/1.1")
    clock, peers = SimpleNamespace(monotonic=lambda: 0.0), list[Any]()

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        peers.append(request.client_address)
        matching(*pod_series({-5: "0.5"}))(request, query)

    monkeypatch.setattr(prometheus, "time", clock)
    with serving(NOW, answer) as fake:
        signals = PrometheusSignals(fake.url)
        for second, asked in [(0.0, 2), (59.0, 3), (60.0, 5), (61.0, 6)]:
            clock.monotonic = partial(float, second)
            reading = signals.read("chat", ["llama-0"], window_seconds=300, now=NOW + second)
            assert (samples(reading)[0].kv_usage, len(fake.headers)) == (0.5, asked)
        assert signals.read("chat", ["llama-0"], window_seconds=300, now=NOW).pods, "our clock was set back"
        assert len(fake.headers) == 8
    assert len(set(peers)) == 1


def test_a_kept_connection_that_the_server_has_closed_costs_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseHTTPRequestHandler, "protocol_version", "HTTP/1.1")

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        if len(fake.queries) == 2:  # it says nothing and goes
            request.close_connection = True
            return
        matching(*pod_series({-5: "0.5"}))(request, query)

    with serving(NOW, answer) as fake:
        signals = PrometheusSignals(fake.url)
        for queries in (1, 3):
            assert signals.read("chat", ["llama-0"], window_seconds=300, now=NOW).pods
            assert len(fake.queries) == queries


def test_a_server_that_does_not_say_the_time_is_left_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr(prometheus, "time", clock)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        signals = PrometheusSignals(f"http://127.0.0.1:{unused.getsockname()[1]}")
        first = signals.read("chat", ["llama-0"], window_seconds=300, now=NOW)
    with serving(NOW, matching(*pod_series({-5: "0.5"}))) as fake:
        monkeypatch.setattr(signals, "_url", fake.url)
        assert signals.read("chat", ["llama-0"], window_seconds=300, now=NOW) == first
        assert not fake.headers


def test_of_many_that_get_no_answer_in_time_each_may_be_the_cause_and_then_the_time_is_asked_first() -> None:
    with serving(NOW, matching(*of_pods(*TEAMS))) as fake:
        signals = PrometheusSignals(fake.url, timeout_seconds=0.3)
        assert together(fake, *TEAMS, signals=signals)[0].pods
        asked = len(fake.headers)

        def hang(*_: object) -> None:
            fake.released.wait()

        fake.answer = hang
        assert {each.is_shared for each in together(fake, *TEAMS, signals=signals)} == {True}
        [alone] = together(fake, TEAMS[0], signals=signals)
        assert (alone.state, alone.is_shared) == (SignalState.UNAVAILABLE, False)
        assert len(fake.headers) == asked + 3


@pytest.mark.parametrize("skew", [600.0, -600.0])
def test_a_server_whose_clock_is_wrong_is_asked_and_understood_in_its_own_time(skew: float) -> None:
    with serving(NOW + skew, replying(*pod_series({skew - 5: "0.5"}))) as fake:
        reading = PrometheusSignals(fake.url).read("chat", ["llama-0"], window_seconds=300, now=NOW)

    assert float(fake.queries[0]["time"]) == NOW + skew
    assert samples(reading)[0].at == pytest.approx(NOW - 5)
    assert reading.clock_skew_seconds == skew


def test_replies_are_asked_for_as_they_are_and_not_packed() -> None:
    """To unpack them took a tenth of the operator's processor time."""
    with serving(NOW, replying(*pod_series({-5: "0.5"}))) as fake:
        PrometheusSignals(fake.url).read("chat", ["llama-0"], window_seconds=300, now=NOW)
    assert {each["Accept-Encoding"] for each in fake.headers} == {"identity"}


def test_compressed_replies_are_read() -> None:
    body = gzip.compress(json.dumps(matrix(*pod_series({-5: "0.5"}))).encode())

    reading = read(lambda request, _: send_bytes(request, body, Content_Encoding="gzip"))

    assert samples(reading)[0].kv_usage == 0.5


def test_infinities_and_nan_arrive_as_such() -> None:
    values = [s.kv_usage for s in samples(read(replying(*pod_series({-20: "+Inf", -5: "NaN"}))))]

    assert values[0] == math.inf
    assert values[1] is not None
    assert math.isnan(values[1])


def text(body: str, status: int = 200) -> Answer:
    return lambda request, _: send_bytes(request, body.encode(), status=status)


def compressed(body: bytes) -> Answer:
    return lambda request, _: send_bytes(request, body, Content_Encoding="gzip")


WRONG_SHAPES: list[Callable[[], Any]] = [
    lambda: success({"resultType": "vector", "result": [{"metric": {"pod": "llama-0"}, "value": [NOW, "1"]}]}),
    lambda: success({"resultType": "matrix", "result": [7]}),
    lambda: success({"resultType": "matrix", "result": None}),
    lambda: matrix({"metric": {"pod": "llama-0"}, "values": [[NOW]]}),
    lambda: matrix({"metric": {"pod": "llama-0"}, "values": [[NOW, "many"]]}),
    lambda: matrix({"metric": [], "values": []}),
]


@every_case("reply", WRONG_SHAPES)
def test_another_shape_is_no_answer(reply: Callable[[], Any]) -> None:
    reading = read(lambda request, _: send_json(request, reply()))

    assert reading.state is SignalState.UNAVAILABLE
    assert "shape" in reading.error


@every_case(
    ("answer", "error"),
    [
        (text("<html>Log in</html>"), "Prometheus did not answer with JSON"),
        (text('{"status":"success","data":{"resul'), "Prometheus did not answer with JSON"),
        (text("[" * 100_000), "Prometheus did not answer with JSON"),
        (text(""), "Prometheus did not answer with JSON"),
        (
            text('{"status":"error","error":"boom","data":{"result":[]}}'),
            "Prometheus reported an error: boom",
        ),
        (text('{"status":"success"}'), "Prometheus answered without a result"),
        (text('{"status":"error","error":"too many samples"}', 422), "Prometheus answered HTTP 422: too many samples"),
        (text("upstream gone", 503), "Prometheus answered HTTP 503"),
        (text("", 302), "Prometheus answered HTTP 302"),
        (compressed(b"not gzip"), "Prometheus cannot be reached (DecodeError)"),
    ],
)
def test_an_answer_that_is_none_is_unavailable_and_says_why(answer: Answer, error: str) -> None:
    reading = read(answer)

    assert (reading.state, reading.error) == (SignalState.UNAVAILABLE, error)
    assert not reading.pods


@pytest.mark.parametrize("zipped", [False, True])
def test_a_huge_body_is_given_up(zipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.setattr(prometheus, "MAX_BODY_BYTES", 1000)
    huge = b'{"status":"success","data":"' + b"x" * 100_000 + b'"}'

    reading = read(compressed(gzip.compress(huge)) if zipped else text(huge.decode()))

    assert (reading.state, reading.error) == (SignalState.UNAVAILABLE, "Prometheus sent more than 1000 bytes")


VALUES = st.dictionaries(st.sampled_from([1.0, 2.0, 3.0]), st.one_of(st.floats(), st.floats(0, 1)))


@given(
    st.dictionaries(st.sampled_from(read_names(METRICS)), VALUES), st.dictionaries(st.just(METRICS.kv_usage), VALUES)
)
def test_series_that_come_once_are_read_as_those_that_have_to_be_sorted_out(
    figures: dict[str, dict[float, float]], usage: dict[str, dict[float, float]]
) -> None:
    """Two of each series, by the same target, are one: the long way finds out. Any numbers, NaN among them."""
    labels = {**TARGET, **CONFIG, "engine": "0"}
    found = [
        Series.of({**labels, "__name__": name}, points, METRICS)
        for name, points in (figures | usage).items()
        if points and name not in METRICS.former_names
    ]
    once, twice = pod_signals("p", found, METRICS), pod_signals("p", [*found, *found], METRICS)
    assert repr(once) == repr(twice)


def test_ten_thousand_series_of_one_tenant_cost_that_tenants_reading_alone() -> None:
    bulk = [
        series("num_requests_running", {-5: "1"}, {"namespace": "foreign", "pod": "bulk-0"}, junk=f"{each:0800}")
        for each in range(10_000)
    ]
    with serving(NOW, matching(*bulk, *pod_series({-5: "0.5"}))) as fake:
        signals = PrometheusSignals(fake.url)
        theirs = signals.read("foreign", ["bulk-0"], window_seconds=300, now=NOW)
        mine = signals.read("chat", ["llama-0"], window_seconds=300, now=NOW)

    assert (theirs.state, theirs.error) == (
        SignalState.UNAVAILABLE,
        f"Prometheus sent more than {prometheus.MAX_BODY_BYTES} bytes",
    )
    assert samples(mine)[0].kv_usage == 0.5


def test_a_pod_with_more_series_than_an_engine_has_is_unknown_and_its_neighbour_is_read() -> None:
    crowd = {"namespace": "chat", "pod": "crowd-0"}
    some = series("num_requests_running", {-5: "1"}, crowd)
    many = [some | {"metric": some["metric"] | {"junk": str(each)}} for each in range(MOST_SERIES)]
    reported = [*many, *pod_series({-5: "0.7"}, crowd), *pod_series({-5: "0.5"})]

    reading = read(matching(*reported), "crowd-0", "llama-0")

    assert list(reading.pods) == ["llama-0"]
    assert samples(reading)[0].kv_usage == 0.5


def test_the_work_for_a_series_does_not_grow_with_the_names_of_labels() -> None:
    """Each series has a label of another name, so that the labels of a target are as many as there are series."""

    def work(number: int) -> float:
        own = [{"__name__": METRICS.running, f"label_{each}": "x"} for each in range(number)]
        found = [Series(labels, {NOW: 1.0}, METRICS.running, "") for labels in own]
        with measured_effort() as done:
            pod_signals("p", found, METRICS)
        return done.amount

    assert work(MOST_SERIES) < 40 * max(work(MOST_SERIES // 8), 0.1)


def test_a_page_that_gives_each_series_a_time_or_a_rank_of_its_own_is_read_in_part() -> None:
    ranks = [
        Series({"__name__": METRICS.kv_usage, "engine": str(each)}, {NOW + each: 0.5}, METRICS.kv_usage, str(each))
        for each in range(MOST_RANKS + 1)
    ]
    at_once = [each._replace(points={NOW: 0.5}) for each in ranks]
    assert pod_signals("p", at_once[1:], METRICS).samples[0].rank_usages == (0.5,) * MOST_RANKS
    assert pod_signals("p", at_once, METRICS).samples[0].rank_usages == ()
    times = Series(ranks[0].labels, dict.fromkeys(range(MOST_SCRAPES + 1), 0.5), METRICS.kv_usage, "0")
    assert [each.at for each in pod_signals("p", [times], METRICS).samples] == [*range(1, MOST_SCRAPES + 1)]


def test_nobody_listening_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        reading = PrometheusSignals(url).read("chat", ["llama-0"], window_seconds=300, now=NOW)

    assert reading.state is SignalState.UNAVAILABLE
    assert reading.error == "Prometheus cannot be reached (ConnectionError)"


@pytest.mark.parametrize("url", ["", "prometheus:9090", "ftp://prometheus"])
def test_an_address_that_is_none_is_unavailable(url: str) -> None:
    reading = PrometheusSignals(url).read("chat", ["llama-0"], window_seconds=300, now=NOW)

    assert reading.state is SignalState.UNAVAILABLE


@pytest.mark.parametrize("trickle", [False, True])
def test_a_server_that_hangs_or_trickles_is_left_at_the_deadline(trickle: bool) -> None:  # noqa: FBT001
    with serving(NOW, replying()) as fake:

        def hang(request: BaseHTTPRequestHandler, _: Query) -> None:
            if trickle:
                request.send_response(200)
                request.send_header("Content-Length", "1000000")
                request.end_headers()
                while not fake.released.wait(0.05):
                    request.wfile.write(b" ")
            fake.released.wait()

        fake.answer = hang
        reading = PrometheusSignals(fake.url, timeout_seconds=0.3).read(
            "chat", ["llama-0"], window_seconds=300, now=NOW
        )
        assert not fake.released.is_set(), "the server hangs until it is let go"

    assert reading == Reading(state=SignalState.UNAVAILABLE, error="Prometheus did not answer within 0.3 s")
