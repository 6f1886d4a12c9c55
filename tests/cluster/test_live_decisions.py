"""Decisions of the live loop that need the rate and the lengths of requests, measured by a real Prometheus.

All deployments are made at once and each lives on nodes of its own. Their engines are played, and their requests come
one after another, wait, run and end. Each deployment under load has a neighbour with the same requests and no reason
for a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from testbed.engine_queue import Stream
from tests.support.installed import condition
from tests.support.live_loop import L4_POOL, TIMING, Bench, bench_of, changes, stays

pytestmark = pytest.mark.cluster

AUTO = {"mode": "Auto", "maxReplicas": 8, **TIMING, "cooldownSeconds": 600}
ONE_AT_MOST = AUTO | {"maxReplicas": 1}

LIGHT = Stream(rate=0.6, prompt=1500, output=100, first_token_seconds=0.35, token_seconds=0.073)
"""The performance model lets one L4 carry 1.15 of these requests a second; the promised time per token limits it. With
five of them at the same time a token takes 0.073 s: played as the model says, so that the loop learns nothing else."""

HEAVY, FLOOD, TRICKLE = replace(LIGHT, rate=5.0), replace(LIGHT, rate=10.0), replace(LIGHT, rate=0.4)
RUSH = replace(LIGHT, rate=120.0)
"""A long queue comes within seconds."""

LONG_QUEUE, SHORT_QUEUE = 1500, 12
"""Waiting requests. A replica serves about two a second: it would take twelve minutes for the first, which is longer
than a first start-up is taken for (five), and seconds for the second."""

CALLED_FOR = {"ArrivalsExceedCapacity", "BacklogTooLong", "SustainedQueue"}
"""What may call for replicas under a load that is too much. An operator that looks late finds the requests waiting."""

ENOUGH_ENDED = 6
LOADING_SECONDS = 90.0
COUNTED_SECONDS = 35
"""Arrivals are counted over 30 s. After this, the loop knows nothing of an earlier rate."""
PASSING_SECONDS = 90.0
QUIET_SECONDS = 10.0


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("decisions") as running:
        yield running


@pytest.fixture(scope="module")
def loaded(bench: Bench) -> Bench:
    """Light load, then a step for one, and queues for two others while they may not grow."""
    for name in ("step", "steady"):
        bench.add_nodes(name, L4=8)
        bench.deploy(name, AUTO)
    for name in ("backlog", "leftover"):
        bench.add_nodes(name, L4=6)
        bench.deploy(name, ONE_AT_MOST)
    for name in ("step", "steady", "backlog", "leftover"):
        bench.view.wait_ready(name)
        bench.stream(name, LIGHT)
    for name in ("step", "steady", "backlog", "leftover"):
        _wait_value(bench, "request_generation_tokens_count", name, ENOUGH_ENDED)
    for name, flood, length in (("leftover", FLOOD, SHORT_QUEUE), ("backlog", RUSH, LONG_QUEUE)):
        bench.stream(name, flood)
        _wait_value(bench, "num_requests_waiting", name, length)
        bench.stream(name, TRICKLE)
    bench.stream("step", HEAVY)
    return bench


def _wait_value(bench: Bench, metric: str, name: str, at_least: float) -> None:
    query = f'sum(vllm:{metric}{{pod=~"{name}-.*"}})'
    bench.view.wait(lambda: bench.prometheus.value(query) >= at_least, f"{metric} of {name}", LOADING_SECONDS)


def _wait_passed(bench: Bench, name: str) -> None:
    """Wait until no more came in the whole window than light load brings."""
    pods, window = f'{{pod=~"{name}-.*"}}', f"[{COUNTED_SECONDS}s]"
    started = f"increase(vllm:time_to_first_token_seconds_count{pods}{window})"
    query = f"sum({started} + delta(vllm:num_requests_waiting{pods}{window}))"
    most = LIGHT.rate * COUNTED_SECONDS
    bench.view.wait(lambda: bench.prometheus.value(query) <= most, f"few arrivals of {name}", PASSING_SECONDS)


def test_more_arrivals_than_a_replica_carries_add_replicas_until_all_that_they_need_are_there(loaded: Bench) -> None:
    """Arrivals are counted over some seconds, so the first of them ask for fewer replicas than the later ones."""
    loaded.view.wait(lambda: loaded.rebalancing("step").get("targetReplicas", 0) >= 4, "four replicas of step")
    made = loaded.rebalancing("step")["changes"]
    assert {each["kind"] for each in made} == {"Add"}
    assert {each["reason"] for each in made} <= CALLED_FOR


def test_the_replicas_carry_the_arrivals_and_the_figures_are_said(loaded: Bench) -> None:
    reported = loaded.wait_reason("step", "WithinBand", PASSING_SECONDS)
    wanted = reported["targetReplicas"]
    # 5.0 a second over 1.15 is 4.3, and fewer if tokens are measured to take less time than the model says. Above 8 the
    # reason would be AtMaxReplicas.
    assert 4 <= wanted <= 8
    assert loaded.settled("step") == {L4_POOL: wanted}
    notes = [
        event["note"].replace(",", "") for event in loaded.view.all("events") if event["regarding"]["name"] == "step"
    ]
    lengths = r"requests a minute with prompts of (\d+) and answers of (\d+) tokens"
    limited = [note for note in notes if "(the promised time per token limits it)" in note]
    means = [(int(found[1]), int(found[2])) for note in limited if (found := re.search(lengths, note))]
    # Scrapes that come late or not at all leave a mean a little off: on a busy machine answers of 101 were seen.
    assert any(
        prompt == pytest.approx(1500, rel=0.05) and answer == pytest.approx(100, rel=0.05) for prompt, answer in means
    ), notes


def test_arrivals_that_one_replica_carries_change_nothing(loaded: Bench) -> None:
    reported = loaded.wait_reason("steady", "WithinBand")
    assert (reported["decision"], reported["diagnosis"]) == ("Keep", "NothingToChange")
    assert "changes" not in reported
    assert loaded.settled("steady") == {L4_POOL: 1}


def test_a_long_queue_adds_a_replica_also_when_the_arrivals_have_passed(loaded: Bench) -> None:
    _wait_passed(loaded, "backlog")
    assert "changes" not in loaded.rebalancing("backlog")
    loaded.view.patch("backlog", {"rebalancing": {"maxReplicas": 3}})
    loaded.view.wait(lambda: loaded.rebalancing("backlog").get("changes"), "a change of backlog")
    reported = loaded.rebalancing("backlog")
    [made] = reported["changes"]
    assert (made["kind"], made["reason"], made["replicas"]) == ("Add", "SustainedQueue", 2)
    assert "a queue stays at replicas that all serve" in reported["lastChange"]


def test_a_queue_that_ends_by_itself_adds_nothing(loaded: Bench) -> None:
    _wait_passed(loaded, "leftover")
    since = loaded.now()
    loaded.view.patch("leftover", {"rebalancing": {"maxReplicas": 6}})
    reported = loaded.wait_reason("leftover", "WithinBand")
    assert "changes" not in reported
    stays(lambda: loaded.settled("leftover") == {L4_POOL: 1}, QUIET_SECONDS, "a replica came or went")
    assert changes(loaded.writes(since, "leftover")) == []
    assert condition(loaded.view.get("leftover"), "Ready")["status"] == "True"
