"""The arrivals of days before: one question about all pods that ever were, and silence about everything else."""

from __future__ import annotations

import re
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from plimsoll.adapters import prometheus
from plimsoll.adapters.prometheus import LABEL_PAIRS, PrometheusSignals
from plimsoll.adapters.prometheus_past import LONGEST_PREFIX, Pods, pods_of, points_of, query_of
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.past import STEP_SECONDS
from plimsoll.rebalance.trend import Point
from tests.adapters.fake_prometheus import Answer, Query, matrix, send_bytes, send_json, serving

NOW = 1_700_000_100.0
METRICS = engine_of().metrics
VALUES = [[NOW - 600, "1.5"], [NOW - 300, "2"], [NOW, "2.25"]]
POINTS = [Point(NOW - 600, 1.5), Point(NOW - 300, 2.0), Point(NOW, 2.25)]


def replying(*values: Any) -> Answer:
    def answer(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, matrix({"metric": {}, "values": list(values)}))

    return answer


def asked(answer: Answer, *workloads: str, **options: Any) -> tuple[list[Point] | None, list[Query]]:
    with serving(NOW, answer) as fake:
        reader = PrometheusSignals(fake.url, **options)
        return reader.arrivals_before("chat", workloads, METRICS, until=NOW, seconds=3600), fake.queries


def test_the_rates_of_steps_are_read_by_one_question() -> None:
    found, [query] = asked(replying(*VALUES), "llama-h100-tp2")
    assert found == POINTS
    assert float(query["time"]) == NOW
    assert query["query"].endswith(f")[3600s:{STEP_SECONDS:.0f}s]")
    assert query["query"].count("(rate(vllm:time_to_first_token_seconds_count{") == len(LABEL_PAIRS)
    assert query["query"].startswith("(sum(max by (pod,engine,")
    assert '{namespace="chat",pod=~"llama-h100-tp2-[0-9a-z-]+"}[300s]' in query["query"]
    assert 'exported_namespace="chat",exported_pod=~' in query["query"]


def test_labels_of_ones_own_are_asked_for_alone() -> None:
    _, [query] = asked(replying(), "llama-h100-tp2", label_pairs=[("ns", "p")])
    assert query["query"].startswith("(sum(max by (p,engine,")
    assert '(rate(vllm:time_to_first_token_seconds_count{ns="chat",p=~"' in query["query"]
    assert " or " not in query["query"]


@pytest.mark.parametrize(
    ("pod", "is_one"),
    [
        ("llama-h100-tp2-5f6d8c7b9f-x2x4z", True),
        ("llama-h100-tp4-5f6d8c7b9f-x2x4z", True),
        ("llama-h100-tp2", False),
        ("llama-h100-tp22-5f6d8c7b9f-x2x4z", False),
        ("other-llama-h100-tp2-5f6d8c7b9f-x2x4z", False),
        ("llama-l4-tp2-5f6d8c7b9f-x2x4z", False),
        ("v1x5-a-5f6d8c7b9f-x2x4z", False),
        ("v1.5-a-5f6d8c7b9f-x2x4z", True),
    ],
)
def test_pods_that_are_gone_are_known_by_the_names_of_their_deployments(pod: str, is_one: bool) -> None:  # noqa: FBT001
    pattern = pods_of(["llama-h100-tp2", "llama-h100-tp4", "v1.5-a"])
    assert (re.fullmatch(pattern, pod) is not None) is is_one


def test_the_pods_of_a_long_name_are_found_by_the_part_that_kubernetes_keeps() -> None:
    name = "a" * 40 + "-" + "b" * 30
    assert re.fullmatch(pods_of([name]), f"{name}-5f6d8c7b9f-"[:LONGEST_PREFIX] + "x2x4z")
    assert not re.fullmatch(pods_of([name]), name[:40] + "-x2x4z")


def test_names_that_are_none_never_reach_the_query() -> None:
    assert asked(replying(*VALUES), 'x"}', "") == (None, [])
    _, [query] = asked(replying(*VALUES), 'x"}', "llama")
    assert 'x"}' not in query["query"].replace('+"}', "")


@pytest.mark.parametrize(
    "odd",
    [None, "x", 5, {}, [], [None], [{}], [{"values": None}], [{"values": [None, [1], ["a", "b"], 5, [NOW, None]]}]],
)
def test_another_shape_has_no_points(odd: Any) -> None:
    assert points_of(odd) == []


def test_good_points_between_odd_ones_are_read() -> None:
    assert points_of([None, {"values": ["x", *VALUES, [NOW, "many"]]}]) == POINTS


def test_a_failure_and_a_refusal_are_no_answer_and_no_series_is_an_empty_one() -> None:
    def failing(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_bytes(request, b"{}", status=500)

    def refusing(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, {"status": "error", "error": "too many samples"}, status=422)

    assert asked(failing, "llama")[0] is None
    assert asked(refusing, "llama")[0] is None
    assert asked(lambda request, _: send_json(request, matrix()), "llama")[0] == []
    reader = PrometheusSignals("http://127.0.0.1:9")
    assert reader.arrivals_before("chat", ["llama"], METRICS, until=NOW, seconds=3600) is None


def test_a_server_that_hangs_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "PAST_TIMEOUT_SECONDS", 0.2)

    def hanging(_: BaseHTTPRequestHandler, __: Query) -> None:
        time.sleep(1)

    began = time.monotonic()
    with serving(NOW, hanging) as fake:
        found = PrometheusSignals(fake.url).arrivals_before("chat", ["llama"], METRICS, until=NOW, seconds=3600)
        assert time.monotonic() - began < 1
    assert found is None


def test_a_query_covers_all_of_the_seconds() -> None:
    pods = [Pods('a="b"', ("pod", "engine"))]
    assert query_of("c", pods, 86_400.5) == '(sum(max by (pod,engine) (rate(c{a="b"}[300s]))))[86401s:300s]'
