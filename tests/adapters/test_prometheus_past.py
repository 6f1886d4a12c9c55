"""The arrivals of days before: one question about all pods that ever were, and silence about everything else."""

from __future__ import annotations

import re
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.prometheus import prometheus
from plimsoll.adapters.prometheus.access import LABEL_PAIRS
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.questions import LONGEST_PREFIX, Pods, past_points_of, pods_of, query_of
from plimsoll.api.crd.schema import MAX_NAME_LENGTH
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.pools import pool_name
from plimsoll.rebalance.signals.forecast import STEP_SECONDS, Point
from plimsoll.rebalance.signals.reading import PastReading
from plimsoll.render.names import workload_name
from tests.adapters.fake_prometheus import Answer, Query, matrix, send_bytes, send_json, serving
from tests.support.tables import every_case

NOW = 1_700_000_100.0
METRICS = engine_of().metrics
VALUES = [[NOW - 600, "1.5"], [NOW - 300, "2"], [NOW, "2.25"]]
POINTS = (Point(NOW - 600, 1.5), Point(NOW - 300, 2.0), Point(NOW, 2.25))


def replying(*values: Any) -> Answer:
    def answer(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, matrix({"metric": {}, "values": list(values)}))

    return answer


def asked(
    answer: Answer, deployment: str = "llama", metrics: EngineMetrics = METRICS, **options: Any
) -> tuple[PastReading, list[Query]]:
    with serving(NOW, answer) as fake:
        reader = PrometheusSignals(fake.url, **options)
        return reader.arrivals_before("chat", deployment, metrics, until=NOW, seconds=3600), fake.queries


def test_the_rates_of_steps_are_read_by_one_question() -> None:
    found, [query] = asked(replying(*VALUES))
    assert found == PastReading(POINTS)
    assert (float(query["time"]), query["timeout"]) == (NOW, "3s")
    assert query["query"].endswith(f")[3600s:{STEP_SECONDS:.0f}s]")
    assert query["query"].count("(rate(vllm:time_to_first_token_seconds_count{") == len(LABEL_PAIRS)
    assert query["query"].startswith("(sum(max by (pod,engine,")
    names, pods = pods_of("llama"), 'model_name="llama"}[300s]'
    for (namespace, pod), *others in (LABEL_PAIRS, LABEL_PAIRS[::-1]):
        agreeing = ",".join(sorted(f'{other}=~"|chat"' for other, _ in others))
        assert f'{{{namespace}="chat",{agreeing},{pod}=~"{names}",{pods}' in query["query"]


def test_labels_of_ones_own_are_asked_for_alone() -> None:
    _, [query] = asked(replying(), label_pairs=[("ns", "p")])
    assert query["query"].startswith("(sum(max by (p,engine,")
    assert '(rate(vllm:time_to_first_token_seconds_count{ns="chat",p=~"' in query["query"]
    assert " or " not in query["query"]


@every_case(
    ("pod", "is_one"),
    [
        ("llama-h100-sxm-80gb-tp2-5f6d8c7b9f-x2x4z", True),
        ("llama-l4-24gb-tp1-5f6d8c7b9f-x2x4z", True),
        ("llama-h100-sxm-80gb-tp8-pp2-dp4-9f-x2x4z", True),
        ("llama-l4-24gb-tp1-sglang-5f6d8c7b9f-x2x4z", True),
        ("llama-l4-24gb-tp8-pp2-dp4-vllm-5f6d8c7b9f-x2x4z", True),
        ("llama-l4-24gb-tp1-abacus-5f6d8c7b9f-x2x4z", False),
        ("llama-h100-sxm-80gb-tp2", False),
        ("llama-5f6d8c7b9f-x2x4z", False),
        ("llama-trial-5f6d8c7b9f-x2x4z", False),
        ("llama-0", False),
        ("other-llama-h100-sxm-80gb-tp2-5f6d8c7b9f-x2x4z", False),
        ("llama2-h100-sxm-80gb-tp2-5f6d8c7b9f-x2x4z", False),
    ],
)
def test_a_pod_is_known_by_its_deployment_on_whatever_gpus_it_ran(pod: str, is_one: bool) -> None:  # noqa: FBT001
    assert (re.fullmatch(pods_of("llama"), pod) is not None) is is_one


@pytest.mark.parametrize("name", ["a", "llama-70b", "a" * 30, "a" * 45, "a" * MAX_NAME_LENGTH])
def test_the_pods_of_every_pool_are_found_whatever_kubernetes_cuts(name: str) -> None:
    splits = [Split(1), Split(16), Split(8, pipeline_parallel=2), Split(4, data_parallel=2)]
    for gpu in load_gpu_types():
        for split in splits:
            made = f"{workload_name(name, pool_name(gpu.name, split))}-5f6d8c7b9f-"[:LONGEST_PREFIX] + "x2x4z"
            assert re.fullmatch(pods_of(name), made), made


@pytest.mark.parametrize("other", ["llama-big", "llama-l4-24gb-tp1", "llama-70b-l4"])
def test_a_deployment_with_a_similar_name_has_its_own_past(other: str) -> None:
    """The name of the model decides where the name of a pod could be of both."""
    assert re.fullmatch(pods_of("llama"), f"{other}-l4-24gb-tp1-5f6d8c7b9f-x2x4z")
    queries = [asked(replying(), name)[1][0]["query"] for name in ("llama", other)]
    assert ['model_name="llama"' in query for query in queries] == [True, False]
    assert f'model_name="{other}"' in queries[1]


def test_names_that_are_none_never_reach_the_query() -> None:
    for name in ('x"}', "", "Llama"):
        found, queries = asked(replying(*VALUES), name)
        assert (bool(found.error), found.points, queries) == (True, (), [])


def test_an_engine_that_does_not_name_its_model_has_no_past() -> None:
    found, queries = asked(replying(*VALUES), metrics=replace(METRICS, model_label=""))
    assert (found, queries) == (PastReading(error="the engine's metrics do not say whose requests they count"), [])


@every_case(
    "odd",
    [None, "x", 5, {}, [], [None], [{}], [{"values": None}], [{"values": [None, [1], ["a", "b"], 5, [NOW, None]]}]],
)
def test_another_shape_has_no_points(odd: Any) -> None:
    assert past_points_of(odd) == ()


def test_good_points_between_odd_ones_are_read() -> None:
    assert past_points_of([None, {"values": ["x", *VALUES, [NOW, "many"]]}]) == POINTS


def test_a_failure_and_a_refusal_are_no_answer_and_no_series_is_an_empty_one() -> None:
    def failing(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_bytes(request, b"{}", status=500)

    def refusing(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, {"status": "error", "error": "too many samples"}, status=422)

    assert asked(failing)[0] == PastReading(error="Prometheus answered HTTP 500")
    assert asked(refusing)[0] == PastReading(error="Prometheus answered HTTP 422: too many samples")
    assert asked(lambda request, _: send_json(request, matrix()))[0] == PastReading()
    nobody = PrometheusSignals("http://127.0.0.1:9").arrivals_before("chat", "llama", METRICS, until=NOW, seconds=3600)
    assert nobody.error.startswith("Prometheus cannot be reached")


def test_a_server_that_hangs_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "PAST_TIMEOUT_SECONDS", 0.2)
    with serving(NOW, replying()) as fake:

        def hang(_: BaseHTTPRequestHandler, __: Query) -> None:
            fake.released.wait()

        fake.answer = hang
        found = PrometheusSignals(fake.url).arrivals_before("chat", "llama", METRICS, until=NOW, seconds=3600)
        assert not fake.released.is_set(), "the server hangs until it is let go"
    assert found.error == "Prometheus did not answer within 0.2 s"


def test_a_query_covers_all_of_the_seconds() -> None:
    pods = [Pods('a="b"', ("pod", "engine"))]
    assert query_of("c", pods, 86_400.5) == '(sum(max by (pod,engine) (rate(c{a="b"}[300s]))))[86401s:300s]'
