"""The pods' own metrics, without a Prometheus. Every fault has a neighbour that answers honestly."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from select import select
from threading import Event
from typing import Any

import pytest

from plimsoll.adapters.prometheus import engine_series, pod_scrape
from plimsoll.adapters.prometheus import pod_scrape as metrics_page
from plimsoll.adapters.prometheus.pod_scrape import OTHER_THREADS, QUICK_THREADS, PodScrape, read_page
from plimsoll.adapters.prometheus.readings import Asked
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals, SignalState
from plimsoll.rebalance.signals.reading import Reading
from testbed.waiting import wait_until
from tests.adapters.fake_engine import PAGE, FakeEngine, Serve, engine, page
from tests.adapters.fake_prometheus import send_bytes
from tests.support.work import measured_effort

METRICS = engine_of().metrics
PATIENCE_S = 60.0

HURRIED_SECONDS = 0.5
"""The deadline of a scrape where it is what is tested. Elsewhere it is one that no busy machine reaches."""
HONEST, OTHER = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def honest() -> Iterator[FakeEngine]:
    with engine(page(), HONEST) as running:
        yield running


@pytest.fixture
def scrape(honest: FakeEngine) -> Iterator[PodScrape]:
    made = PodScrape(port=honest.port, scrape_seconds=0.1, timeout_seconds=PATIENCE_S)
    yield made
    made.close()


@dataclass
class Clock:
    """Stands still until the test moves it; ``wall`` is the time of day, and ``worked`` that of a CPU."""

    now: float = 1000.0
    wall: float = 1_700_000_000.0
    worked: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.wall

    def thread_time(self) -> float:
        return self.worked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(pod_scrape, "time", own)
    return own


def ask(scrape: PodScrape, **pods: str) -> Reading | None:
    return scrape.read_all([Asked("chat", pods, 60)], METRICS, now=0)[0]


def until(scrape: PodScrape, done: Callable[[Reading], bool], **pods: str) -> Reading:
    """Ask again and again until the reading is so."""
    readings: list[Reading] = []

    def is_so() -> bool:
        reading = ask(scrape, **pods)
        readings.extend([] if reading is None else [reading])
        return reading is not None and done(reading)

    wait_until(is_so, PATIENCE_S, "a reading", poll_seconds=0.01)
    return readings[-1]


def failed(scrape: PodScrape, **pods: str) -> Reading:
    return until(scrape, lambda reading: reading.state is SignalState.UNAVAILABLE, **pods)


def test_a_page_becomes_a_sample_of_the_time_of_its_scrape(scrape: PodScrape, honest: FakeEngine, clock: Clock) -> None:
    """It is the time before the request, so that the sample is never too young."""
    asked_at = clock.wall

    def later(request: BaseHTTPRequestHandler) -> None:
        clock.wall += 1
        page()(request)

    honest.serve = later
    reading = until(scrape, lambda reading: "a" in reading.pods, a=HONEST)
    (sample,) = reading.pods["a"].samples
    assert sample == EngineSample(
        at=asked_at,
        kv_usage=0.5,
        waiting=3.0,
        running=4.0,
        kv_capacity_tokens=1500,
        prompt_tokens_total=900.0,
        finished_total=3.0,
        finished_output_tokens_total=300.0,
    )
    assert reading == Reading(reading.pods)
    assert set(honest.paths) == {"/metrics"}


def test_ranks_on_one_page_are_put_together() -> None:
    second = PAGE.replace('engine="0"', 'engine="1"').replace("} 0.5", "} 0.25")
    (usage,) = [one.points[1.0] for one in read_page(second, 1.0, METRICS) if one.name == METRICS.kv_usage]
    assert usage == 0.25
    with engine(page(PAGE + second)) as both:
        scrape = PodScrape(port=both.port)
        reading = until(scrape, lambda reading: "a" in reading.pods, a=HONEST)
        scrape.close()
    (sample,) = reading.pods["a"].samples
    assert (sample.kv_usage, sample.rank_usages) == (0.375, (0.5, 0.25))


def test_a_pod_is_not_scraped_more_often_than_it_should_be(honest: FakeEngine) -> None:
    scrape = PodScrape(port=honest.port, scrape_seconds=60)
    first = until(scrape, lambda reading: "a" in reading.pods, a=HONEST)
    again = [ask(scrape, a=HONEST) for _ in range(20)]
    scrape.close()
    assert again == [first] * 20
    assert len(honest.paths) == 1


def test_pods_that_are_found_together_are_spread_over_the_time_between_two_scrapes(
    honest: FakeEngine, clock: Clock
) -> None:
    """After half of it, half of them are due, then the others, and from then on each keeps its distance."""
    scrape = PodScrape(port=honest.port, scrape_seconds=100)
    pods = {f"pod-{number}": HONEST for number in range(40)}
    until(scrape, lambda reading: len(reading.pods) == len(pods), **pods)
    for seconds, scrapes in ((50.0, 60), (50.0, 80), (49.0, 100)):
        clock.now += seconds
        ask(scrape, **pods)
        wait_until(lambda: len(honest.paths) >= scrapes, PATIENCE_S, "scrapes", poll_seconds=0.01)  # noqa: B023 - at once
        assert len(honest.paths) == scrapes
    scrape.close()


def test_a_pod_is_scraped_again_when_it_is_due(scrape: PodScrape, honest: FakeEngine) -> None:
    until(scrape, lambda reading: "a" in reading.pods, a=HONEST)
    honest.serve = page(PAGE.replace("} 0.5", "} 0.75"))
    until(scrape, lambda reading: reading.pods["a"].samples[0].kv_usage == 0.75, a=HONEST)


def test_the_first_reading_does_not_wait(scrape: PodScrape) -> None:
    assert ask(scrape, a=HONEST) is None
    assert ask(scrape) == Reading()


def hang(request: BaseHTTPRequestHandler) -> None:
    """Until the other side leaves."""
    request.rfile.read(1)


def trickle(request: BaseHTTPRequestHandler) -> None:
    """A byte from time to time, until the other side leaves."""
    request.send_response(200)
    request.send_header("Content-Length", "1000000")
    request.end_headers()
    while not select([request.connection], [], [], 0.05)[0]:
        request.wfile.write(b"#")


def zipped(request: BaseHTTPRequestHandler) -> None:
    send_bytes(request, gzip.compress(b"#" * 5_000_000), Content_Encoding="gzip")


FAULTS: list[tuple[Serve, str]] = [
    (page(status=503), "it answered HTTP 503"),
    (page("", status=302), "it answered HTTP 302"),
    (page("<html>Log in</html>"), "its metrics are of another engine"),
    (page(""), "its metrics are of another engine"),
    (page("#" * (pod_scrape.MAX_PAGE_BYTES + 1)), "it sent more than 2097152 bytes"),
    (zipped, "it sent more than 2097152 bytes"),
    (page('vllm:kv_cache_usage_perc{engine="0} much\n'), "its metrics are not in Prometheus' text format"),
    (page("vllm:kv_cache_usage_perc many\n"), "its metrics are not in Prometheus' text format"),
    (
        page(f'{METRICS.kv_usage}{{engine="0"}} 1\n' * (engine_series.MOST_SERIES + 1)),
        "its metrics have more than 4096 series",
    ),
    (
        page(f'{METRICS.kv_usage}{{engine="0",junk="{"x" * 8000}"}} 1\n' * 66),
        "its metrics have series of more than 524288 characters",
    ),
    (
        page(f'{METRICS.kv_usage}{{engine="0",junk="{"x" * metrics_page.LONGEST_SERIES}"}} 1\n'),
        "its metrics have a series of more than 8192 characters",
    ),
]


@pytest.mark.parametrize(("serve", "says"), FAULTS)
def test_a_pod_with_a_fault_is_named_alone_and_costs_its_neighbour_nothing(
    scrape: PodScrape, honest: FakeEngine, serve: Serve, says: str
) -> None:
    with engine(serve, OTHER, honest.port):
        alone = failed(scrape, bad=OTHER)
        both = until(scrape, lambda reading: "good" in reading.pods, bad=OTHER, good=HONEST)
    assert (alone.state, alone.error) == (
        SignalState.UNAVAILABLE,
        f"No pod's own metrics can be read; bad: {says}",
    )
    assert (both.state, list(both.pods)) == (SignalState.FRESH, ["good"])


@pytest.mark.parametrize("serve", [hang, trickle])
def test_a_pod_that_never_ends_is_left_at_the_deadline_and_its_neighbour_is_read(
    honest: FakeEngine, serve: Serve
) -> None:
    scrape = PodScrape(port=honest.port, scrape_seconds=0.1, timeout_seconds=HURRIED_SECONDS)
    with engine(serve, OTHER, honest.port):
        alone = failed(scrape, bad=OTHER)
        both = until(scrape, lambda reading: "good" in reading.pods, bad=OTHER, good=HONEST)
        scrape.close()
    assert alone.error == "No pod's own metrics can be read; bad: it did not answer within 0.5 s"
    assert (both.state, list(both.pods)) == (SignalState.FRESH, ["good"])


def test_a_pod_that_nobody_listens_for_is_named(scrape: PodScrape) -> None:
    assert failed(scrape, gone=OTHER).error == (
        "No pod's own metrics can be read; gone: it cannot be reached (ConnectionError)"
    )


@pytest.mark.parametrize("address", ["", "no-address", "169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1"])  # noqa: S104
def test_an_address_that_is_no_pods_is_never_asked(scrape: PodScrape, address: str) -> None:
    both = until(scrape, lambda reading: "good" in reading.pods, none=address, good=HONEST)
    assert list(both.pods) == ["good"]
    assert failed(scrape, none=address).error == "No pod's own metrics can be read; none: it has no IP address"


def test_a_redirect_is_not_followed(scrape: PodScrape, honest: FakeEngine) -> None:
    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        send_bytes(request, b"", status=302, Location=f"http://{HONEST}:{honest.port}/metrics")

    with engine(elsewhere, OTHER, honest.port):
        assert failed(scrape, bad=OTHER).error.endswith("it answered HTTP 302")
    assert honest.paths == []


def test_no_proxy_of_the_environment_stands_between(
    scrape: PodScrape, honest: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{OTHER}:{honest.port}")
    monkeypatch.setenv("http_proxy", f"http://{OTHER}:{honest.port}")
    assert until(scrape, lambda reading: "a" in reading.pods, a=HONEST).error == ""


def test_a_pod_whose_address_is_anothers_now_is_read_anew(scrape: PodScrape, honest: FakeEngine) -> None:
    until(scrape, lambda reading: "a" in reading.pods, a=HONEST)
    with engine(page(PAGE.replace("} 0.5", "} 0.25")), OTHER, honest.port):
        reading = until(scrape, lambda reading: "a" in reading.pods, a=OTHER)
    assert reading.pods["a"].samples[0].kv_usage == 0.25


def test_a_pod_that_stopped_answering_is_asked_less_and_less_often(
    scrape: PodScrape, honest: FakeEngine, clock: Clock
) -> None:
    def failures() -> int:
        return sum(known.failures for known in scrape._known.values())  # noqa: SLF001 - when it has ended is not seen

    with engine(page(status=503), OTHER, honest.port) as bad:
        for times, pause in enumerate((0.1, 0.2, 0.4, 0.8), start=1):
            ask(scrape, bad=OTHER)
            wait_until(lambda: failures() == times, PATIENCE_S, f"failure {times}", poll_seconds=0.01)  # noqa: B023
            clock.now += 0.89 * pause  # each a tenth early, and not more
            ask(scrape, bad=OTHER)
            assert not _is_running(scrape)
            clock.now += 0.02 * pause
    assert len(bad.paths) == 4


def wait_for(release: Event) -> None:
    release.wait()


def test_pods_that_hang_take_no_thread_from_those_that_answer(honest: FakeEngine) -> None:
    release = Event()
    scrape = PodScrape(port=honest.port, scrape_seconds=0.1, timeout_seconds=600)
    hanging = {f"bad-{number}": f"127.0.1.{number}" for number in range(1, OTHER_THREADS + QUICK_THREADS + 1)}
    with ExitStack() as running:
        running.callback(release.set)
        until(scrape, lambda reading: "good" in reading.pods, good=HONEST)
        for address in hanging.values():
            running.enter_context(engine(lambda _: wait_for(release), address, honest.port))
        asked = len(honest.paths)
        until(scrape, lambda _: len(honest.paths) >= asked + 5, good=HONEST, **hanging)
        assert not release.is_set(), "the others still hang"
        release.set()
        scrape.close()


def test_a_reading_waits_for_none_of_a_thousand_pods_that_swallow_packets(
    scrape: PodScrape, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Event()

    def swallowed(*_: object, **__: object) -> PodSignals:
        release.wait()
        raise SourceUnavailable("nobody answered")

    monkeypatch.setattr(pod_scrape, "scraped", swallowed)
    try:
        assert ask(scrape, **{f"p-{number}": f"198.51.100.{number % 250 + 1}" for number in range(1000)}) is None
        assert not release.is_set(), "no scrape has ended"
    finally:
        release.set()


def test_a_slow_pod_gets_no_thread_of_the_quick_ones(
    scrape: PodScrape, honest: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_scrape, "QUICK_SECONDS", 0.0)
    until(scrape, lambda _: len(honest.paths) >= 3, slow=HONEST)
    assert list(scrape._quick._threads) == []  # noqa: SLF001 - who scrapes is not seen from outside
    monkeypatch.undo()
    until(scrape, lambda _: len(scrape._quick._threads) > 0, slow=HONEST)  # noqa: SLF001 - the same


def test_pods_that_nobody_asks_for_are_forgotten(scrape: PodScrape, monkeypatch: pytest.MonkeyPatch) -> None:
    until(scrape, lambda reading: "a" in reading.pods, a=HONEST)
    monkeypatch.setattr(pod_scrape, "FORGET_SECONDS", 0.0)
    ask(scrape, b=HONEST)
    assert ask(scrape, a=HONEST) is None


def test_an_engine_may_have_its_page_elsewhere(scrape: PodScrape, honest: FakeEngine) -> None:
    metrics = replace(METRICS, path="/load")

    def is_there() -> bool:
        [reading] = scrape.read_all([Asked("x", {"a": HONEST}, 60)], metrics, now=0)
        return reading is not None and bool(reading.pods)

    wait_until(is_there, PATIENCE_S, "a reading", poll_seconds=0.01)
    assert set(honest.paths) == {"/load"}


MANY = 100_000

MOST_EFFORT = 10
"""Of :func:`measured_effort`, some 50 ms. The parser takes six times as long for either line."""


@pytest.mark.parametrize(
    "junk", ["".join(f',a{number}="b"' for number in range(MANY // 4)), ',a="' + '\\"' * MANY + '"'], ids=len
)
def test_a_line_without_end_takes_no_time_of_other_pods(junk: str) -> None:
    with measured_effort() as done, pytest.raises(SourceUnavailable, match="more than"):
        read_page(f'{METRICS.kv_usage}{{engine="0"{junk}}} 1\n', 0.0, METRICS)
    assert done.amount < MOST_EFFORT


def test_a_pod_whose_page_takes_much_work_is_scraped_less_often_and_its_neighbour_is_not(
    scrape: PodScrape, honest: FakeEngine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = pod_scrape.scraped

    def working(pod: str, *how: Any, **more: Any) -> PodSignals:
        clock.worked += 1.0 if pod == "heavy" else 0.0
        return read(pod, *how, **more)

    monkeypatch.setattr(pod_scrape, "scraped", working)
    with engine(page(), OTHER, honest.port) as heavy:
        until(scrape, lambda reading: "heavy" in reading.pods, heavy=OTHER)
        for times in range(1, 4):
            until(scrape, lambda _: len(honest.paths) == times, good=HONEST, heavy=OTHER)  # noqa: B023 - used at once
            until(scrape, lambda reading: "good" in reading.pods and not _is_running(scrape), good=HONEST)
            clock.now += 0.11
        assert len(heavy.paths) == 1
        clock.now += pod_scrape.REST
        until(scrape, lambda _: len(heavy.paths) == 2, heavy=OTHER)


def _is_running(scrape: PodScrape) -> bool:
    return any(known.running for known in scrape._known.values())  # noqa: SLF001 - when it has ended is not seen


def test_what_cannot_be_read_is_said_of_the_page() -> None:
    with pytest.raises(SourceUnavailable, match="text format"):
        read_page('vllm:num_requests_waiting{engine="0"} one\n', 0.0, METRICS)
    assert read_page("vllm:unknown{ broken\n", 0.0, METRICS) == []
