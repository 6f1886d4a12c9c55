"""The activity of GPUs: one question more, answers that can be, and silence about everything else."""

from __future__ import annotations

from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

import pytest

from plimsoll.adapters.prometheus import prometheus
from plimsoll.adapters.prometheus.access import LABEL_PAIRS
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.questions import GPU_MEMORY, TENSOR_CORES, activity_of, activity_query_of
from plimsoll.rebalance.signals.metrics import GpuActivity
from tests.adapters.fake_prometheus import Answer, Query, send_bytes, send_json, serving, success
from tests.support.tables import every_case

NOW = 1_700_000_000.0


def entry(name: str, value: str) -> Any:
    return {"metric": {"__name__": name}, "value": [NOW, value]}


BOTH = [entry(GPU_MEMORY, "0.82"), entry(TENSOR_CORES, "0.13")]


def vector(*entries: Any) -> Answer:
    def answer(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, success({"resultType": "vector", "result": list(entries)}))

    return answer


def asked(answer: Answer, *pods: str) -> tuple[GpuActivity | None, list[str]]:
    with serving(NOW, answer) as fake:
        found = PrometheusSignals(fake.url).gpu_activity("chat", pods)
        return found, [each["query"] for each in fake.queries]


def test_both_shares_are_read_by_one_question() -> None:
    found, queries = asked(vector(*BOTH), "llama-0", "llama-1")
    assert found == GpuActivity(0.82, 0.13)
    [query] = queries
    assert query.count("avg by (__name__)") == len(LABEL_PAIRS)
    assert 'exported_namespace="chat",exported_pod=~"llama-0|llama-1"' in query
    assert f'{{__name__=~"{GPU_MEMORY}|{TENSOR_CORES}",namespace="chat",pod=~"llama-0|llama-1"}}' in query


@every_case(
    ("entries", "found"),
    [
        ([], None),
        (BOTH[:1], GpuActivity(memory=0.82)),
        (BOTH[1:], GpuActivity(tensor_cores=0.13)),
        ([entry(GPU_MEMORY, "NaN"), BOTH[1]], GpuActivity(tensor_cores=0.13)),
        ([entry(GPU_MEMORY, "-0.1")], None),
        ([entry(GPU_MEMORY, "82")], None),
        ([entry(GPU_MEMORY, "+Inf"), entry(TENSOR_CORES, "many")], None),
        ([entry("DCGM_FI_DEV_GPU_UTIL", "0.5")], GpuActivity()),
        ([{"metric": {}}, {"value": [1]}, None, "x", 5, BOTH[0]], GpuActivity(memory=0.82)),
        ([entry(GPU_MEMORY, "0"), entry(TENSOR_CORES, "1")], GpuActivity(0.0, 1.0)),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_left_out(entries: list[Any], found: GpuActivity | None) -> None:
    assert activity_of(entries) == found


@pytest.mark.parametrize("result", [None, {}, "x", 5, [NOW, "1"]])
def test_another_shape_is_no_answer(result: object) -> None:
    assert activity_of(result) is None


@pytest.mark.parametrize("status", [400, 403, 422, 500, 503])
def test_a_refusal_is_no_answer_and_no_error(status: int) -> None:
    def refuse(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_bytes(request, b'{"status":"error","errorType":"x","error":"y"}', status=status)

    assert asked(refuse, "llama-0")[0] is None


def test_a_slow_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "GPU_TIMEOUT_SECONDS", 0.2)
    over = Event()

    def wait(request: BaseHTTPRequestHandler, query: Query) -> None:
        over.wait()
        with suppress(OSError):  # the client has left
            vector(*BOTH)(request, query)

    with serving(NOW, wait) as fake:
        assert PrometheusSignals(fake.url).gpu_activity("chat", ["llama-0"]) is None
        over.set()


def test_a_server_that_is_away_is_no_error() -> None:
    assert PrometheusSignals("http://127.0.0.1:9").gpu_activity("chat", ["llama-0"]) is None


def test_no_pod_and_no_name_of_a_pod_ask_nothing() -> None:
    assert asked(vector(*BOTH)) == (None, [])
    assert asked(vector(*BOTH), 'x"} or vector(1) #') == (None, [])


def test_a_question_about_one_pair_of_labels_has_no_or() -> None:
    assert " or " not in activity_query_of(['namespace="a",pod=~"b"'])
