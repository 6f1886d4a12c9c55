"""A gateway's queue from Prometheus: both ways to ask, and everything that an answer can have wrong."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.questions import QUEUE_METRICS, GatewayMetrics
from plimsoll.app.settings import Settings
from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.metrics import SignalState
from tests.adapters.fake_prometheus import Answer, Query, matrix, selected, send_bytes, send_json, serving

NOW = 1_700_000_000.0
NEW, OLD = QUEUE_METRICS
EPP = {"namespace": "team", "pod": "chat-epp-0", "instance": "10.0.0.9:9090", "job": "epp"}


def series(name: str, *values: str, newest: float = -1.0, **labels: str) -> Any:
    own = {"fairness_id": "", "priority": "0", "inference_pool": "chat", "model_name": "m", "target_model_name": "m"}
    points = [[NOW + newest - 15 * index, value] for index, value in enumerate(reversed(values))]
    return {"metric": {"__name__": name, **own, **EPP, **labels}, "values": points}


def replying(*found: Any, regular: bool = True) -> Answer:
    """Answer as Prometheus does: with the series of that name, namespace and pool."""

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        text = query["query"]
        if "__name__" in text and not regular:
            send_bytes(request, b"{}", status=422)
            return
        send_json(request, matrix(*selected(text, found)))

    return answer


def read(answer: Answer, pool: str = "chat", *, clock: float = NOW, **options: Any) -> GatewayQueue:
    with serving(clock, answer) as fake:
        return PrometheusSignals(fake.url, **options).read_queue("team", pool, now=NOW)


@pytest.mark.parametrize("regular", [True, False])
def test_flows_priorities_and_replicas_add_up_in_both_ways_to_ask(*, regular: bool) -> None:
    found = (
        series(NEW, "1", "2"),
        series(NEW, "3", "3", fairness_id="tenant-a"),
        series(NEW, "5", "4", priority="10", pod="chat-epp-1", instance="10.0.0.8:9090"),
    )
    queue = read(replying(*found, regular=regular))
    assert (queue.state, queue.waiting, queue.error) == (SignalState.FRESH, 9, "")


def test_that_a_server_takes_no_regular_expression_is_remembered() -> None:
    with serving(NOW, replying(series(NEW, "2"), regular=False)) as fake:
        signals = PrometheusSignals(fake.url)
        for _ in range(2):
            assert signals.read_queue("team", "chat", now=NOW).waiting == 2
        assert sum("__name__" in query["query"] and "team" in query["query"] for query in fake.queries) == 1


def test_a_queue_that_is_too_large_to_be_read_changes_no_other_question() -> None:
    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        is_large = "__name__" in query["query"] and "foreign" in query["query"]
        replying(series(NEW, "2"), regular=not is_large)(request, query)

    with serving(NOW, answer) as fake:
        signals = PrometheusSignals(fake.url)
        signals.read_queue("foreign", "chat", now=NOW)
        asked = len(fake.queries)
        assert signals.read_queue("team", "chat", now=NOW).waiting == 2
    assert len(fake.queries) == asked + 1


def test_the_two_names_of_one_queue_count_once() -> None:
    assert read(replying(series(NEW, "4"), series(OLD, "4"))).waiting == 4
    assert read(replying(series(OLD, "4"))).waiting == 4, "an older release has only the older name"
    gone = series(NEW, "9", newest=-100.0)
    assert read(replying(gone, series(OLD, "4"))).waiting == 4


def test_a_pod_that_is_scraped_by_two_jobs_counts_once() -> None:
    twice = series(NEW, "6", newest=-5.0, job="other"), series(NEW, "7")
    assert read(replying(*twice)).waiting == 7


@pytest.mark.parametrize("wrong", ["NaN", "-3", "+Inf", "1e300"])
def test_an_impossible_number_is_no_queue_and_hides_no_honest_one(wrong: str) -> None:
    once = read(replying(series(NEW, "2", wrong)))
    assert (once.state, once.waiting) == (SignalState.FRESH, 2)
    flows = series(NEW, *[wrong] * 3), series(NEW, "1", "1", "1", fairness_id="b")
    queue = read(replying(*flows, series(NEW, "8", pod="chat-epp-1")))
    assert (queue.state, queue.waiting) == (SignalState.INVALID, 8)
    assert queue.error == "the queue of chat is an impossible number in three scrapes in a row."


@pytest.mark.parametrize("found", [(), (series(NEW, "5", newest=-90.0),), (series(NEW, "5", inference_pool="other"),)])
def test_no_series_is_unknown_and_says_what_was_looked_for(found: tuple[Any, ...]) -> None:
    queue = read(replying(*found))
    assert not queue.is_known
    assert queue.waiting == 0
    assert queue.error == (
        f'Prometheus has no recent series of {NEW} or {OLD} with inference_pool="chat": there is no InferencePool chat '
        "in this namespace, it names no endpoint picker (spec.endpointPickerRef), it holds no queue "
        "(flowControl), or nobody scrapes it."
    )


def test_a_queue_in_another_namespace_is_another_tenants() -> None:
    forged = series(NEW, "100000", namespace="foreign")
    assert read(replying(forged)).state is SignalState.MISSING
    assert read(replying(forged, series(NEW, "1"))).waiting == 1


LIARS = [
    {"namespace": "foreign", "exported_namespace": "team", "pod": "liar", "exported_pod": "chat-epp-0"},
    {"namespace": "foreign", "kubernetes_namespace": "team", "pod": "liar", "kubernetes_pod_name": "chat-epp-0"},
    {"kubernetes_namespace": "foreign", "namespace": "team", "kubernetes_pod_name": "liar", "pod": "chat-epp-0"},
]
"""The labels of a page of another namespace that names our picker, in each way in which Prometheus may have them."""


@pytest.mark.parametrize("lie", LIARS)
def test_a_queue_that_another_namespace_reports_counts_nowhere(lie: dict[str, str]) -> None:
    forged = series(NEW, "100000")
    forged["metric"] |= lie
    assert read(replying(forged)).state is SignalState.MISSING
    assert read(replying(forged, series(NEW, "1"))).waiting == 1


def test_labels_and_names_are_the_admins() -> None:
    found = series("my_queue", "3", k8s_namespace="team", chat_pool="chat")
    labels, names = (("k8s_namespace", "k8s_pod"),), GatewayMetrics(("my_queue",), "chat_pool")
    assert read(replying(found), label_pairs=labels, gateway=names).waiting == 3
    assert read(replying(found)).waiting == 0


def test_a_pool_that_is_no_name_is_never_asked_for() -> None:
    with serving(NOW, replying()) as fake:
        assert not PrometheusSignals(fake.url).read_queue("team", 'a"} or vector(9', now=NOW).is_known
        assert fake.queries == []


def test_times_are_in_the_callers_clock() -> None:
    late = [series(NEW, "4", newest=3599.0)]
    assert read(replying(*late), clock=NOW + 3600).waiting == 4


@pytest.mark.parametrize("status", [401, 500])
def test_an_outage_is_told_apart_from_an_empty_queue(status: int) -> None:
    def refuse(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_bytes(request, b"no", status=status)

    queue = read(refuse)
    assert queue.state is SignalState.UNAVAILABLE
    assert str(status) in queue.error


def test_an_answer_of_another_shape_is_an_outage() -> None:
    def odd(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, matrix({"metric": [], "values": 3}))

    assert read(odd).state is SignalState.UNAVAILABLE


def test_the_settings_name_the_metrics_and_refuse_what_is_no_name() -> None:
    given = {"PLIMSOLL_GATEWAY_QUEUE_METRICS": "a_queue, b:queue", "PLIMSOLL_GATEWAY_POOL_LABEL": "pool"}
    assert Settings.from_environment(given).gateway_metrics == GatewayMetrics(("a_queue", "b:queue"), "pool")
    assert Settings.from_environment({}).gateway_metrics == GatewayMetrics()
    for name, wrong in (("PLIMSOLL_GATEWAY_QUEUE_METRICS", 'a"'), ("PLIMSOLL_GATEWAY_POOL_LABEL", "a-b")):
        with pytest.raises(InvalidInput, match=name):
            Settings.from_environment({name: wrong})
