"""The buckets of histograms: read for those who promise a percentile, and for nobody else."""

from __future__ import annotations

import math
from typing import Any

import pytest

from plimsoll.adapters.prometheus.engine_series import (
    MOST_BUCKETS,
    MOST_SERIES,
    bucket_names,
    parse_series,
    pod_signals,
)
from plimsoll.adapters.prometheus.pod_scrape import read_page
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.readings import Asked
from plimsoll.rebalance.signals.metrics import Buckets, EngineSample
from tests.adapters.fake_engine import PAGE
from tests.adapters.fake_prometheus import serving
from tests.adapters.test_prometheus import METRICS, NOW, matching, pod_series, series
from tests.support.tables import every_case

TTFT, GAPS, FORMER_GAPS = "time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds"
COUNTS = {"0.5": "10", "1.0": "90", "+Inf": "100"}
READ = Buckets((0.5, 1.0, math.inf), (10.0, 90.0, 100.0))


def buckets(histogram: str, counts: dict[str, str] | None = None, at: float = -5, **labels: Any) -> list[Any]:
    return [
        series(f"{histogram}_bucket", {at: count}, le=bound, **labels) for bound, count in (counts or COUNTS).items()
    ]


def only(*found: Any) -> EngineSample:
    """The one sample of these series and a load."""
    read = parse_series([*pod_series({-5: "0.5"}), *found], METRICS)
    [sample] = pod_signals("llama-0", read, METRICS).samples
    return sample


def test_prometheus_is_asked_for_buckets_by_those_who_promise_a_percentile_alone() -> None:
    found = [*pod_series({-5: "0.5"}), *buckets(TTFT), *buckets(GAPS)]
    with serving(NOW, matching(*found)) as fake:
        signals = PrometheusSignals(fake.url)
        plain, promised = (
            signals.read_all([Asked("chat", {"llama-0": ""}, 300, asks)], METRICS, now=NOW)[0] for asks in (False, True)
        )
    assert ["_bucket" in each["query"] for each in fake.queries] == [False, True]
    [before], [after] = (each.pods["llama-0"].samples for each in (plain, promised))
    assert (before.first_token_buckets, before.token_gap_buckets) == (None, None)
    assert (after.first_token_buckets, after.token_gap_buckets) == (READ, READ)
    assert (before.kv_usage, before.running) == (after.kv_usage, after.running)


def test_a_former_name_of_a_histogram_is_that_of_its_buckets_too() -> None:
    assert bucket_names(METRICS).keys() == {f"vllm:{name}_bucket" for name in (TTFT, GAPS, FORMER_GAPS)}
    assert only(*buckets(FORMER_GAPS)).token_gap_buckets == READ


def test_the_ranks_of_a_pod_are_added_and_one_without_buckets_makes_them_unknown() -> None:
    ranks = [*pod_series({-5: "0.5"}, engine="0"), *pod_series({-5: "0.5"}, engine="1")]
    for of_ranks, expected in ((("0", "1"), (20.0, 180.0, 200.0)), (("1",), None)):
        more = [each for rank in of_ranks for each in buckets(TTFT, engine=rank)]
        [sample] = pod_signals("llama-0", parse_series([*ranks, *more], METRICS), METRICS).samples
        found = sample.first_token_buckets
        assert (None if found is None else found.counts) == expected


@every_case(
    "counts",
    [
        {"0.5": "10", "1.0": "90"},
        {"+Inf": "100"},
        {"0.5": "NaN", "+Inf": "100"},
        {"0.5": "101", "+Inf": "100"},
        {"0.5": "-1", "+Inf": "100"},
        {"fast": "10", "+Inf": "100"},
        {"NaN": "10", "0.5": "10", "+Inf": "100"},
    ],
)
def test_buckets_that_cannot_be_cost_nothing_but_themselves(counts: dict[str, str]) -> None:
    sample = only(*buckets(TTFT, counts), *buckets(GAPS))
    assert (sample.first_token_buckets, sample.token_gap_buckets, sample.kv_usage) == (None, READ, 0.5)


def test_no_number_of_buckets_hides_the_load() -> None:
    many = {str(each): "1" for each in range(MOST_SERIES)} | {"+Inf": "1"}
    sample = only(*buckets(TTFT, many))
    assert (sample.first_token_buckets, sample.kv_usage) == (None, 0.5)
    most = {str(each): "1" for each in range(MOST_BUCKETS - 1)} | {"+Inf": "1"}
    assert only(*buckets(TTFT, most)).first_token_buckets is not None


def test_of_two_targets_of_a_pod_the_buckets_are_those_of_the_one_that_is_read() -> None:
    old = {"namespace": "chat", "pod": "llama-0", "instance": "another"}
    stale = [*pod_series({-65: "0.9"}, old)]
    stale += [series(f"{TTFT}_bucket", {-65: "7", -5: "7"}, old, le=bound) for bound in COUNTS]
    assert only(*stale, *buckets(TTFT)).first_token_buckets == READ


@pytest.mark.parametrize("asks", [False, True])
def test_a_page_of_a_pod_is_read_in_the_same_way(asks: bool) -> None:  # noqa: FBT001 - a parameter of the test
    labels = 'engine="0",model_name="llama"'
    lines = [f'vllm:{TTFT}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in COUNTS.items()]
    found = read_page("\n".join([PAGE.rstrip(), *lines, ""]), NOW, METRICS, buckets=asks)
    [sample] = pod_signals("p", found, METRICS).samples
    assert sample.first_token_buckets == (READ if asks else None)
    assert (sample.kv_usage, sample.finished_total) == (0.5, 3.0)
