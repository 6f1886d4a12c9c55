"""The live loop on a real API server, scheduler and Prometheus: what it does, and above all what it leaves alone.

All deployments are made at once and each lives on nodes of its own, so that their waits pass together.
The tests build on one another in the order of this file. :mod:`tests.support.hurried` lets a pod count as
silent, and a queue as news, within seconds.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from testbed.audit import AuditEvent, AuditLog
from tests.support.hurried import MODULE, Wait, environment
from tests.support.installed import condition
from tests.support.live_loop import (
    CAPACITY,
    L4_POOL,
    L40S_POOL,
    PRESSURE,
    TIMING,
    Bench,
    bench_of,
    changes,
    makes_ready,
    stays,
)

pytestmark = [pytest.mark.cluster, pytest.mark.story]

AUTO = {"mode": "Auto", "maxReplicas": 3, **TIMING}
ADVICE = {key: value for key, value in TIMING.items() if key != "changesPerHour"}
TOO_SMALL = {L4_POOL: 30_000}
QUIET_SECONDS = 12.0
QUIET = {
    "spill": "WithinBand",
    "queue": "WithinBand",
    "recommend": "SustainedKvPressure",
    "full": "NoPlaceFound",
    "move": "WithinBand",
    "proposal": "PlacementTooSmall",
    "budget": "HourlyBudgetSpent",
    "cooling": "CoolingDown",
    "faulty": "AtMaxReplicas",
    "half": "MetricsStale",
}
"""Where each deployment with a live loop comes to rest under steady load, by the reason that it gives."""

RESTS = {
    "spill": {L4_POOL: 1, L40S_POOL: 1},
    "queue": {L4_POOL: 2},
    "full": {L4_POOL: 1},
    "move": {L40S_POOL: 1},
    "budget": {L4_POOL: 2},
    "cooling": {L4_POOL: 2},
    "half": {L4_POOL: 2},
}
"""Their replicas by pool at rest. A reason comes with a decision, and the pod that it ends goes later."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The bench with everything deployed; ``since`` is the audit log's end before the load set in."""

    bench: Bench
    since: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """A while under steady load: what the operator wrote, and the objects as they were before and after."""

    events: tuple[AuditEvent, ...]
    before: dict[str, dict[str, Any]]
    after: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("live", environment(Wait.SILENCE, Wait.SERVICE), module=MODULE) as running:
        yield running


@pytest.fixture(scope="module")
def beginning(bench: Bench) -> Beginning:
    for name, gpus in {
        "spill": {"L4": 1, "L40S": 2},
        "queue": {"L4": 3},
        "recommend": {"L4": 2},
        "off": {"L4": 2},
        "full": {"L4": 1},
        "move": {"L4": 1, "L40S": 2},
        "proposal": {"L4": 1, "L40S": 1},
        "budget": {"L4": 3},
        "cooling": {"L4": 3},
        "faulty": {"L4": 2},
        "half": {"L4": 2},
        "silent": {"L4": 2},
    }.items():
        bench.add_nodes(name, **gpus)
    bench.deploy("spill", AUTO)
    bench.deploy("queue", AUTO)
    bench.deploy("recommend", ADVICE)
    bench.deploy("off", ADVICE | {"mode": "Off"})
    bench.deploy("full", AUTO)
    bench.deploy("move", AUTO, TOO_SMALL)
    bench.deploy("proposal", ADVICE, TOO_SMALL)
    bench.deploy("budget", AUTO | {"changesPerHour": 1}, replicas=3)
    bench.deploy("cooling", AUTO | {"windowSeconds": 3600, "reversalsPerHour": 1}, replicas=3)
    bench.deploy("faulty", AUTO | {"maxReplicas": 1})
    bench.deploy("half", AUTO | {"minReplicas": 2}, replicas=2)
    for name in ("spill", "queue", "recommend", "off", "full", "faulty", "half"):
        bench.view.wait_ready(name)
    since = bench.now()
    for name in ("spill", "recommend", "off", "full", "faulty"):
        bench.load(name, kv_tokens=PRESSURE)
    _silence_one_of_two(bench, "half")
    return Beginning(bench, since)


def _silence_one_of_two(bench: Bench, name: str) -> None:
    """Let a pod report no more after it was seen nearly full, and take the load away from the other one.

    Only then one replica is enough: before, the loop might still decide by what it read when both were idle.
    """
    bench.load(name, kv_tokens=1.9 * CAPACITY)
    busy = f'count(vllm:kv_cache_usage_perc{{pod=~"{name}-.*"}} > 0.9)'
    bench.view.wait(lambda: bench.prometheus.value(busy) == 2, f"a scrape of both pods of {name}")
    bench.engines.drop(bench.engines.ready(f"live/{name}")[0])
    bench.load(name)
    bench.wait_reason(name, "MetricsStale")
    bench.view.patch(name, {"rebalancing": {"minReplicas": 1}})


@pytest.fixture(scope="module")
def quiet(beginning: Beginning) -> Quiet:
    """A while after everything has come to rest."""
    bench = beginning.bench
    bench.load("queue", kv_tokens=8_000, running=4, waiting=8)
    # The queue goes as soon as a replica was added for it: if it stayed, the addition would be taken back.
    bench.view.wait(lambda: sum(pool["replicas"] for pool in bench.view.pools("queue")) == 2, "an addition for queue")
    bench.load("queue", kv_tokens=1.5 * CAPACITY, running=4)
    for name, pools in RESTS.items():
        bench.wait_settled(name, pools)
    bench.wait_reasons(QUIET)
    names = (*QUIET, "off")
    before, since = {name: bench.view.get(name) for name in names}, bench.now()

    def is_calm() -> bool:
        restless = {name: bench.rebalancing(name) for name in RESTS if not bench.settled(name)}
        assert restless == {}, "replicas came or went under steady load"
        return True

    stays(is_calm, QUIET_SECONDS, "calm")
    return Quiet(tuple(bench.writes(since)), before, {name: bench.view.get(name) for name in names})


def test_sustained_pressure_adds_one_replica_on_another_gpu_where_the_first_kind_is_full(beginning: Beginning) -> None:
    bench = beginning.bench
    bench.wait_settled("spill", {L4_POOL: 1, L40S_POOL: 1})
    told = bench.rebalancing("spill")
    assert (told["baseReplicas"], told["targetReplicas"]) == (1, 2)
    assert len(told["changes"]) == 1
    assert (told["changes"][0]["kind"], told["changes"][0]["reason"]) == ("Add", "SustainedKvPressure")
    assert "2 replicas are needed and 1 replica wanted so far: 99 % of the KV cache is in use" in told["lastChange"]
    assert condition(bench.view.wait_ready("spill"), "Ready")["message"] == "2 of 2 replicas serve."


def test_pressure_per_replica_falls_and_nothing_more_happens(quiet: Quiet, bench: Bench) -> None:
    assert bench.prometheus.value('max(vllm:kv_cache_usage_perc{pod=~"spill-.*"})') == pytest.approx(
        PRESSURE / 2 / CAPACITY
    )
    [made] = quiet.after["spill"]["status"]["rebalancing"]["changes"]
    assert (made["kind"], made["replicas"]) == ("Add", 2)


def test_a_queue_at_a_replica_that_serves_for_a_while_adds_one(quiet: Quiet, bench: Bench) -> None:
    told = quiet.after["queue"]["status"]["rebalancing"]
    [made] = told["changes"]
    assert (made["kind"], made["reason"], made["replicas"]) == ("Add", "SustainedQueue", 2)
    assert "a queue stays at replicas that all serve; 8 requests wait" in told["lastChange"]
    assert bench.settled("queue") == {L4_POOL: 2}


def test_the_maximum_bounds_additions(quiet: Quiet, bench: Bench) -> None:
    told = quiet.after["faulty"]["status"]["rebalancing"]
    assert (told["decision"], told["reason"], told["targetReplicas"]) == ("Wait", "AtMaxReplicas", 1)
    assert told["message"] == "Waiting (SustainedKvPressure): there are as many replicas as allowed, 1."
    assert bench.settled("faulty") == {L4_POOL: 1}


@pytest.mark.parametrize("name", ["budget", "cooling"])
def test_a_spent_budget_and_a_recent_removal_hold_the_next_removal_back(name: str, quiet: Quiet, bench: Bench) -> None:
    told = quiet.after[name]["status"]["rebalancing"]
    [made] = told["changes"]
    assert (made["kind"], made["reason"], made["replicas"]) == ("Remove", "SustainedSlack", 2)
    assert told["message"].startswith("Waiting (SustainedSlack): ")
    assert bench.settled(name) == {L4_POOL: 2}


def test_one_silent_pod_of_two_is_no_slack(quiet: Quiet, beginning: Beginning) -> None:
    told = quiet.after["half"]["status"]["rebalancing"]
    assert "changes" not in told
    assert beginning.bench.settled("half") == {L4_POOL: 2}
    assert told["message"].endswith("1 of 2 ready replicas is known.")


def test_recommend_proposes_and_touches_nothing(quiet: Quiet, beginning: Beginning) -> None:
    told = quiet.after["recommend"]["status"]["rebalancing"]
    assert told["proposal"].startswith("Set spec.replicas to 2. 2 replicas are needed and 1 replica wanted so far: ")
    assert "changes" not in told
    assert changes(beginning.bench.writes(beginning.since, "recommend")) == []
    assert beginning.bench.settled("recommend") == {L4_POOL: 1}


def test_off_is_silent(quiet: Quiet, beginning: Beginning) -> None:
    assert "rebalancing" not in quiet.after["off"]["status"]
    assert changes(beginning.bench.writes(beginning.since, "off")) == []
    assert [event.resource for event in quiet.events if event.name.startswith("off")] == []


def test_a_replica_without_a_place_is_withdrawn_and_the_deployment_stays_ready(quiet: Quiet, bench: Bench) -> None:
    body = quiet.after["full"]
    told = body["status"]["rebalancing"]
    assert (told["decision"], told["targetReplicas"], condition(body, "Ready")["status"]) == ("Wait", 1, "True")
    assert told["message"].startswith("Waiting (SustainedKvPressure): no place was found for it; nearest: l4-24gb x 1 ")
    assert "changes" not in told
    assert body["status"]["replicasSummary"] == "1/1"
    assert "Reconciling" not in {entry["type"] for entry in body["status"]["conditions"]}
    assert len(bench.view.pods("full")) == 1


def test_an_engine_with_less_kv_cache_than_declared_is_moved_new_before_old(quiet: Quiet, beginning: Beginning) -> None:
    bench = beginning.bench
    assert bench.settled("move") == {L40S_POOL: 1}
    told = quiet.after["move"]["status"]
    assert "an engine got a KV cache of 30,000 tokens, and 48,000 are declared" in told["rebalancing"]["lastChange"]
    assert len(told["rebalancing"]["changes"]) == 1
    assert told["placement"]["gpuType"] == "l40s-48gb"
    assert [(entry["gpuType"], entry["kvTokens"]) for entry in told["tooSmall"]] == [("l4-24gb", 30_000)]

    log = AuditLog(bench.view.control_plane.audit_log).events()
    served = next(event.timestamp for event in log if makes_ready(event, f"move-{L40S_POOL}-"))
    [ended] = [event.timestamp for event in log if (event.verb, event.name) == ("delete", f"move-{L4_POOL}")]
    assert datetime.fromisoformat(served) < datetime.fromisoformat(ended)


def test_recommend_only_proposes_the_move(quiet: Quiet, bench: Bench) -> None:
    body = quiet.after["proposal"]
    told = body["status"]["rebalancing"]
    assert (told["decision"], told["reason"]) == ("Move", "PlacementTooSmall")
    assert told["proposal"].startswith("Set spec.rebalancing.mode to Auto to move. Another placement is needed: ")
    assert bench.settled("proposal") == {L4_POOL: 1}
    assert condition(body, "Planned")["reason"] == "PlacementTooSmall"


@pytest.mark.parametrize("name", [*QUIET, "off"])
def test_under_steady_load_nothing_is_changed_and_hardly_anything_written(name: str, quiet: Quiet) -> None:
    own = [event for event in quiet.events if event.name == name or event.name.startswith((f"{name}-", f"{name}."))]
    assert changes(own) == []
    assert len([event for event in own if event.resource == "inferencedeployments/status"]) <= 2
    assert quiet.after[name]["metadata"]["generation"] == quiet.before[name]["metadata"]["generation"]


def test_what_the_engines_report_is_shown_beside_what_was_predicted(quiet: Quiet, bench: Bench) -> None:
    [pool] = quiet.after["proposal"]["status"]["pools"]
    assert pool["kvTokensReported"] == 30_000
    assert pool["kvTokensPredicted"] > 48_000
    page = bench.operator.metrics()
    for name, tokens in (("proposal", 30_000), ("recommend", CAPACITY)):
        [pool] = quiet.after[name]["status"]["pools"]
        labels = f'{{name="{name}",namespace="live",pool="{L4_POOL}"}}'
        assert _value(page, f"plimsoll_reported_kv_cache_tokens{labels}") == tokens
        assert _value(page, f"plimsoll_predicted_kv_cache_tokens{labels}") == pool["kvTokensPredicted"]
        assert _value(page, f"plimsoll_estimate_error_ratio{labels}") == pytest.approx(
            pool["kvTokensPredicted"] / tokens - 1, abs=0.001
        )


def _value(page: str, series: str) -> float:
    [line] = [line for line in page.splitlines() if line.startswith(series)]
    return float(line.removeprefix(series))


def test_explain_tells_what_the_live_loop_thinks(quiet: Quiet, bench: Bench) -> None:
    config = str(bench.view.control_plane.admin_kubeconfig)
    command = [sys.executable, "-m", "plimsoll", "explain", "recommend", "-n", "live", "--kubeconfig", config]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own
    told = " ".join(answer.stdout.split())
    assert "Rebalancing: AddReplica (SustainedKvPressure)." in told
    assert f"Proposal: {quiet.after['recommend']['status']['rebalancing']['proposal']}" in told


def test_a_killed_operator_keeps_budget_and_cooldown_and_goes_on(quiet: Quiet, bench: Bench) -> None:
    since = bench.now()
    bench.operator.kill()
    bench.load("spill")
    bench.load("move", kv_tokens=PRESSURE)
    bench.operator.start().wait_healthy()

    # Slack takes the dearest replica away. Pressure adds one where the placement did not prove too small.
    bench.wait_settled("spill", {L4_POOL: 1})
    bench.wait_settled("move", {L40S_POOL: 2})
    assert len(bench.rebalancing("spill")["changes"]) == 2
    assert "1 of 2 replicas has been enough for " in bench.rebalancing("spill")["lastChange"]
    bench.wait_reasons({name: QUIET[name] for name in ("budget", "cooling")})
    for name in ("budget", "cooling"):
        told, before = bench.rebalancing(name), quiet.after[name]["status"]["rebalancing"]
        assert {**told, "message": ""} == {**before, "message": ""}
        assert bench.settled(name) == {L4_POOL: 2}
        assert changes(bench.writes(since, name)) == []


def test_additions_wait_for_no_budget_and_no_cooldown_and_one_taken_back_ends_removals(bench: Bench) -> None:
    for name in ("budget", "cooling"):
        bench.load(name, kv_tokens=2.5 * CAPACITY)
    for name in ("budget", "cooling"):
        bench.wait_settled(name, {L4_POOL: 3})
        assert [made["kind"] for made in bench.rebalancing(name)["changes"]] == ["Remove", "Add"]
        bench.load(name)
    bench.wait_reasons({"budget": "HourlyBudgetSpent", "cooling": "ReversalsSpent"})
    for name in ("budget", "cooling"):
        assert bench.settled(name) == {L4_POOL: 3}


def test_slack_never_goes_below_the_minimum(bench: Bench) -> None:
    bench.wait_reason("spill", "WithinBand")
    assert bench.settled("spill") == {L4_POOL: 1}


def test_unknown_load_changes_nothing_is_named_and_passes(bench: Bench) -> None:
    bench.wait_reason("faulty", "AtMaxReplicas")
    since = bench.now()
    bench.engines.nan()
    bench.wait_reasons({"faulty": "MetricsInvalid", "spill": "MetricsInvalid"})
    bench.load("spill", kv_tokens=PRESSURE)

    bench.engines.garbage()
    bench.deploy("silent", AUTO)
    bench.wait_reason("silent", "MetricsMissing")

    bench.prometheus.kill()
    bench.wait_reasons({"faulty": "MetricsUnavailable", "silent": "MetricsUnavailable"})
    bench.engines.stall()
    bench.prometheus.start()
    bench.wait_reason("silent", "MetricsMissing")
    bench.prometheus.pause()
    bench.wait_message("faulty", "Prometheus did not answer within 5 s.")
    bench.prometheus.resume()

    untouched = [name for name in (*QUIET, "off") if changes(bench.writes(since, name))]
    assert untouched == []

    bench.engines.heal()
    bench.wait_settled("spill", {L4_POOL: 1, L40S_POOL: 1})
    bench.wait_reasons({"faulty": "AtMaxReplicas", "silent": "WithinBand"})


def test_who_leaves_auto_keeps_what_serves_until_another_number_is_written(bench: Bench) -> None:
    """The number of the spec is 1 all along, and 2 replicas serve. A neighbour in Auto goes on as it was."""
    since, both = bench.now(), {L4_POOL: 1, L40S_POOL: 1}
    for mode in ("Recommend", "Off"):
        bench.view.patch("spill", {"rebalancing": {"mode": mode}})
        words = f"spec.replicas is 1, and 2 are kept: in mode {mode} the live loop takes back nothing"
        bench.view.wait(partial(_plan_says, bench, words), words)
        assert (bench.settled("spill"), bench.rebalancing("spill")["targetReplicas"]) == (both, 2)
    bench.operator.kill()
    bench.operator.start().wait_healthy()
    bench.view.patch("spill", {"rebalancing": {"changesPerHour": 5}})
    bench.view.wait(lambda: _is_observed(bench.view.get("spill")), "a status after the restart")
    assert bench.settled("spill") == both
    assert changes(bench.writes(since, "faulty")) == []
    bench.view.patch("spill", {"replicas": 2})
    bench.view.wait(lambda: "rebalancing" not in bench.view.get("spill")["status"], "spec.replicas as it serves")
    assert bench.settled("spill") == both
    bench.view.patch("spill", {"replicas": 1})
    bench.wait_settled("spill", {L4_POOL: 1})
    bench.wait_reason("faulty", "AtMaxReplicas")


def _plan_says(bench: Bench, words: str) -> bool:
    return words in condition(bench.view.get("spill"), "Planned")["message"]


def _is_observed(body: dict[str, Any]) -> bool:
    return bool(body["status"]["observedGeneration"] == body["metadata"]["generation"])
