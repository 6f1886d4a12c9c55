"""Does the operator see, through a real Prometheus, what a real engine under load says of itself, and act on it?

Everything on the way is real: the engine, its metrics, the scrapes and the query API. What Prometheus answered at three
moments is recorded. The adapter and the rebalancing read it in every run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from plimsoll.adapters.prometheus.engine_series import pod_signals
from plimsoll.adapters.prometheus.pod_scrape import read_page
from plimsoll.cli.planning import Planned
from plimsoll.decision.observing import reported_now
from plimsoll.engines.vllm import metrics as names
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import EngineSample, SignalState
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, LoopDecision
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from tests.engine.exposition import labels, value
from tests.engine.recording import Recording
from tests.engine.serving import KV_BLOCKS, TINY_MODEL, Servers
from tests.engine.watching import DECLARED, POD, POOL, Moment, Watch, load_on
from tests.support.rendered import tiny_twin


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
    page: str
    read: EngineSample


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of the load: the loop's first decision for more, and the figures behind it; then both comparisons."""

    decision: LoopDecision
    load: LoadSummary
    reported: dict[str, int]
    held: Said
    idle: Said


@pytest.fixture(scope="module")
def planned() -> Planned:
    return tiny_twin("05-rebalancing", TINY_MODEL, DECLARED)


@pytest.fixture(scope="module")
def seen(planned: Planned, recording: Recording, servers: Servers) -> Seen:
    loaded = load_on(recording, servers, planned)
    watch = Watch(planned, loaded.ready_since)
    reading = watch.read(loaded.pressed)
    return Seen(
        watch.turn(reading, loaded.pressed.now),
        watch.load(reading, loaded.pressed.now),
        reported_now(watch.around, reading),
        _compared(watch, loaded.held),
        _compared(watch, loaded.idle),
    )


def _compared(watch: Watch, moment: Moment) -> Said:
    page = moment.page
    return Said(
        usage=value(page, names.KV_CACHE_USAGE),
        running=value(page, names.REQUESTS_RUNNING),
        waiting=value(page, names.REQUESTS_WAITING),
        preemptions=value(page, names.PREEMPTIONS_TOTAL),
        prompt_tokens=value(page, names.PROMPT_TOKENS_TOTAL),
        generation_tokens=value(page, names.GENERATION_TOKENS_TOTAL),
        capacity=int(labels(page, names.CACHE_CONFIG_INFO)[names.KV_CACHE_SIZE_TOKENS_LABEL]),
        page=page,
        read=watch.newest(watch.read(moment)),
    )


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


@pytest.mark.parametrize("moment", ["held", "idle"])
def test_the_engines_own_page_is_read_as_prometheus_answers(seen: Seen, moment: str) -> None:
    said: Said = getattr(seen, moment)
    series = read_page(said.page, said.read.at, names.METRICS)
    assert pod_signals(POD, series, names.METRICS).samples == (said.read,)


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
    assert isinstance(seen.decision, AddReplica)
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
