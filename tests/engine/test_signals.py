"""Does the operator see, through a real Prometheus, what a real engine under load says of itself, and act on it?

Everything on the way is real: the engine, its metrics, the scrapes, the query API, the adapter and the rebalancing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from plimsoll.adapters.prometheus import PrometheusSignals
from plimsoll.adapters.readings import Reading
from plimsoll.app.capacities import told_now
from plimsoll.app.objects import Surroundings
from plimsoll.app.rebalancing import Running, Standing, load_of, policy_of, take_turn
from plimsoll.app.record.reading import Record
from plimsoll.cli.planning import Planned
from plimsoll.engines.vllm import metrics as names
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.rebalance.decisions import AddReplica, DecisionReason, LoopDecision
from plimsoll.rebalance.history import ChangeHistory
from plimsoll.rebalance.load import LoadSummary
from plimsoll.rebalance.signals import EngineSample, SignalState
from testbed.binaries import ensure_binaries
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from testbed.engine.server import EngineServer
from testbed.prometheus import Prometheus
from testbed.waiting import NotInTime, wait_until
from tests.engine.conftest import KV_BLOCKS, MakeServer
from tests.engine.exposition import labels, value
from tests.engine.steady_load import steady_load
from tests.support.hypotheses import room_for_all
from tests.support.rendered import choice_of, container_arguments, tiny_twin

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NAMESPACE, POD, POOL = "default", "qwen-7b-0", "l4-24gb-tp1"

WINDOW_S = 8
"""A short window; every second of it has a scrape."""

DECLARED = {
    "contextLength": 4096,
    "expectedTokens": {"prompt": 100, "output": 100},
    "rebalancing": {"windowSeconds": WINDOW_S},
}
"""16 requests of 200 tokens, or one of 4,096: what is declared has its place in the KV cache. What comes is longer."""

PATIENCE_S = 90.0


PREEMPTION_SECONDS = 120.0
"""Far more than the load takes to fill the cache, on a machine that is busy with other things."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the engine itself said at one moment, and the newest sample that the adapter read of the same state."""

    usage: float
    running: float
    waiting: float
    preemptions: float
    prompt_tokens: float
    generation_tokens: float
    capacity: int
    read: EngineSample


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of the load: the loop's first decision for more, and the figures behind it; then both comparisons."""

    decision: LoopDecision
    load: LoadSummary
    reported: dict[str, int]
    held: Said
    idle: Said


class Watch:
    """The operator's eyes on one pod."""

    def __init__(self, planned: Planned, signals: PrometheusSignals) -> None:
        self._planned = planned
        self._signals = signals
        pod = PodFacts(POD, bound=True, ready=True, ended=False, terminating=False, ready_since=time.time())
        self.around = Surroundings({POOL: (pod,)}, {})

    def read(self) -> Reading:
        return self._signals.read(NAMESPACE, [POD], window_seconds=WINDOW_S, now=time.time())

    def newest(self, after: float) -> EngineSample | None:
        """The newest complete sample, once there is one of a scrape after that time."""
        signals = self.read().pods.get(POD)
        found = [sample for sample in (signals.samples if signals else ()) if sample.at > after]
        return found[-1] if found and found[-1].kv_usage is not None else None

    def turn(self, reading: Reading) -> LoopDecision:
        spec = self._planned.resource.spec
        standing = Standing.read(spec, Record())
        what_if = room_for_all(standing.target_replicas)
        return take_turn(spec, standing, self._running(), self.around, reading, what_if, now=time.time()).decision

    def load(self, reading: Reading) -> LoadSummary:
        policy = policy_of(self._planned.resource.spec)
        return load_of(self._running(), self.around, reading, policy, ChangeHistory(), now=time.time())

    def _running(self) -> Running:
        """Nothing is known of the speed of a CPU, so the cache and the queue decide."""
        return Running(choice_of(self._planned).estimate)


@pytest.fixture(scope="module")
def planned(tiny_model: Path) -> Planned:
    return tiny_twin("05-rebalancing", tiny_model, DECLARED)


@pytest.fixture(scope="module")
def server(planned: Planned, make_server: MakeServer) -> Iterator[EngineServer]:
    with make_server(container_arguments(planned), kv_blocks=KV_BLOCKS) as running:
        yield running


@pytest.fixture(scope="module")
def watch(planned: Planned, server: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    directory = tmp_path_factory.mktemp("prometheus")
    target = urlsplit(server.url).netloc
    prometheus = Prometheus(ensure_binaries(), directory, [target])
    # An engine does not know its pod. In a cluster the target's labels say it, and so they do here.
    written = directory / "prometheus.yaml"
    configuration = yaml.safe_load(written.read_text())
    (job,) = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [target], "labels": {"namespace": NAMESPACE, "pod": POD}}]
    written.write_text(yaml.safe_dump(configuration))
    with prometheus:
        yield Watch(planned, PrometheusSignals(prometheus.url))


@pytest.fixture(scope="module")
def seen(server: EngineServer, watch: Watch) -> Seen:
    with steady_load(server):
        reading, decision = _until_more_is_wanted(watch)
        load, reported = watch.load(reading), told_now(watch.around, reading)
        # Requests that wait are pressure at once; a slow machine takes a while until the running ones need more too.
        wait_until(lambda: value(server, names.PREEMPTIONS_TOTAL) > 0, PREEMPTION_SECONDS, "a preemption")
        with server.engine_held():
            held = compare(server, watch)
    return Seen(decision, load, reported, held, compare(server, watch))


def _until_more_is_wanted(watch: Watch) -> tuple[Reading, LoopDecision]:
    asked: list[tuple[Reading, LoopDecision]] = []

    def wants_more() -> bool:
        reading = watch.read()
        asked.append((reading, watch.turn(reading)))
        return isinstance(asked[-1][1], AddReplica)

    try:
        wait_until(wants_more, PATIENCE_S, "a decision for another replica", poll_seconds=0.5)
    except NotInTime as error:
        raise NotInTime(f"{error}; the last decision was {asked[-1][1]}") from error
    return asked[-1]


def compare(server: EngineServer, watch: Watch) -> Said:
    """What the engine says, once two of its answers are the same, and what the adapter reads of a later scrape."""
    asked: list[str] = [""]

    def is_still() -> bool:
        asked.append(_load_lines(server))
        return asked[-1] == asked[-2]

    wait_until(is_still, PATIENCE_S, "an engine that stands still", poll_seconds=0.5)
    still = time.time()
    read = wait_until(lambda: watch.newest(still), PATIENCE_S, "a scrape of the engine that stands still")
    assert read is not None
    return Said(
        usage=value(server, names.KV_CACHE_USAGE),
        running=value(server, names.REQUESTS_RUNNING),
        waiting=value(server, names.REQUESTS_WAITING),
        preemptions=value(server, names.PREEMPTIONS_TOTAL),
        prompt_tokens=value(server, names.PROMPT_TOKENS_TOTAL),
        generation_tokens=value(server, names.GENERATION_TOKENS_TOTAL),
        capacity=int(labels(server, names.CACHE_CONFIG_INFO)[names.KV_CACHE_SIZE_TOKENS_LABEL]),
        read=read,
    )


def _load_lines(server: EngineServer) -> str:
    wanted = tuple(name for name in names.ENGINE_METRICS if name != names.CACHE_CONFIG_INFO)
    return "\n".join(line for line in server.metrics().splitlines() if line.startswith(wanted))


@pytest.mark.parametrize("moment", ["held", "idle"])
def test_the_adapter_reads_what_the_engine_says(seen: Seen, moment: str) -> None:
    said: Said = getattr(seen, moment)
    assert said.read.kv_usage == said.usage
    assert said.read.running == said.running
    assert said.read.waiting == said.waiting
    assert said.read.preemptions_total == said.preemptions
    assert said.read.prompt_tokens_total == said.prompt_tokens
    assert said.read.generation_tokens_total == said.generation_tokens
    assert said.read.kv_capacity_tokens == said.capacity == KV_BLOCKS * CPU_BLOCK_TOKENS


def test_the_pressure_is_real_and_seen(seen: Seen) -> None:
    read = seen.held.read
    assert read.kv_usage is not None
    assert 0.5 < read.kv_usage <= 1.0
    assert read.waiting is not None
    assert read.waiting > 0
    assert read.preemptions_total is not None
    assert read.preemptions_total > 0
    # Whole blocks of those that requests can have: the null block is in the capacity and not in the share.
    assert (read.kv_usage * (KV_BLOCKS - 1)) == pytest.approx(round(read.kv_usage * (KV_BLOCKS - 1)))


def test_used_tokens_are_the_engines_share_of_its_own_capacity(seen: Seen) -> None:
    assert seen.load.state is SignalState.FRESH
    assert seen.load.held_tokens == seen.held.capacity
    assert seen.load.traffic is not None
    blocks = seen.load.traffic.used_tokens / seen.held.capacity * (KV_BLOCKS - 1)
    assert math.isclose(blocks, round(blocks), abs_tol=1e-6 * KV_BLOCKS)


def test_the_loop_wants_a_replica_for_the_load_and_says_why(seen: Seen) -> None:
    assert seen.decision.reason in {DecisionReason.SUSTAINED_KV_PRESSURE, DecisionReason.SUSTAINED_QUEUE}
    traffic = seen.load.traffic
    assert traffic is not None
    assert traffic.waiting > 0 or traffic.used_tokens > 0.8 * seen.load.held_tokens
    assert traffic.running > 0


def test_the_pools_capacity_is_what_the_engine_reports(seen: Seen) -> None:
    assert seen.reported == {POOL: seen.held.capacity}


def test_the_load_is_gone_when_the_requests_are(seen: Seen) -> None:
    assert (seen.idle.usage, seen.idle.running, seen.idle.waiting) == (0, 0, 0)
    assert seen.idle.generation_tokens > seen.held.generation_tokens
