from __future__ import annotations

import json
import math
from dataclasses import asdict
from itertools import pairwise

import pytest

from plimsoll.rebalance.decisions import AddReplica, DecisionReason, Keep, RemoveReplica
from plimsoll.rebalance.history import Ceiling, ChangeHistory
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import EngineSample
from tests.rebalance.replay import CAPACITY, Replay, compute_bound, memory_bound, spoiled

HOUR = 3600
POLICY = RebalancePolicy(min_replicas=1, max_replicas=10, changes_per_hour=4, window_seconds=300, cooldown_seconds=600)


def through_text(history: ChangeHistory) -> ChangeHistory:
    """What a restart leaves of the history: what was written down."""
    read = json.loads(json.dumps(asdict(history)))
    return ChangeHistory(tuple(read["changes"]), Ceiling(**read["ceiling"]) if read["ceiling"] else None)


def test_sustained_pressure_adds_exactly_one_replica_and_then_calms() -> None:
    replay = Replay(POLICY, memory_bound(lambda t: 0.9 * CAPACITY if t > 600 else 0.3 * CAPACITY)).run(4 * HOUR)

    assert [type(decision) for _, decision in replay.changes] == [AddReplica]
    at, added = replay.changes[0]
    assert added.reason is DecisionReason.SUSTAINED_KV_PRESSURE
    assert 600 + POLICY.window_seconds - 60 <= at <= 600 + POLICY.window_seconds + 15, "not before it has lasted"
    assert isinstance(replay.decisions[-1][1], Keep)


def test_slack_after_a_peak_gives_the_replica_back_and_then_calms() -> None:
    replay = Replay(POLICY, memory_bound(lambda t: (1.5 if t < HOUR else 0.2) * CAPACITY)).run(6 * HOUR)

    assert [type(decision) for _, decision in replay.changes] == [AddReplica, RemoveReplica]
    assert replay.counts[-1] == 1


def test_usage_that_flaps_at_every_scrape_changes_at_most_once_a_cooldown() -> None:
    def flapping(t: float, sample: EngineSample) -> EngineSample:
        return spoiled(sample, 0.1 if t % 30 else 0.99)

    replay = Replay(POLICY, memory_bound(lambda _: CAPACITY), replicas=2, exporter=flapping).run(4 * HOUR)

    assert all(later - earlier >= POLICY.cooldown_seconds for (earlier, _), (later, _) in pairwise(replay.changes))
    assert not replay.changes, "neither pressure nor slack lasts"


@pytest.mark.parametrize("percent", [10, 24, 26, 49, 51, 70, 79])
def test_two_replicas_under_constant_load_never_oscillate(percent: int) -> None:
    replay = Replay(POLICY, memory_bound(lambda _: 2 * CAPACITY * percent / 100), replicas=2).run(4 * HOUR)

    assert len(replay.changes) <= 1
    assert percent < 26 or not replay.changes, "seventy percent of two does not fit one"


def test_a_queue_at_an_empty_kv_cache_adds_what_is_needed_and_never_takes_it_back() -> None:
    replay = Replay(POLICY, compute_bound(arrival_rate=9_000, replica_rate=4_000)).run(8 * HOUR)

    assert {decision.reason for _, decision in replay.changes} == {DecisionReason.SUSTAINED_QUEUE}
    assert replay.counts[-1] == 3, "9000 tokens a second over replicas of 4000"
    assert replay.decisions[-1][1].reason is DecisionReason.THROUGHPUT_NEEDED


@pytest.mark.parametrize("usage", [math.nan, math.inf, -0.1, 1.7, 85.0])
def test_numbers_that_cannot_be_change_nothing(usage: float) -> None:
    replay = Replay(POLICY, memory_bound(lambda _: 9 * CAPACITY), 2, exporter=lambda _, s: spoiled(s, usage)).run(HOUR)

    assert {decision.reason for _, decision in replay.decisions} == {DecisionReason.METRICS_INVALID}


def test_gaps_and_outages_change_nothing_and_say_so() -> None:
    def gap(t: float, sample: EngineSample) -> EngineSample | None:
        return None if 1800 <= t < 2100 else sample

    replay = Replay(
        POLICY,
        memory_bound(lambda t: (0.9 if t > 1800 else 0.6) * 2 * CAPACITY),
        replicas=2,
        exporter=gap,
        outage=lambda t: 2250 <= t < 4000,
    ).run(4000)

    assert not replay.changes, "pressure began in the gap, and no window was whole since"
    said = {decision.reason for t, decision in replay.decisions if t >= 1800}
    assert said == {
        DecisionReason.WITHIN_BAND,
        DecisionReason.METRICS_STALE,
        DecisionReason.WINDOW_NOT_COVERED,
        DecisionReason.METRICS_UNAVAILABLE,
    }


def test_pressure_is_acted_on_once_the_outage_is_over() -> None:
    replay = Replay(POLICY, memory_bound(lambda _: 0.9 * CAPACITY), outage=lambda t: t < HOUR).run(2 * HOUR)

    assert [at for at, _ in replay.changes] == [HOUR]


def test_the_hourly_budget_holds_across_restarts() -> None:
    policy = RebalancePolicy(
        min_replicas=1, max_replicas=10, cooldown_seconds=300, changes_per_hour=2, ceiling_seconds=0
    )
    swinging = memory_bound(lambda t: (5.0 if int(t) // 1200 % 2 else 0.1) * CAPACITY)

    replay = Replay(policy, swinging, remember=through_text).run(8 * HOUR)
    unbounded = Replay(policy, swinging, remember=lambda _: ChangeHistory()).run(8 * HOUR)

    times = [at for at, _ in replay.changes]
    assert len(times) >= 8
    assert all(third - first >= HOUR for first, third in zip(times, times[2:], strict=False))
    assert len(unbounded.changes) > len(times), "it is the memory that bounds it"
    assert any(decision.reason is DecisionReason.HOURLY_BUDGET_SPENT for _, decision in replay.decisions)


def test_a_slow_start_is_waited_for() -> None:
    replay = Replay(POLICY, memory_bound(lambda _: 0.9 * CAPACITY), startup_seconds=1500).run(2 * HOUR)

    assert len(replay.changes) == 1
    starting = [t for t, decision in replay.decisions if decision.reason is DecisionReason.REPLICAS_STARTING]
    assert starting
    assert len(starting) == 1500 // 15 - 1, "every round from the change until the replica serves"


def test_growth_is_followed_up_to_the_most_allowed_and_no_further() -> None:
    policy = RebalancePolicy(min_replicas=1, max_replicas=3)

    replay = Replay(policy, memory_bound(lambda _: 50 * CAPACITY)).run(4 * HOUR)

    assert max(replay.counts) == 3
    assert replay.decisions[-1][1].reason is DecisionReason.AT_MAX_REPLICAS
