"""A real engine under a real load, and what a real Prometheus answered about it at three moments."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.cli.planning import Planned
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.turns import Running, Standing, load_of, policy_of, take_turn
from plimsoll.engines.vllm import metrics as names
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import EngineSample
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.decisions import AddReplica, LoopDecision
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.status.record.reading import Record
from testbed.binaries import ensure_binaries
from testbed.engine.server import EngineServer
from testbed.prometheus import Prometheus
from testbed.waiting import wait_until
from tests.adapters.fake_prometheus import Query, send_json, serving, success
from tests.engine.exposition import shape, value
from tests.engine.recording import Kind, Recording
from tests.engine.serving import HANGS_SECONDS, KV_BLOCKS, Servers, without_buckets
from tests.engine.steady_load import steady_load
from tests.support.hypotheses import room_for_all
from tests.support.rendered import choice_of, container_arguments

NAMESPACE, POD, POOL = "default", "qwen-7b-0", "l4-24gb-tp1"

WINDOW_S: Final = 8
"""A short window; every second of it has a scrape."""

DECLARED: Final = {
    "contextLength": 4096,
    "expectedTokens": {"prompt": 100, "output": 100},
    "rebalancing": {"windowSeconds": WINDOW_S},
}
"""16 requests of 200 tokens, or one of 4,096: what is declared has its place in the KV cache. What comes is longer."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What was known at one moment.

    Attributes:
        now: POSIX seconds.
        answers: what Prometheus answered, by query.
        page: what the engine's own ``/metrics`` said, without buckets of histograms.
    """

    now: float
    answers: Mapping[str, Any]
    page: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """An engine under load: since when it serves, and three moments.

    Attributes:
        ready_since: POSIX seconds.
        pressed: when the live loop first wanted a replica more.
        held: while the engine stood still in the midst of the load.
        idle: after the load.
    """

    ready_since: float
    pressed: Moment
    held: Moment
    idle: Moment


class Watch:
    """The operator's eyes on one pod that serves since a time (POSIX seconds)."""

    def __init__(self, planned: Planned, ready_since: float) -> None:
        self._planned = planned
        pod = PodFacts(POD, bound=True, ready=True, ended=False, terminating=False, ready_since=ready_since)
        self.around = Surroundings({POOL: (pod,)}, {})

    def read(self, moment: Moment) -> Reading:
        """What the adapter makes of the answers. A query that has none fails the test."""
        unknown: list[str] = []

        def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
            if query["query"] not in moment.answers or query["time"] != f"{moment.now:.3f}":
                unknown.append(f"{query}")
            send_json(request, success(moment.answers.get(query["query"])))

        with serving(moment.now, answer) as prometheus:
            reading = _read(prometheus.url, moment.now)
        if unknown:
            pytest.fail(f"Nothing is recorded for {unknown}. `make record-engine` asks the real engine.", pytrace=False)
        return reading

    def newest(self, reading: Reading) -> EngineSample:
        """The newest sample; it is complete."""
        newest = reading.pods[POD].samples[-1]
        assert newest.kv_usage is not None
        return newest

    def turn(self, reading: Reading, now: float) -> LoopDecision:
        """What the live loop decides."""
        spec = self._planned.resource.spec
        standing = Standing.read(spec, Record())
        what_if = room_for_all(standing.target_replicas)
        return take_turn(spec, standing, self._running(), self.around, reading, what_if, now=now).decision

    def load(self, reading: Reading, now: float) -> LoadSummary:
        """The figures behind it."""
        policy = policy_of(self._planned.resource.spec)
        return load_of(self._running(), self.around, reading, policy, ChangeHistory(), now=now)

    def _running(self) -> Running:
        """Nothing is known of the speed of a CPU, so the cache and the queue decide."""
        return Running(choice_of(self._planned).estimate)


def load_on(recording: Recording, servers: Servers, planned: Planned) -> Loaded:
    """Serve what is rendered of a plan, load it, and take it away again."""

    def put(questions: Any) -> list[dict[str, Any]]:
        return [asdict(_load(servers, planned, question["arguments"])) for question in questions]

    question = {"arguments": container_arguments(planned), "kv_blocks": KV_BLOCKS, "window": WINDOW_S}
    (answer,) = recording.answers(Kind("under_load", put, _lasting), [question])
    moments = {name: Moment(**answer[name]) for name in ("pressed", "held", "idle")}
    return Loaded(answer["ready_since"], **moments)


def _lasting(answer: Mapping[str, Any]) -> Any:
    moments = [answer[name] for name in ("pressed", "held", "idle")]
    return [(sorted(moment["answers"]), shape(moment["page"].splitlines())) for moment in moments]


def _load(servers: Servers, planned: Planned, arguments: list[str]) -> Loaded:
    with servers.make(arguments, kv_blocks=KV_BLOCKS) as server, _scraped(server) as prometheus:
        since = time.time()
        with steady_load(server):
            pressed = _when_more_is_wanted(server, prometheus, Watch(planned, since))
            # Requests that wait are pressure at once; on a slow machine the running ones need more too a while later.
            wait_until(lambda: value(server.metrics(), names.PREEMPTIONS_TOTAL) > 0, HANGS_SECONDS, "a preemption")
            with server.engine_held():
                held = _when_it_stands_still(server, prometheus)
        return Loaded(since, pressed, held, _when_it_stands_still(server, prometheus))


@contextmanager
def _scraped(server: EngineServer) -> Iterator[Prometheus]:
    directory = server.log.parent / "prometheus"
    target = urlsplit(server.url).netloc
    prometheus = Prometheus(ensure_binaries(), directory, [target])
    # An engine does not know its pod. In a cluster the target's labels say it, and so they do here.
    written = directory / "prometheus.yaml"
    configuration = yaml.safe_load(written.read_text())
    (job,) = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [target], "labels": {"namespace": NAMESPACE, "pod": POD}}]
    written.write_text(yaml.safe_dump(configuration))
    with prometheus:
        yield prometheus


def _read(url: str, now: float) -> Reading:
    return PrometheusSignals(url).read(NAMESPACE, [POD], window_seconds=WINDOW_S, now=now)


def _moment(server: EngineServer, prometheus: Prometheus) -> tuple[Moment, Reading]:
    """What the operator reads now, and all that was answered to it."""
    now, answers = time.time(), dict[str, Any]()

    def pass_on(request: BaseHTTPRequestHandler, query: Query) -> None:
        answers[query["query"]] = prometheus.ask("query", **query)
        send_json(request, success(answers[query["query"]]))

    with serving(now, pass_on) as between:
        reading = _read(between.url, now)
    return Moment(now, answers, "\n".join(without_buckets(server.metrics())) + "\n"), reading


def _when_more_is_wanted(server: EngineServer, prometheus: Prometheus, watch: Watch) -> Moment:
    asked: list[LoopDecision] = []

    def wants_more() -> Moment | None:
        moment, reading = _moment(server, prometheus)
        asked.append(watch.turn(reading, moment.now))
        return moment if isinstance(asked[-1], AddReplica) else None

    moment = wait_until(wants_more, HANGS_SECONDS, "a decision for another replica", poll_seconds=0.5)
    assert moment is not None
    return moment


def _when_it_stands_still(server: EngineServer, prometheus: Prometheus) -> Moment:
    """Once two of the engine's answers are the same, what is read of a later scrape."""
    asked: list[str] = [""]

    def is_still() -> bool:
        asked.append(_load_lines(server))
        return asked[-1] == asked[-2]

    wait_until(is_still, HANGS_SECONDS, "an engine that stands still", poll_seconds=0.5)
    still = time.time()

    def seen_since() -> Moment | None:
        moment, reading = _moment(server, prometheus)
        signals = reading.pods.get(POD)
        found = [sample for sample in (signals.samples if signals else ()) if sample.at > still]
        return moment if found and found[-1].kv_usage is not None else None

    moment = wait_until(seen_since, HANGS_SECONDS, "a scrape of the engine that stands still")
    assert moment is not None
    return moment


def _load_lines(server: EngineServer) -> str:
    wanted = tuple(name for name in names.METRICS.names if name != names.CACHE_CONFIG_INFO)
    return "\n".join(line for line in server.metrics().splitlines() if line.startswith(wanted))
