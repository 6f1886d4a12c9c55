"""The load of days from Prometheus: questions of a day each, holes that are counted, and numbers that cannot be."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from plimsoll.adapters.prometheus.past_load import PastLoad, past_load
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.registry import engine_of
from plimsoll.simulation.past import PastStep
from tests.adapters.fake_prometheus import FakePrometheus, Query, matrix, send_bytes, send_json, serving, success

NOW = 1_700_000_100.0
END = 1_700_000_100.0
DAY, STEP = 86_400.0, 300.0
METRICS = engine_of().metrics
RATES = {
    "time_to_first_token_seconds_count": 2.0,
    "prompt_tokens_total": 2000.0,
    "generation_tokens_total": 300.0,
    "prefix_cache_hits_total": 400.0,
    "external_prefix_cache_hits_total": 100.0,
}


class Past:
    """Answers each counter with its rate in every step, but for those in ``other``; NaN where a hole is."""

    def __init__(self, other: dict[tuple[str, int], str] | None = None, startup: str | None = None) -> None:
        self.other, self.startup = other or {}, startup

    def __call__(self, request: BaseHTTPRequestHandler, query: Query) -> None:
        text, at = query["query"], float(query["time"])
        if "startup" in text:
            found = [] if self.startup is None else [{"metric": {}, "value": [at, self.startup]}]
            send_json(request, success({"resultType": "vector", "result": found}))
            return
        name = re.findall(r"rate\(vllm:(\w+)\{", text)[0]
        seconds = float(re.findall(r"\[(\d+)s:300s\]", text)[0])
        ends = [at - seconds + STEP * (index + 1) for index in range(int(seconds // STEP))]
        values = [[end, self.other.get((name, round((END - end) / STEP)), str(RATES[name]))] for end in ends]
        send_json(request, matrix({"metric": {}, "values": [each for each in values if each[1]]}))


def loaded(answer: Any, seconds: float = 3600.0, **options: Any) -> tuple[PastLoad, FakePrometheus, list[float]]:
    parts = list[float]()
    with serving(NOW, answer) as fake:
        signals = PrometheusSignals(fake.url, timeout_seconds=30, **options)
        found = past_load(
            signals, ObjectKey("chat", "llama"), METRICS, until=NOW + 7, seconds=seconds, progress=parts.append
        )
    return found, fake, parts


def test_the_requests_and_their_lengths_are_read_in_steps() -> None:
    found, fake, parts = loaded(Past(startup="412"))
    assert (found.begin, found.seconds, found.known, found.startup_seconds) == (END - 3600, 3600.0, 1.0, 412.0)
    assert found.steps == tuple(PastStep(index * STEP, STEP, 2.0, 1000.0, 150.0, 250.0) for index in range(12))
    assert len(fake.queries) == len(RATES) + 1
    assert parts == [1.0]


def test_no_question_is_about_more_than_a_day() -> None:
    found, fake, parts = loaded(Past(), 7 * DAY)
    spans = [int(each) for query in fake.queries for each in re.findall(r"\[(\d+)s:300s\]", query["query"])]
    assert spans == [int(DAY)] * 7 * len(RATES)
    assert (len(found.steps), found.known, found.startup_seconds) == (2016, 1.0, None)
    assert parts == [pytest.approx(day / 7) for day in range(1, 8)]


def test_a_hole_is_no_time_without_requests_and_says_how_much_is_known() -> None:
    hole = {("time_to_first_token_seconds_count", ago): "" for ago in range(3)}
    found, _, _ = loaded(Past(hole | {("time_to_first_token_seconds_count", 5): "0"}))
    assert found.known == pytest.approx(9 / 12)
    assert [each.per_second for each in found.steps] == [2.0] * 6 + [0.0] + [2.0] * 2


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "1e300", ""])
@pytest.mark.parametrize("counter", list(RATES)[:3])
def test_a_number_that_cannot_be_makes_its_step_unknown_and_no_other(counter: str, value: str) -> None:
    found, _, _ = loaded(Past({(counter, 4): value}))
    assert found.known == pytest.approx(11 / 12)
    assert all(each.per_second == 2.0 and each.prompt_tokens == 1000.0 for each in found.steps)


@pytest.mark.parametrize("value", ["NaN", "0", "-5", "+Inf", "soon"])
def test_a_start_up_that_cannot_be_is_none(value: str) -> None:
    assert loaded(Past(startup=value))[0].startup_seconds is None


def test_a_server_that_refuses_is_an_error_and_no_quiet_week() -> None:
    with pytest.raises(SourceUnavailable, match="Prometheus cannot say what came"):
        loaded(lambda request, _: send_bytes(request, b"{}", status=500))
