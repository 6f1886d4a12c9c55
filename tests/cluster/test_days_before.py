"""Replicas before a climb that came on the days before, on a real API server, scheduler and Prometheus.

Prometheus has the days before as late samples. Each deployment has the same requests today, lives on nodes of its own,
and starts in ten minutes as far as the operator can see. Only one of them has days with a climb.
:mod:`tests.support.hurried` reads one day after the other without long pauses.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

import pytest

from testbed.engine_queue import Stream
from testbed.played_past import PastSeries, PlayedPast
from tests.support.hurried import MODULE, Wait, environment
from tests.support.live_loop import L4_POOL, TIMING, Bench, bench_of, stays
from tests.support.reviewing import run_here

pytestmark = pytest.mark.cluster

NAMESPACE = "days"
DAY, HOUR, MINUTE = 86_400.0, 3600.0, 60.0
AUTO = {"mode": "Auto", "maxReplicas": 6, **TIMING}

TODAY = Stream(rate=0.3, prompt=1500, output=100, first_token_seconds=0.35, token_seconds=0.085)
"""The performance model lets one L4 carry 1.15 of these requests a second. With starts of ten minutes a replica is
used up to 65 %."""

PEAK = 4.0
"""Requests a second after the climb, for which four L4 are needed."""

STARTUP_SECONDS = 600
CLIMB_AFTER_SECONDS, CLIMB_SECONDS = 12 * MINUTE, 10 * MINUTE
"""When the climb begins after the first moment of the test, and how long it takes."""

AROUND_SECONDS = 2.5 * HOUR
"""So much of a day before is played, earlier and later than this time of day."""

READING_SECONDS = 120.0
"""Eight questions about days for each deployment, and some scrapes of today."""

QUIET_SECONDS = 15.0

NAMES = ("morning", "even", "odd", "young")
SIMILAR = "even-l4-24gb-tp1"
"""Another deployment's name, with which the names of its pods begin as those of ``even`` do."""

Course = Callable[[float], float]
Shown = Callable[[float], str]


def flat(_: float) -> float:
    return TODAY.rate


def climbing(begin: float, at: float) -> float:
    """Requests a second on a day whose climb begins at ``begin``."""
    return TODAY.rate + (PEAK - TODAY.rate) * min(1.0, max(0.0, (at - begin) / CLIMB_SECONDS))


def series(
    name: str,
    pod: str,
    begin: float,
    end: float,
    rate: Course,
    shown: Callable[[float], str] = str,
    counter: str = "time_to_first_token_seconds_count",
) -> PastSeries:
    labels = {"namespace": NAMESPACE, "pod": pod, "engine": "0", "model_name": name}
    return PastSeries(f"vllm:{counter}", labels, begin, end, rate, shown)


def days_of(
    name: str,
    pool: str,
    now: float,
    course: Callable[[float], Course],
    texts: Mapping[int, Shown] = MappingProxyType({}),
) -> Iterator[PastSeries]:
    """Two days before and the hours until now, of pods of a pool. Each day has a pod of its own.

    ``texts`` are the texts of values of the days that show something else, by how many days ago they were.
    """
    for back in (2, 1, 0):
        here = now - back * DAY
        begin, end = here - AROUND_SECONDS, here + AROUND_SECONDS if back else now
        pod = f"{name}-{pool}-5f6d8c7b9f-x2x4{back}"
        yield series(name, pod, begin, end, course(here), texts.get(back, str))
        if name == "even" and not back:
            yield from lengths_of(name, pod, begin, end, course(here))


def lengths_of(name: str, pod: str, begin: float, end: float, rate: Course) -> Iterator[PastSeries]:
    """The tokens of these requests."""
    tokens = {"prompt_tokens_total": TODAY.prompt, "generation_tokens_total": TODAY.output}
    for counter, mean in tokens.items():
        yield series(name, pod, begin, end, lambda at, mean=mean: mean * rate(at), counter=counter)  # type: ignore[misc]


def shown_as_nan(_: float) -> str:
    return "NaN"


def shown_as_impossible(value: float) -> str:
    return str(-value * 1e300)


def past_at(now: float) -> Iterator[PastSeries]:
    def climb(here: float) -> Course:
        return partial(climbing, here + CLIMB_AFTER_SECONDS)

    yield from days_of("morning", "h100-sxm-80gb-tp2", now, climb)
    yield from days_of("even", L4_POOL, now, lambda _: flat)
    yield from days_of(SIMILAR, L4_POOL, now, climb)
    yield from days_of("odd", L4_POOL, now, climb, {2: shown_as_impossible, 1: shown_as_nan})


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """All deployments under the same load, and Prometheus with their past."""
    with (
        PlayedPast(past_at(time.time()), days=3) as past,
        bench_of(NAMESPACE, environment(Wait.DAYS), past=past, module=MODULE) as running,
    ):
        _wait_for_past(running)
        for name in NAMES:
            running.add_nodes(name, L4=6)
            running.deploy(name, AUTO)
        for name in NAMES:
            running.view.wait_ready(name)
            running.stream(name, TODAY)
            running.play_startup(name, STARTUP_SECONDS)
        yield running


def _wait_for_past(bench: Bench) -> None:
    query = f'count(max_over_time(vllm:time_to_first_token_seconds_count{{namespace="{NAMESPACE}"}}[3d]))'
    bench.view.wait(lambda: bench.prometheus.value(query) >= 3 * 4, "the days before")


def hints(bench: Bench, name: str) -> list[str]:
    return list(bench.rebalancing(name).get("hints") or [])


def test_replicas_are_added_before_the_climb_although_the_days_were_on_other_gpus(bench: Bench) -> None:
    bench.view.wait(lambda: bench.rebalancing("morning").get("changes"), "a change of morning", READING_SECONDS)
    reported = bench.rebalancing("morning")
    [made] = reported["changes"]
    assert (made["kind"], made["reason"], made["replicas"]) == ("Add", "RiseExpected", 2)
    assert "2 days" in reported["lastChange"]
    bench.wait_settled("morning", {L4_POOL: 2})
    assert hints(bench, "morning") == []


def test_days_that_cannot_be_and_days_that_were_not_are_said(bench: Bench) -> None:
    said = "Nothing is expected from the days before: Prometheus has 0 of them, and 2 are needed."
    for name in ("odd", "young"):
        bench.view.wait(lambda name=name: hints(bench, name) == [said], f"the hint of {name}", READING_SECONDS)  # type: ignore[misc]


def test_who_has_no_climb_changes_nothing_whatever_a_similar_name_had(bench: Bench) -> None:
    others = [name for name in NAMES if name != "morning"]
    stays(lambda: all(bench.settled(name) == {L4_POOL: 1} for name in others), QUIET_SECONDS, "a replica came")
    for name in others:
        reported = bench.rebalancing(name)
        assert (reported["reason"], reported.get("changes")) == ("WithinBand", None)
    assert hints(bench, "even") == []


def test_what_auto_would_have_done_is_asked_of_the_same_prometheus(bench: Bench) -> None:
    """Of the last three hours, two and a half are known. ``odd`` has numbers that cannot be, and no lengths."""
    config = bench.view.control_plane.admin_kubeconfig
    words = ("--from-prometheus", "3h", "-n", bench.view.namespace, "--prometheus-url", bench.prometheus.url)
    ran = run_here(config, "simulate", "even", *words, "-o", "json", "--kubeconfig", str(config))
    assert ran.status == 0, ran.errors
    found = json.loads(ran.text)
    assert 75 <= found["input"]["known_percent"] <= 90
    assert 0.6 * TODAY.rate * AROUND_SECONDS < found["input"]["requests"] < 1.4 * TODAY.rate * AROUND_SECONDS
    assert found["input"]["gpu"] == "l4-24gb"
    assert found["input"]["startup_seconds"] >= STARTUP_SECONDS
    assert [each["law"] for each in found["laws"]][:2] == ["plimsoll", "static 1"]
    assert {each["requests"] for each in found["laws"]} == {found["input"]["requests"]}
    assert found["laws"][0]["most"] == 1, "one replica carries it, as the live loop has decided all day"
    ran = run_here(config, "simulate", "odd", *words, "-o", "json", "--kubeconfig", str(config))
    if ran.status:
        assert (ran.status, "Nothing came in this time" in ran.errors) == (2, True)
    else:
        known = json.loads(ran.text)["input"]["known_percent"]
        assert known < found["input"]["known_percent"] / 2, "only what its own pods served has lengths"
