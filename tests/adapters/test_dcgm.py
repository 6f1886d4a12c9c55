"""The activity of GPUs: one question more, answers that can be, and silence about everything else."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

import pytest

from plimsoll.adapters.prometheus import prometheus
from plimsoll.adapters.prometheus.access import LABEL_PAIRS, LabelPair
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.questions import (
    CLOCK_REASONS,
    ECC_ERRORS,
    GPU_MEMORY,
    GPU_NAMES,
    TENSOR_CORES,
    XID_ERRORS,
)
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import GpuActivity
from tests.adapters.fake_prometheus import Answer, Query, matrix, selected, send_bytes, send_json, serving, success
from tests.support.tables import every_case

NOW = 1_700_000_000.0
CHAT, CODE = ObjectKey("team", "chat"), ObjectKey("other", "code")


def gpu(name: str, *values: str, pair: LabelPair = LABEL_PAIRS[0], namespace: str = "team", pod: str = "p") -> Any:
    """A series of one GPU, with its newest value last."""
    points = [[NOW - 15 * index, value] for index, value in enumerate(reversed(values))]
    exporter = {"namespace": "monitoring", "pod": "dcgm-0", "Hostname": "node-1"}
    return {"metric": {**exporter, "__name__": name, pair[0]: namespace, pair[1]: pod}, "values": points}


BOTH = [gpu(GPU_MEMORY, "0.82"), gpu(TENSOR_CORES, "0.13")]


def answering(*found: Any) -> Answer:
    return lambda request, query: send_json(request, matrix(*selected(query["query"], found)))


def asked(answer: Answer, **pods: Collection[str]) -> tuple[GpuActivity | None, GpuActivity | None, list[str]]:
    """Ask about the pods of both objects, and return what is known of each, and the queries."""
    with serving(NOW, answer) as fake:
        wanted = {key: pods[key.name] for key in (CHAT, CODE) if key.name in pods}
        found = PrometheusSignals(fake.url).gpu_activities(wanted, now=NOW)
        return found.get(CHAT), found.get(CODE), [each["query"] for each in fake.queries]


@pytest.mark.parametrize("pair", LABEL_PAIRS)
def test_both_shares_of_all_objects_are_read_together_whatever_the_exporter_is(pair: LabelPair) -> None:
    more = [gpu(GPU_MEMORY, "0.9", "0.4", pair=pair, pod="q"), gpu(GPU_MEMORY, "0.1", pair=pair, namespace="other")]
    some = [gpu(each["metric"]["__name__"], each["values"][0][1], pair=pair) for each in BOTH]
    chat, code, queries = asked(answering(*some, *more), chat=("p", "q"), code=("p",))
    assert chat is not None
    assert chat.memory == pytest.approx((0.82 + 0.4) / 2)
    assert (chat.tensor_cores, code) == (0.13, GpuActivity(memory=0.1))
    assert len(queries) == 1 + LABEL_PAIRS.index(pair)
    assert queries[0] == f'{{__name__=~"{"|".join(GPU_NAMES)}",namespace=~"other|team",pod=~"p|q"}}[90s]'


@every_case(
    ("series", "found"),
    [
        ([], None),
        (BOTH, GpuActivity(0.82, 0.13)),
        (BOTH[:1], GpuActivity(memory=0.82)),
        (BOTH[1:], GpuActivity(tensor_cores=0.13)),
        ([gpu(GPU_MEMORY, "NaN"), BOTH[1]], GpuActivity(tensor_cores=0.13)),
        ([gpu(GPU_MEMORY, "-0.1")], None),
        ([gpu(GPU_MEMORY, "0.5", "82")], None),
        ([gpu(GPU_MEMORY, "+Inf")], None),
        ([gpu("DCGM_FI_DEV_GPU_UTIL", "0.5")], None),
        ([gpu(GPU_MEMORY, "0"), gpu(TENSOR_CORES, "1")], GpuActivity(0.0, 1.0)),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_left_out(series: list[Any], found: GpuActivity | None) -> None:
    assert asked(answering(*series), chat=("p",))[0] == found


@every_case(
    ("series", "words"),
    [
        ([gpu(XID_ERRORS, "79")], "XID 79"),
        ([gpu(XID_ERRORS, "79", "0")], ""),
        ([gpu(ECC_ERRORS, "2"), gpu(XID_ERRORS, "48")], "XID 48, double-bit ECC errors: 2"),
        ([gpu(CLOCK_REASONS[0], "72")], "throttling: far too hot, throttling: hardware slowdown"),
        ([gpu(CLOCK_REASONS[1], "32")], "throttling: too hot"),
        ([gpu(CLOCK_REASONS[0], "5")], ""),
        ([gpu(XID_ERRORS, "NaN"), gpu(ECC_ERRORS, "-1"), gpu(CLOCK_REASONS[0], "1e300")], ""),
    ],
    ids=["an error", "none any more", "two kinds", "clocks", "an earlier release", "an idle one", "no numbers"],
)
def test_what_gpus_report_of_themselves_is_said_of_their_pod(series: list[Any], words: str) -> None:
    found, _, _ = asked(answering(*series, gpu(XID_ERRORS, "0", pod="q")), chat=("p", "q"))
    assert (() if found is None else found.faults) == ((("p", words),) if words else ())


@pytest.mark.parametrize("result", [None, {}, "x", 5, [NOW, "1"]])
def test_another_shape_is_no_answer(result: object) -> None:
    answer = success({"resultType": "matrix", "result": result})
    assert asked(lambda request, _: send_json(request, answer), chat=("p",))[0] is None


@pytest.mark.parametrize("status", [400, 403, 422, 500, 503])
def test_a_refusal_is_no_answer_and_no_error(status: int) -> None:
    def refuse(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_bytes(request, b'{"status":"error","errorType":"x","error":"y"}', status=status)

    assert asked(refuse, chat=("p",))[0] is None


def test_a_slow_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "GPU_TIMEOUT_SECONDS", 0.2)
    over = Event()

    def wait(request: BaseHTTPRequestHandler, query: Query) -> None:
        over.wait()
        with suppress(OSError):  # the client has left
            answering(*BOTH)(request, query)

    with serving(NOW, wait) as fake:
        assert PrometheusSignals(fake.url).gpu_activities({CHAT: ("p",)}, now=NOW) == {CHAT: None}
        over.set()


def test_a_server_that_is_away_is_no_error() -> None:
    assert PrometheusSignals("http://127.0.0.1:9").gpu_activities({CHAT: ("p",)}, now=NOW) == {CHAT: None}


def test_no_pod_and_no_name_of_a_pod_ask_nothing() -> None:
    assert asked(answering(*BOTH)) == (None, None, [])
    assert asked(answering(*BOTH), chat=('x"} or vector(1) #',)) == (None, None, [])
