"""When the time before this process is asked for, how far back, and what a failure costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from plimsoll.app.live.quiet_watch import LONGEST_SECONDS, QuietWatch, look_back_seconds
from plimsoll.app.live.wanted import WantedSamples
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.idle import Quiet
from plimsoll.rebalance.signals.metrics import PodSignals, SignalState
from plimsoll.rebalance.signals.tracks import TimeSeries
from tests.support.engine_loads import NOW, Serves, moments, track

KEY, OTHER = ObjectKey("ns", "llama"), ObjectKey("ns", "other")
METRICS = engine_of().metrics
SECONDS = look_back_seconds(1800)
TIMES = moments(1800)
ASKED = WantedSamples(("a",), metrics=METRICS, idle_seconds=1800)
EMPTY = GatewayQueue(SignalState.FRESH, (TimeSeries(TIMES, [0.0] * len(TIMES)),))


@dataclass
class Server:
    """Keeps the samples of one pod that serves nobody, by a clock that may be ahead, and those of other engines."""

    ahead: float = 0.0
    others: Mapping[str, PodSignals] | None = field(default_factory=dict)
    is_silent: bool = False
    queue: GatewayQueue = EMPTY
    asked: list[tuple[str, float, float]] = field(default_factory=list)

    def scrapes_before(
        self, namespace: str, deployment: str, metrics: EngineMetrics, *, until: float, seconds: float
    ) -> Mapping[str, PodSignals] | None:
        assert deployment in ("llama", "other")
        if metrics is not METRICS:
            return self.others
        self.asked.append((namespace, until, seconds))
        samples = track(Serves(rate=0.0, running=0, kv_usage=0.0), TIMES).samples
        seen = tuple(replace(each, at=each.at + self.ahead) for each in samples)
        return None if self.is_silent else {"a": PodSignals("a", seen)}

    def read_queue(self, namespace: str, pool: str, *, now: float, window_seconds: int) -> GatewayQueue:
        assert (namespace, pool, now, window_seconds) == ("ns", "chat", NOW, SECONDS)
        return self.queue


def test_each_object_is_asked_about_once() -> None:
    watch, server = QuietWatch(), Server()
    assert (
        watch.before(server, KEY, ASKED, NOW, 0.0)
        == watch.before(server, KEY, ASKED, NOW, 0.0)
        == Quiet(TIMES[0], TIMES[-1])
    )
    assert server.asked == [("ns", NOW, SECONDS)]
    assert watch.before(server, OTHER, ASKED, NOW, 0.0) is not None
    assert len(server.asked) == 2


def test_it_reads_the_idle_time_with_a_reversal_and_a_day_at_most() -> None:
    assert SECONDS == 1.5 * 1800 + 90
    assert look_back_seconds(604_800) == LONGEST_SECONDS


def test_a_question_that_fails_shows_nothing_and_is_not_asked_again() -> None:
    watch, server = QuietWatch(), Server(is_silent=True)
    assert watch.before(server, KEY, ASKED, NOW, 0.0) is None
    server.is_silent = False
    assert watch.before(server, KEY, ASKED, NOW, 0.0) is None
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "asked",
    [replace(ASKED, idle_seconds=None), replace(ASKED, pods=())],
    ids=["never sleeps", "nothing is ready"],
)
def test_who_cannot_go_to_zero_is_not_asked_about(asked: WantedSamples) -> None:
    watch, server = QuietWatch(), Server()
    assert watch.before(server, KEY, asked, NOW, 0.0) is None
    assert server.asked == []
    assert watch.before(server, KEY, ASKED, NOW, 0.0) is not None, "later it is"


def test_a_request_to_an_engine_that_the_object_had_before_begins_the_time_again() -> None:
    """One of vLLM serves nobody for the whole time, and one of SGLang served somebody until 900 s ago."""
    ends = NOW - 900
    busy = track(Serves(rate=1.0, running=1, kv_usage=0.1), tuple(at for at in TIMES if at <= ends))
    alone, beside = Server(), Server(others={"b": PodSignals("b", tuple(busy.samples))})
    first = QuietWatch().before(alone, KEY, ASKED, NOW, 0.0)
    then = QuietWatch().before(beside, KEY, ASKED, NOW, 0.0)
    assert first == Quiet(TIMES[0], TIMES[-1])
    assert then is not None
    assert then.since(None) >= ends - 15
    assert QuietWatch().before(Server(others=None), KEY, ASKED, NOW, 0.0) is None, "one question has no answer"


def test_a_source_without_a_past_shows_nothing() -> None:
    assert QuietWatch().before(object(), KEY, ASKED, NOW, 0.0) is None


def test_times_are_those_of_our_own_clock() -> None:
    server = Server(ahead=100.0)
    found = QuietWatch().before(server, KEY, ASKED, NOW, 100.0)
    assert found == Quiet(TIMES[0], TIMES[-1])
    assert server.asked == [("ns", NOW + 100, SECONDS)]


@pytest.mark.parametrize(("queue", "is_known"), [(EMPTY, True), (GatewayQueue(), False)], ids=["empty", "missing"])
def test_where_a_gateway_is_named_its_queue_must_be_known(queue: GatewayQueue, is_known: bool) -> None:  # noqa: FBT001
    found = QuietWatch().before(Server(queue=queue), KEY, replace(ASKED, inference_pool="chat"), NOW, 0.0)
    assert (found is not None) is is_known
