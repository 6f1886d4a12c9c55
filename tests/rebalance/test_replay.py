from __future__ import annotations

import json
import math
from dataclasses import asdict
from itertools import pairwise

import pytest

from plimsoll.rebalance.signals.metrics import EngineSample
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, LoopDecision, RemoveReplica
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.policy import RebalancePolicy
from tests.rebalance.replay import MOST, STEP_SECONDS, Replay, spoiled
from tests.support.tables import every_case

HOUR_SECONDS = 3600.0
REVERSAL_SECONDS = 1800.0

HOUR = 3600
POLICY = RebalancePolicy(min_replicas=1, max_replicas=10)


def through_text(history: ChangeHistory) -> ChangeHistory:
    """Return the history after a restart: the written part."""
    read = json.loads(json.dumps(asdict(history)))["changes"]
    return ChangeHistory(tuple(ChangeRecord(**each | {"kind": ChangeKind(each["kind"])}) for each in read))


def most_in_an_hour(times: list[float]) -> int:
    """The most of these moments in any hour."""
    return max((sum(start <= at < start + HOUR_SECONDS for at in times) for start in times), default=0)


def reversals(changes: list[tuple[float, LoopDecision]]) -> list[float]:
    """The moments at which a removal was taken back."""
    return [
        later
        for (earlier, removed), (later, added) in pairwise(changes)
        if isinstance(removed, RemoveReplica) and isinstance(added, AddReplica) and later - earlier <= REVERSAL_SECONDS
    ]


def removals(changes: list[tuple[float, LoopDecision]]) -> list[float]:
    return [at for at, change in changes if isinstance(change, RemoveReplica)]


def test_a_step_of_the_load_is_answered_at_once_and_then_all_is_calm() -> None:
    replay = Replay(POLICY, lambda t: 0.3 * MOST if t < 600 else 1.6 * MOST).run(3 * HOUR)
    first, added = replay.changes[0]
    assert isinstance(added, AddReplica)
    assert 600 <= first <= 660, "within four scrapes"
    assert 2 <= replay.counts[-1] <= 4
    assert isinstance(replay.decisions[-1][1], Keep)
    assert not reversals(replay.changes)
    assert replay.changes[-1][0] < 2 * HOUR


def test_after_a_peak_the_replicas_are_given_back_and_then_all_is_calm() -> None:
    replay = Replay(POLICY, lambda t: (1.5 if t < HOUR else 0.1) * MOST).run(3 * HOUR)
    assert max(replay.counts[: HOUR // STEP_SECONDS]) > 1
    kept_until = HOUR + POLICY.cooldown_seconds
    assert min(replay.counts[HOUR // STEP_SECONDS : kept_until // STEP_SECONDS]) >= 2, "what the peak needed"
    assert removals(replay.changes)[-1] >= kept_until
    assert replay.counts[-1] == 1
    assert not reversals(replay.changes)


@every_case("percent", [5, 49, 79, 90, 100, 140, 170], most=2, always=["100"])
def test_replicas_under_a_constant_load_never_oscillate(percent: int) -> None:
    replay = Replay(POLICY, lambda _: MOST * percent / 100, replicas=2).run(2 * HOUR)
    assert not reversals(replay.changes)
    assert replay.counts[HOUR // STEP_SECONDS :] == [replay.counts[-1]] * (HOUR // STEP_SECONDS)
    assert replay.counts[-1] >= percent / 100


@pytest.mark.parametrize("usage", [math.nan, math.inf, -0.1, 1.7, 85.0])
def test_numbers_that_cannot_be_change_nothing(usage: float) -> None:
    replay = Replay(POLICY, lambda _: 5 * MOST, 2, exporter=lambda _, sample: spoiled(sample, usage)).run(HOUR)
    assert {decision.reason for _, decision in replay.decisions} == {DecisionReason.METRICS_INVALID}


def test_one_scrape_in_five_that_is_spoiled_changes_no_decision() -> None:
    def now_and_then(t: float, sample: EngineSample) -> EngineSample:
        return spoiled(sample, math.nan) if t % 75 == 0 else sample

    plain, noisy = (
        Replay(POLICY, lambda t: 0.6 * MOST if t < 600 else 2.5 * MOST, exporter=exporter).run(HOUR)
        for exporter in (lambda _, sample: sample, now_and_then)
    )
    assert noisy.counts[-1] == plain.counts[-1]
    assert not reversals(noisy.changes)


def test_gaps_and_outages_change_nothing_and_say_so() -> None:
    def gap(t: float, sample: EngineSample) -> EngineSample | None:
        return None if 1800 <= t < 2100 else sample

    replay = Replay(
        POLICY,
        lambda t: (5.0 if 1830 <= t < 2080 or 2300 <= t < 3900 else 1.5) * MOST,
        replicas=2,
        exporter=gap,
        outage=lambda t: 2250 <= t < 4000,
    ).run(4000)
    assert not [at for at, _ in replay.changes if 1870 <= at < 2100 or 2250 <= at < 4000]
    said = {decision.reason for t, decision in replay.decisions if t >= 1800}
    assert {DecisionReason.METRICS_STALE, DecisionReason.METRICS_UNAVAILABLE} <= said


def test_a_load_is_acted_on_once_the_outage_is_over() -> None:
    replay = Replay(POLICY, lambda _: 1.5 * MOST, outage=lambda t: t < HOUR).run(HOUR + 600)
    assert replay.changes[0][0] == HOUR


def test_after_an_outage_slack_must_be_seen_anew() -> None:
    replay = Replay(POLICY, lambda _: 0.1 * MOST, replicas=3, outage=lambda t: t < HOUR).run(2 * HOUR)
    assert replay.changes[0][0] >= HOUR + POLICY.cooldown_seconds - 10
    assert replay.counts[-1] == 1


@every_case(("restart_every", "allowed"), [(0, 0), (0, 1), (900, 1), (1500, 2)], most=1, always=["900-1"])
def test_a_swinging_load_is_followed_within_the_bounds(restart_every: int, allowed: int) -> None:
    """Busy for twenty minutes, idle for twenty: the worst rhythm for a loop that waits ten minutes."""
    policy = RebalancePolicy(max_replicas=10, changes_per_hour=4, reversals_per_hour=allowed, cooldown_seconds=300)
    replay = Replay(
        policy,
        lambda t: (2.5 if int(t) // 1200 % 2 else 0.1) * MOST,
        remember=through_text,
        restarts=lambda t: bool(restart_every) and t % restart_every == 0,
    ).run(3 * HOUR)
    assert most_in_an_hour(reversals(replay.changes)) <= allowed
    assert most_in_an_hour(removals(replay.changes)) <= policy.changes_per_hour
    assert bool(removals(replay.changes)) is (allowed > 0)
    assert max(replay.counts) >= 3, "the load is served whatever the bounds"


def test_a_loop_that_forgets_its_history_breaks_the_bounds() -> None:
    """The neighbour of the test above: it is the history that bounds it."""
    policy = RebalancePolicy(max_replicas=10, reversals_per_hour=1, cooldown_seconds=60)
    replay = Replay(
        policy,
        lambda t: (2.5 if int(t) // 600 % 2 else 0.1) * MOST,
        remember=lambda _: ChangeHistory(),
        restarts=lambda t: t % 600 == 0,
    ).run(3 * HOUR)
    assert most_in_an_hour(reversals(replay.changes)) > 1


def test_a_replica_that_starts_is_supply() -> None:
    replay = Replay(POLICY, lambda _: 0.97 * MOST, startup_seconds=405).run(HOUR)
    assert [type(change) for _, change in replay.changes] == [AddReplica]
    assert replay.counts[-1] == 2


def test_growth_is_followed_up_to_the_most_allowed_and_no_further() -> None:
    replay = Replay(RebalancePolicy(max_replicas=3), lambda _: 9 * MOST).run(HOUR)
    assert max(replay.counts) == 3
    assert replay.decisions[-1][1].reason is DecisionReason.AT_MAX_REPLICAS


def test_a_steady_rise_is_met_before_requests_wait() -> None:
    """Arrivals grow by a replica's worth in an hour. A queue as long as a scrape's requests never stays."""
    replay = Replay(POLICY, lambda t: MOST * (0.5 + max(0.0, t) / HOUR), startup_seconds=240).run(2 * HOUR)
    waiting = [
        int(decision.number("waiting")) for _, decision in replay.decisions if "waiting" in dict(decision.numbers)
    ]
    assert max(waiting) < 15 * MOST
    assert all(isinstance(change, AddReplica) for _, change in replay.changes)
    assert 3 <= replay.counts[-1] <= 5
