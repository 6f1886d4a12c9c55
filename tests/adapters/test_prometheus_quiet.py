"""The samples that show requests, of all pods that a deployment had: one question, and no answer for any failure."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.questions import pods_of
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.metrics import PodSignals
from tests.adapters.fake_prometheus import Answer, Query, matrix, selected, send_bytes, send_json, serving

NOW = 1_700_000_100.0
METRICS = engine_of().metrics
TIMES = (NOW - 30, NOW - 15, NOW)


def series(name: str, pod: str, *values: float, label: str = "pod") -> dict[str, Any]:
    labels = {"__name__": name, "namespace": "chat", label: pod, "engine": "0"}
    return {"metric": labels, "values": [[at, str(value)] for at, value in zip(TIMES, values, strict=True)]}


def engine(pod: str, *running: float, label: str = "pod") -> list[dict[str, Any]]:
    return [
        series("vllm:kv_cache_usage_perc", pod, 0, 0, 0, label=label),
        series("vllm:num_requests_waiting", pod, 0, 0, 0, label=label),
        series("vllm:num_requests_running", pod, *running, label=label),
        series("vllm:time_to_first_token_seconds_count", pod, 4, 5, 5, label=label),
    ]


def asked(answer: Answer, **options: Any) -> tuple[dict[str, PodSignals] | None, list[Query]]:
    with serving(NOW, answer) as fake:
        reader = PrometheusSignals(fake.url, **options)
        return reader.scrapes_before("chat", "llama", METRICS, until=NOW, seconds=2790), fake.queries


def test_one_question_is_about_all_pods_and_about_what_shows_requests() -> None:
    pods = ("llama-l4-24gb-tp1-5f6d8c7b9f-x2x4z", "llama-l4-24gb-tp1-aaaaaaaaaa-gone1")

    def answer(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, matrix(*engine(pods[0], 0, 0, 0), *engine(pods[1], 1, 1, 0)))

    found, [query] = asked(answer)
    assert found is not None
    assert {pod: [each.running for each in signals.samples] for pod, signals in found.items()} == {
        pods[0]: [0, 0, 0],
        pods[1]: [1, 1, 0],
    }
    assert [each.first_tokens_total for each in found[pods[0]].samples] == [4, 5, 5]
    assert [each.at for each in found[pods[0]].samples] == list(TIMES)
    others = 'exported_namespace=~"|chat",kubernetes_namespace=~"|chat"'
    assert query["query"].endswith(f',namespace="chat",{others},pod=~"{pods_of("llama")}"}}[2790s]')
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "generation_tokens",
        "request_generation_tokens_count",
    ):
        assert f"vllm:{name}" in query["query"]
    assert "bucket" not in query["query"]
    assert float(query["time"]) == NOW


def test_other_labels_are_tried_where_the_first_ones_have_no_samples() -> None:
    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        is_other = 'exported_namespace="chat"' in query["query"]
        send_json(
            request, matrix(*(engine("llama-l4-24gb-tp1-a-b", 0, 0, 0, label="exported_pod") if is_other else []))
        )

    found, queries = asked(answer)
    assert found is not None
    assert list(found) == ["llama-l4-24gb-tp1-a-b"]
    assert len(queries) == 2


def test_requests_of_which_another_namespace_speaks_are_nobodys() -> None:
    """A deployment without requests may go to zero, whatever the page of another tenant reports of its pods."""
    pod = "llama-l4-24gb-tp1-a-b"
    lies = engine(pod, 9, 9, 9, label="exported_pod")
    for one in lies:
        one["metric"] |= {"namespace": "foreign", "exported_namespace": "chat", "pod": "liar"}

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        send_json(request, matrix(*selected(query["query"], [*lies, *mine])))

    mine = list[Any]()
    assert asked(answer)[0] == {}
    mine = engine(pod, 0, 0, 0)
    found, _ = asked(answer)
    assert found is not None
    assert [each.running for each in found[pod].samples] == [0, 0, 0]


@pytest.mark.parametrize("body", [b"<html>502</html>", b'{"status":"error","error":"too many samples"}'])
def test_a_server_that_does_not_answer_shows_nothing(body: bytes) -> None:
    def answer(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_bytes(request, body, status=502)

    assert asked(answer)[0] is None


def test_nothing_is_no_error() -> None:
    found, _ = asked(lambda request, _: send_json(request, matrix()))
    assert found == {}
