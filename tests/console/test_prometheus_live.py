"""The console's questions to Prometheus: which pods they name, and what counts as an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from plimsoll.console.sources.prometheus_live import LONGEST_MATCHERS, MAX_BODY_BYTES, PrometheusLive, matchers_of
from plimsoll.console.views.fleet import FleetTotals, GpuTotal
from plimsoll.console.views.load.live_use import MapSpan, PastUse
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.registry import ENGINES
from plimsoll.rebalance.signals.metrics import PodSignals
from tests.adapters.fake_prometheus import FakePrometheus, Query, matrix, send_bytes, send_json, serving, success
from tests.support.tables import every_case
from tests.support.toy_engine import ABACUS
from tests.support.toy_engine import METRICS as TOYS

NOW = 1_700_000_100.0
PAIR = ("namespace", "pod")
MINE = ObjectKey("chat", "llama-0")
SPAN = MapSpan(3600, 60)
PATIENT_SECONDS = 60.0

Rows = Iterable[dict[str, Any]]


def series(name: str, value: float | str, *, pod: ObjectKey = MINE, pair: tuple[str, str] = PAIR, **more: str) -> Any:
    labels = {"__name__": name, pair[0]: pod.namespace, pair[1]: pod.name, "engine": "0", **more}
    return {"metric": labels, "values": [[NOW - 15, str(value)], [NOW, str(value)]]}


def engine(pod: ObjectKey = MINE, pair: tuple[str, str] = PAIR, kv: str = "vllm:kv_cache_usage_perc") -> list[Any]:
    return [
        series(kv, 0.5, pod=pod, pair=pair),
        series("vllm:num_requests_running", 8, pod=pod, pair=pair),
        series("vllm:num_requests_waiting", 2, pod=pod, pair=pair),
        series("vllm:cache_config_info", 1, pod=pod, pair=pair, kv_cache_size_tokens="1000"),
    ]


def that_has(some: Rows) -> Callable[[BaseHTTPRequestHandler, Query], None]:
    """Answer a query with the series whose metric and namespace label it names, as a server that stores them."""
    stored = list(some)

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        text = query["query"]
        found = [one for one in stored if _is_asked(one["metric"], text)]
        send_json(request, matrix(*found))

    return answer


def _is_asked(labels: dict[str, str], text: str) -> bool:
    return f"{labels['__name__']}{{" in text and any(f"{{{label}=~" in text for label in labels if "namespace" in label)


def last(some: Rows, pods: Collection[ObjectKey] = (MINE,)) -> tuple[dict[ObjectKey, PodSignals], FakePrometheus]:
    with serving(NOW, that_has(some)) as fake:
        return PrometheusLive(fake.url).last(pods, now=NOW, window_seconds=120), fake


def test_the_last_samples_are_those_of_the_engine_with_their_own_times() -> None:
    found, fake = last(engine())
    newest = found[MINE].samples[-1]
    assert (newest.at, newest.kv_usage, newest.running, newest.waiting) == (NOW, 0.5, 8, 2)
    assert newest.kv_capacity_tokens == 1000
    assert all('{namespace=~"chat",pod=~"llama-0"}[120s]' in query["query"] for query in fake.queries)


def test_the_older_spelling_of_the_kv_use_is_read_as_well() -> None:
    found, _ = last(engine(kv="vllm:gpu_cache_usage_perc"))
    assert found[MINE].samples[-1].kv_usage == 0.5
    assert last(engine(kv="vllm:renamed_again"))[0] == {}


def test_pods_of_two_engines_are_read_by_the_names_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = ObjectKey("chat", "toy-0")
    own = [
        series(name, value, pod=toy, replica_rank="0", served="toy")
        for name, value in ((TOYS.kv_usage, 0.25), (TOYS.running, 3), (TOYS.waiting, 1), (TOYS.capacity, 7000))
    ]
    assert set(last([*engine(), *own], (MINE, toy))[0]) == {MINE}, "nobody knows the other names yet"
    monkeypatch.setitem(ENGINES, ABACUS.name, ABACUS)
    found, _ = last([*engine(), *own], (MINE, toy))
    newest = {pod.name: signals.samples[-1] for pod, signals in found.items()}
    assert {name: (one.kv_usage, one.running, one.kv_capacity_tokens) for name, one in newest.items()} == {
        "llama-0": (0.5, 8, 1000),
        "toy-0": (0.25, 3, 7000),
    }


@pytest.mark.parametrize(
    "pair", [PAIR, ("exported_namespace", "exported_pod"), ("kubernetes_namespace", "kubernetes_pod_name")]
)
def test_pods_are_found_under_each_usual_pair_of_labels(pair: tuple[str, str]) -> None:
    found, _ = last(engine(pair=pair))
    assert found[MINE].samples[-1].running == 8


def test_answers_about_pods_that_were_not_asked_for_are_left_out() -> None:
    other, namesake = ObjectKey("chat", "other-0"), ObjectKey("secret", "llama-0")
    found, fake = last([*engine(), *engine(other), *engine(namesake)])
    assert set(found) == {MINE}
    assert "secret" not in " ".join(query["query"] for query in fake.queries)
    assert set(last([*engine(), *engine(other)], (MINE, other))[0]) == {MINE, other}


@pytest.mark.parametrize(
    "pair", [("exported_namespace", "exported_pod"), ("kubernetes_namespace", "kubernetes_pod_name")]
)
def test_the_page_of_another_namespace_says_nothing_of_a_pod(pair: tuple[str, str]) -> None:
    target = {"namespace": "foreign", "pod": "liar-0"}
    lies = [{**one, "metric": one["metric"] | target} for one in engine(pair=pair)]
    assert last(lies)[0] == {}
    claims = [{**one, "metric": one["metric"] | {pair[0]: "foreign"}} for one in engine()]
    assert last(claims)[0] == {}


def test_a_tenant_with_more_series_than_are_read_hides_no_other() -> None:
    """Somebody who may list both sees the honest pods. Who lists the other alone reads why there is nothing."""
    crowd = ObjectKey("crowd", "crowd-0")

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        if "crowd" in query["query"]:
            send_bytes(request, b" " * (MAX_BODY_BYTES + 1))
        else:
            that_has(engine())(request, query)

    with serving(NOW, answer) as fake:
        live = PrometheusLive(fake.url, timeout_seconds=PATIENT_SECONDS)
        found = live.last([MINE, crowd], now=NOW, window_seconds=120)
        with pytest.raises(SourceUnavailable, match="sent more than"):
            live.last([crowd], now=NOW, window_seconds=120)
    assert set(found) == {MINE}
    assert found[MINE].samples[-1].running == 8


def test_many_pods_are_one_query_for_each_metric_and_not_one_for_each_pod() -> None:
    pods = [ObjectKey("chat", f"llama-{number}") for number in range(5000)]
    found, fake = last([one for pod in pods[:3] for one in engine(pod)], pods)
    assert len(found) == 3
    asked = [query["query"] for query in fake.queries if "{namespace=~" in query["query"]]
    assert len(asked) == 9, "eight of the usual engine, and one whether the rest run another"
    assert all('namespace=~"chat",pod!=""' in query for query in asked)


@every_case("hostile", ['a"} or vector(1) #', "a|.*", "a\\", "A", "ä", "", "a\nb", "a{b}"])
def test_a_name_that_kubernetes_would_not_take_never_gets_into_a_query(hostile: str) -> None:
    keys = [ObjectKey(hostile, "llama-0"), ObjectKey("chat", hostile)]
    assert list(matchers_of(PAIR, keys, by_name=True)) == []
    assert list(matchers_of(PAIR, [*keys, MINE], by_name=True)) == ['namespace=~"chat",pod=~"llama-0"']
    assert list(matchers_of(PAIR, [*keys, MINE], by_name=False)) == ['namespace=~"chat",pod!=""']


def test_dots_of_names_match_only_dots() -> None:
    assert list(matchers_of(PAIR, [ObjectKey("a", "b.c")], by_name=True)) == ['namespace=~"a",pod=~"b[.]c"']


def test_matchers_stay_short_and_lose_no_pod() -> None:
    pods = [ObjectKey(f"team-{number % 7}", f"{'x' * 50}-{number}") for number in range(400)]
    found = list(matchers_of(PAIR, pods, by_name=True))
    assert all(len(each) < LONGEST_MATCHERS + 100 for each in found)
    assert sum(each.count("xxx-") for each in found) == 400


def test_times_follow_the_clock_of_the_server() -> None:
    with serving(NOW + 300, that_has(engine())) as fake:
        found = PrometheusLive(fake.url).last([MINE], now=NOW, window_seconds=120)
    assert found[MINE].samples[-1].at == NOW - 300


@pytest.mark.parametrize("odd", ["NaN", "+Inf", "-1"])
def test_impossible_samples_are_handed_on_as_the_operator_reads_them(odd: str) -> None:
    some = [*engine()[:1], series("vllm:num_requests_running", odd), *engine()[2:]]
    found, _ = last(some)
    assert found[MINE].samples[-1].running is None
    assert found[MINE].samples[-1].waiting == 2


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"status":"success","data":{"result":[{"metric":1}]}}'])
def test_an_answer_of_another_shape_is_no_answer(body: bytes) -> None:
    def answer(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_bytes(request, body)

    with serving(NOW, answer) as fake, pytest.raises(SourceUnavailable):
        PrometheusLive(fake.url).last([MINE], now=NOW, window_seconds=120)


def test_a_server_that_does_not_answer_ends_the_reading_in_time() -> None:
    def answer(_: BaseHTTPRequestHandler, __: Query) -> None:
        fake.released.wait()

    with serving(NOW, answer) as fake, pytest.raises(SourceUnavailable, match=r"within 0\.2 s"):
        PrometheusLive(fake.url, timeout_seconds=0.2).last([MINE], now=NOW, window_seconds=120)
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        PrometheusLive(fake.url).last([MINE], now=NOW, window_seconds=120)


def over_time(grown: float | str = 3.0, pods: Collection[ObjectKey] = (MINE,)) -> tuple[PastUse, FakePrometheus]:
    """Ask for an hour of a server that has three columns for every query, and a growth of preemptions.

    Another namespace reports that the same pod is full.
    """
    labels = {"namespace": "chat", "pod": "llama-0"}
    lie = labels | {"kubernetes_namespace": "foreign"}

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        if "start" not in query:
            values = (labels, [NOW, str(grown)]), (lie, [NOW, "9"])
            send_json(request, success({"result": [{"metric": each, "value": value} for each, value in values]}))
            return
        points = [[float(query["end"]) - 60 * back, "0.5"] for back in range(3)]
        hidden = {"namespace": "chat", "pod": "other-0"}
        full = {"metric": lie, "values": [[at, "1"] for at, _ in points]}
        send_json(request, matrix({"metric": labels, "values": points}, {"metric": hidden, "values": points}, full))

    with serving(NOW, answer) as fake:
        fake.steps = True
        return PrometheusLive(fake.url).over_time(pods, now=NOW, span=SPAN), fake


def test_the_past_has_columns_of_the_pods_that_were_asked_for() -> None:
    found, fake = over_time()
    assert set(found.pods) == {MINE}
    assert found.pods[MINE].kv == {NOW: 0.5, NOW - 60: 0.5, NOW - 120: 0.5}
    assert [found.column_of(at) for at in sorted(found.pods[MINE].kv)] == [57, 58, 59]
    assert found.pods[MINE].preemptions == 3
    first = next(query for query in fake.queries if "start" in query)
    assert (float(first["end"]) - float(first["start"]), first["step"]) == (3540, "60")
    assert "max_over_time(vllm:kv_cache_usage_perc{" in first["query"]
    assert "max_over_time(vllm:gpu_cache_usage_perc{" in first["query"]
    assert "max by (namespace,pod" in first["query"]
    assert first["query"].count("kubernetes_namespace") == 2, "who else is named shows in the sums"


@pytest.mark.parametrize("odd", ["NaN", "+Inf", "-2"])
def test_an_impossible_growth_is_unknown(odd: str) -> None:
    assert over_time(odd)[0].pods[MINE].preemptions is None
    assert over_time(0.0)[0].pods[MINE].preemptions == 0


def test_no_pods_are_no_questions() -> None:
    found, fake = last(engine(), ())
    assert (found, fake.queries) == ({}, [])


def gpus(state: str, value: float, at: float = NOW, gpu_type: str = "l4-24gb", pod: str = "operator-0") -> Any:
    labels = {"__name__": "plimsoll_fleet_gpus", "gpu_type": gpu_type, "state": state, "pod": pod}
    return {"metric": labels, "values": [[at - 15, "0"], [at, str(value)]]}


def totals(*some: Any) -> FleetTotals | None:
    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        assert query["query"].startswith("plimsoll_fleet_gpus[")
        send_json(request, matrix(*some))

    with serving(NOW, answer) as fake:
        return PrometheusLive(fake.url).totals(now=NOW)


def test_the_totals_of_the_fleet_are_the_last_samples_of_each_type() -> None:
    found = totals(gpus("free", 7), gpus("held", 1), gpus("free", 2, at=NOW - 15, gpu_type="h100-sxm-80gb"))
    assert found == FleetTotals(NOW - 15, (GpuTotal("l4-24gb", 7, 1), GpuTotal("h100-sxm-80gb", 2, 0)))


def test_an_operator_that_writes_no_more_does_not_count_twice() -> None:
    found = totals(gpus("free", 7), gpus("held", 1), gpus("free", 6, at=NOW - 300, pod="operator-1"))
    assert found == FleetTotals(NOW, (GpuTotal("l4-24gb", 7, 1),))


def test_without_an_operators_metrics_there_are_no_totals() -> None:
    assert totals() is None


ODD_SERIES: list[Any] = [
    {"metric": {}, "values": [[NOW, "1"]]},
    {"metric": {"gpu_type": "a", "state": "free"}, "values": []},
    {"metric": {"gpu_type": "a", "state": "free"}, "values": [[NOW, "NaN"]]},
    {"metric": None, "values": None},
    "series",
]


@pytest.mark.parametrize("odd", ODD_SERIES, ids=str)
def test_a_series_that_cannot_be_used_costs_itself_alone(odd: Any) -> None:
    assert totals(odd) is None
    assert totals(gpus("free", 7), odd) == FleetTotals(NOW, (GpuTotal("l4-24gb", 7, 0),))


def test_totals_of_another_shape_are_no_answer() -> None:
    def answer(request: BaseHTTPRequestHandler, _: Query) -> None:
        send_json(request, success({"result": {"metric": {}}}))

    with serving(NOW, answer) as fake, pytest.raises(SourceUnavailable, match="another shape"):
        PrometheusLive(fake.url).totals(now=NOW)
