"""A pass describes one deployment: its report, its objects, the signals that it wants, and the planner's view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.app.live.season_watch import DaysWanted
from plimsoll.app.live.wanted import (
    CAPACITY_WINDOW_SECONDS,
    HISTORY_SECONDS,
    STALE_MEMORY_SECONDS,
    wanted_signals,
)
from plimsoll.decision import observing
from plimsoll.decision.deployment import Contest, RefusedWrite, Writes
from plimsoll.decision.kept import ChangedRequests
from plimsoll.decision.lessons import CommonLessons
from plimsoll.decision.outcome import Observed
from plimsoll.decision.planning import figures_of, tenant_of
from plimsoll.decision.pools import placed_now
from plimsoll.decision.results.manifests import manifests_of
from plimsoll.decision.results.reports import is_passing, report_of, seconds_allowed
from plimsoll.decision.reuse_hint import ReuseHint
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.turns import stray_of
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.public_words import ConditionReason
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.demands.failed_moves import Delay
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, SeenAnswers, as_it_is
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.feasibility import sized
from plimsoll.placement.plan import plan
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.replacement import Replacement
from plimsoll.status.record.reading import record_of
from plimsoll.status.record.report import DeploymentProblem
from tests.api.manifests import deployment
from tests.support.bodies import inference_deployment_body
from tests.support.outcomes import NOTHING_RUNS, deployment_of, identity_of, outcome_of, ready_of
from tests.support.planning import H100, L4, L40S, fleet, gpu, node, pool, request, tenant

PLACED = plan([tenant(request(replicas=2))], fleet(node("h", H100)))[0]


def digest(**changed: Any) -> str:
    body = inference_deployment_body("chat")
    body["spec"] = {"model": {"name": "a/b"}, "contextLength": 4096, **changed}
    return identity_of(body).digests.engine


@pytest.mark.parametrize("changed", [{"replicas": 7}, {"suspend": True}, {"gpu": {"deny": ["t4-16gb"]}}], ids=str)
def test_how_many_and_where_does_not_bear_on_memory(changed: dict[str, Any]) -> None:
    assert digest(**changed) == digest()


@pytest.mark.parametrize("changed", [{"contextLength": 9}, {"engine": {"enforceEager": True}}], ids=str)
def test_how_an_engine_is_run_does(changed: dict[str, Any]) -> None:
    assert digest(**changed) != digest()


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Serving",
    "message": "1 of 1 replica serves.",
    "lastTransitionTime": "2026-11-21T03:00:00Z",
    "observedGeneration": 1,
}
POOL = {
    "name": "h100-sxm-80gb-tp1",
    "gpuType": "h100-sxm-80gb",
    "tensorParallel": 1,
    "nodeSelector": {"nvidia.com/gpu.product": "H100"},
    "resource": "nvidia.com/gpu",
    "state": "Active",
    "generation": 1,
    "replicas": 1,
    "readyReplicas": 0,
}


def said(problem: DeploymentProblem, **status: Any) -> bool:
    """Whether a problem comes into a status that says something already."""
    body = inference_deployment_body("chat")
    body["status"] = {"conditions": [READY], **status}
    return not is_passing(outcome_of(deployment_of(body), problem=problem))


@pytest.mark.parametrize("reason", [ConditionReason.TOKEN_SECRET_MISSING, ConditionReason.MODEL_SOURCE_UNAVAILABLE])
def test_what_an_object_without_a_placement_waits_for_is_said_at_once(reason: ConditionReason) -> None:
    waiting = DeploymentProblem(reason, "Secret ns/hf does not exist yet.", permanent=False)
    assert said(waiting)
    assert said(waiting, pools=[POOL], observedGeneration=0)
    assert not said(waiting, pools=[POOL], observedGeneration=1)


def test_a_first_look_up_does_not_replace_an_earlier_word() -> None:
    assert not said(DeploymentProblem(ConditionReason.RESOLVING_MODEL, "Reading.", permanent=False))


def test_what_somebody_must_mend_is_said_even_of_what_serves() -> None:
    refused = DeploymentProblem(ConditionReason.TOKEN_SECRET_UNREADABLE, "Grant it.", permanent=True)
    assert said(refused, pools=[POOL], observedGeneration=1)


def test_the_window_is_that_of_the_loop_and_a_short_one_where_the_loop_is_off_or_the_spec_is_unread() -> None:
    def window(mode: str | None, seconds: int = 300) -> int:
        given = None if mode is None else deployment(rebalancing={"mode": mode, "windowSeconds": seconds})
        return wanted_signals(deployment_of(resource=given)).window_seconds

    assert (window(None), window("Off")) == (CAPACITY_WINDOW_SECONDS, CAPACITY_WINDOW_SECONDS)
    assert (window("Recommend"), window("Auto")) == (HISTORY_SECONDS, HISTORY_SECONDS)
    assert window("Auto", 3600) == 3600 + STALE_MEMORY_SECONDS


def test_signals_are_wanted_of_ready_pods_with_their_addresses() -> None:
    facts = PodFacts("a", bound=True, ready=True, ended=False, terminating=False, address="10.0.0.7")
    pods = (facts, replace(facts, name="b", address=""), replace(facts, name="c", ready=False))
    wanted = wanted_signals(deployment_of(around=Surroundings({"p": pods}, {})))

    assert (wanted.pods, wanted.addresses) == (("a", "b"), {"a": "10.0.0.7"})


@pytest.mark.parametrize(
    ("mode", "startup", "wanted"),
    [
        ("Auto", 400.0, DaysWanted(400.0, 2200.0)),
        ("Recommend", 400.0, DaysWanted(400.0, 2200.0)),
        ("Off", 400.0, None),
        ("Auto", None, None),
    ],
)
def test_the_days_before_are_wanted_where_a_start_up_was_seen(
    mode: str, startup: float | None, wanted: DaysWanted | None
) -> None:
    facts = PodFacts("a", bound=True, ready=True, ended=False, terminating=False, startup_seconds=startup)
    around, pools = Surroundings({"h100-tp1": (facts,)}, {}), (replace(pool(H100), name="h100-tp1"),)
    given = deployment_of(around=around, resource=deployment(rebalancing={"mode": mode}), pools=pools)
    assert wanted_signals(given).days == wanted


@pytest.mark.parametrize(
    ("rebalancing", "wanted"),
    [
        ({"mode": "Auto", "minReplicas": 0, "idleSeconds": 600}, 600),
        ({"mode": "Auto", "minReplicas": 0}, 1800),
        ({"mode": "Auto", "minReplicas": 1}, None),
        ({"mode": "Recommend", "minReplicas": 0}, None),
    ],
)
def test_the_time_without_requests_is_wanted_where_the_last_replica_may_go(
    rebalancing: dict[str, Any], wanted: float | None
) -> None:
    resource = deployment(rebalancing={"maxReplicas": 3, "wake": "Manual", **rebalancing})
    given = deployment_of(resource=resource, pools=(replace(pool(H100), name="h100-tp1"),))
    assert wanted_signals(given).idle_seconds == wanted


@pytest.mark.parametrize(("declared", "shown"), [(3, 3), ("many", 0), (None, 0)])
def test_an_object_that_cannot_be_read_shows_the_replicas_that_it_declares(declared: object, shown: int) -> None:
    body = inference_deployment_body("chat", spec={"replicas": declared})
    assert report_of(outcome_of(deployment_of(body)), 0.0).replicas == shown


def running(
    *, pools: list[dict[str, Any]], observed: int = 1, concurrency: int = 8, says_number: bool = True
) -> tuple[str, tuple[Pool, ...]]:
    """The digest and the pools of a deployment whose status says that its engines run 8 requests at the same time."""
    spec = {"model": {"name": "a/b"}, "contextLength": 4096, "concurrency": concurrency}
    engine = {
        "maxModelLen": 4096, "maxNumSeqs": 8, "maxNumBatchedTokens": 2048, "gpuMemoryUtilizationPercent": 92,
        "dtype": "bfloat16", "kvCacheDtype": "auto", "enforceEager": False, "version": "0.32.0",
    }  # fmt: skip
    placement = {
        "gpuType": H100, "nodeSelector": {"nvidia.com/gpu.product": "H100"}, "tensorParallel": 1,
        "pipelineParallel": 1, "gpusPerReplica": 1, "engine": engine,
    }  # fmt: skip
    body = inference_deployment_body("chat", spec=spec)
    body["status"] = {"observedGeneration": observed, "placement": placement if says_number else None, "pools": pools}
    identity = identity_of(body)
    record, now, grace = record_of(body), 0.0, 10.0
    placed = placed_now(identity, record, NOTHING_RUNS, wanted=1, concurrency=concurrency, now=now, grace_seconds=grace)
    return identity.digests.engine, placed.pools


def test_engines_are_compared_in_the_status_only_of_a_deployment_that_leaves_the_choice() -> None:
    named = deployment_of()
    assert report_of(outcome_of(named), 0.0).engines is None
    left_open = replace(named, asked=replace(named.asked, chooses_engine=True))
    assert report_of(outcome_of(left_open), 0.0).engines == (), "nothing is decided yet"
    [offer] = report_of(outcome_of(left_open, decision=PLACED), 0.0).engines or ()
    assert (offer.engine, report_of(outcome_of(named, decision=PLACED), 0.0).engines) == ("vllm", None)


def test_engines_of_an_earlier_release_keep_the_number_that_they_were_started_with() -> None:
    digest_of_spec, [seen] = running(pools=[POOL])
    assert (seen.limits.sequences, seen.spec) == (8, digest_of_spec)
    _, [scaled] = running(pools=[POOL], observed=0)
    assert (scaled.limits.sequences, scaled.spec) == (8, digest_of_spec)


def test_a_load_that_changed_since_then_is_judged_anew() -> None:
    _, [changed] = running(pools=[POOL], observed=0, concurrency=12)
    assert (changed.limits.sequences, changed.spec) == (0, "")


def test_engines_of_an_unknown_number_are_not_taken_for_those_of_this_spec() -> None:
    _, [unknown] = running(pools=[POOL], says_number=False)
    assert (unknown.limits.sequences, unknown.spec) == (0, "")


def test_a_pool_that_has_its_own_number_keeps_it() -> None:
    _, [seen] = running(pools=[{**POOL, "maxSequences": 24, "spec": "digest"}])
    assert (seen.limits.sequences, seen.spec) == (24, "digest")


def test_a_digest_that_an_earlier_release_wrote_into_a_status_still_counts() -> None:
    assert digest() == "b8cbf930604d"


@pytest.mark.parametrize(
    ("mode", "suspend", "shown"), [("Off", False, (True, False)), ("Auto", True, (False, True))], ids=str
)
def test_the_report_says_whether_the_loop_is_off_and_the_object_suspended(
    mode: str,
    suspend: bool,  # noqa: FBT001 - a table's column
    shown: tuple[bool, bool],
) -> None:
    unread = report_of(outcome_of(), 0.0)
    assert (unread.rebalancing_off, unread.suspended, unread.engine_version) == (False, False, "")
    resource = deployment(rebalancing={"mode": mode, "maxReplicas": 3}, suspend=suspend)
    report = report_of(outcome_of(deployment_of(resource=resource)), 0.0)
    assert (report.rebalancing_off, report.suspended) == shown
    assert report.engine_version == resource.spec.engine.release_name


@pytest.mark.parametrize("passing", [True, False])
def test_the_report_quotes_what_the_api_server_refused(passing: bool) -> None:  # noqa: FBT001
    report = report_of(outcome_of(), 0.0)
    assert (report.refused, report.refusal_passes) == ("", False)
    refusal = RefusedWrite("apply Deployment ns/chat", "", 403, "exceeded quota", 0.0, is_passing=passing)
    report = report_of(outcome_of(deployment_of(writes=Writes(refusal=refusal))), 0.0)
    assert "apply Deployment ns/chat: exceeded quota" in report.refused
    assert report.refusal_passes is passing


@pytest.mark.parametrize(
    ("rebalancing", "replicas", "is_asleep"),
    [
        ({"mode": "Auto", "minReplicas": 0, "maxReplicas": 3}, 0, True),
        ({"mode": "Auto", "minReplicas": 0, "maxReplicas": 3}, 1, False),
        ({"mode": "Recommend", "minReplicas": 0, "maxReplicas": 3}, 0, False),
        ({"mode": "Auto", "minReplicas": 1, "maxReplicas": 3}, 0, False),
        ({"mode": "Auto", "minReplicas": 1, "maxReplicas": 3}, 2, False),
    ],
)
def test_only_the_loop_lets_a_deployment_sleep(rebalancing: dict[str, Any], replicas: int, is_asleep: bool) -> None:  # noqa: FBT001
    gateway = {"gateway": {"inferencePool": "chat"}} if rebalancing["minReplicas"] == 0 else {}
    resource = deployment(replicas=replicas, rebalancing=rebalancing | gateway)
    given = deployment_of(resource=resource)
    found = report_of(outcome_of(given, request=request(replicas=replicas)), 0.0).asleep
    assert bool(found) is is_asleep
    assert ("What starts one: " in found) is is_asleep


def test_the_report_says_who_scales_a_deployment_and_what_was_decided_for_it() -> None:
    contests = ((PLACED.pools[0].name, Contest("ns/chat-h100", "hpa", 3, 9, 0.0, 0.0)),)
    given = deployment_of(writes=Writes(contests=contests))
    assert "Plimsoll wants 0 " in report_of(outcome_of(given), 0.0).contested
    said = report_of(outcome_of(given, decision=PLACED), 0.0).contested
    assert "hpa set spec.replicas of Deployment ns/chat-h100 to 9" in said
    assert "Plimsoll wants 2 " in said


def test_the_planner_sees_the_generation_the_pools_and_whether_the_object_is_suspended() -> None:
    body, wanted = inference_deployment_body("chat"), request()
    body["metadata"]["generation"] = 7
    given = deployment_of(body, resource=deployment(suspend=True), pools=(pool(H100),))
    tenant = tenant_of(ready_of(given, wanted))
    assert (tenant.request, tenant.generation, tenant.pools) == (wanted, 7, given.placed.pools)
    assert (tenant.suspended, tenant.overdue) == (True, False), "nothing moves, so no move is late"


@pytest.mark.parametrize(
    ("learned", "known"),
    [
        ({"outputTokens": 300, "tokenTimePercent": 150}, SeenAnswers(300.0, "p", 1.5)),
        ({"tokenTimePercent": 150}, None),
    ],
    ids=["known", "too few seen"],
)
def test_the_planner_knows_the_answers_that_the_status_keeps(learned: Any, known: SeenAnswers | None) -> None:
    body = inference_deployment_body("chat")
    loop = {"decision": "Keep", "reason": "WithinBand", "message": "", "learned": {"pool": "p", **learned}}
    body["status"] = {"rebalancing": loop}
    assert tenant_of(ready_of(deployment_of(body, resource=deployment()), request())).answers == known


def test_a_placement_is_of_this_spec_if_all_pools_that_stay_are() -> None:
    body = inference_deployment_body("chat")
    body["metadata"]["generation"] = 3

    def judged(*pools: Pool) -> bool:
        return deployment_of(body, pools=pools).is_judged

    now, before = replace(pool(H100), generation=3), replace(pool(L4), generation=2)
    assert judged()
    assert judged(now)
    assert not judged(now, before)
    assert judged(now, replace(before, state=PoolState.RETIRING))


def test_the_estimate_is_that_of_the_first_pool_that_stays() -> None:
    both = fleet(node("h", H100), node("l", L40S))
    old, new, newest = replace(pool(L40S), state=PoolState.RETIRING), pool(H100), pool(L40S)
    figures = figures_of(request(), (old, new, newest), both, Memo())
    assert figures is not None
    assert figures == sized(request(), gpu(H100), Split(1), Memo())[1]
    assert figures_of(request(), (old,), both, Memo()) is None
    assert figures_of(request(), (), both, Memo()) is None


def test_there_is_no_estimate_for_a_gpu_that_the_fleet_has_lost() -> None:
    assert figures_of(request(), (pool(H100),), fleet(node("l", L40S)), Memo()) is None


def test_the_objects_of_a_decision_are_a_service_a_budget_and_a_deployment_for_each_pool() -> None:
    def kinds(resource: InferenceDeployment | None, decision: Decision | None, **more: Any) -> list[str]:
        outcome = outcome_of(deployment_of(resource=resource), decision=decision)
        return [each["kind"] for each in manifests_of(replace(outcome, besides=replace(outcome.besides, **more)))]

    assert kinds(None, None) == []
    assert kinds(deployment(), None) == []
    assert kinds(deployment(), PLACED) == ["Service", "Deployment", "PodDisruptionBudget"]
    while_a_node_goes = kinds(deployment(), PLACED, leaving=("l4-a",))
    assert while_a_node_goes == ["Service", "PodDisruptionBudget", "Deployment"]
    assert kinds(deployment(), replace(PLACED, pools=())) == []
    assert kinds(deployment(suspend=True), PLACED) == []


def test_signals_are_read_over_one_minute_if_the_loop_is_off_and_one_minute_longer_than_it_looks_back() -> None:
    off = deployment(rebalancing={"mode": "Off"})
    assert wanted_signals(deployment_of(resource=off)).window_seconds == 60
    recommends = deployment(rebalancing={"mode": "Recommend", "windowSeconds": 900})
    assert wanted_signals(deployment_of(resource=recommends)).window_seconds == 960


def test_the_order_in_which_a_spec_is_written_does_not_bear_on_memory() -> None:
    body = inference_deployment_body("chat")
    body["spec"] = {"contextLength": 4096, "model": {"name": "a/b"}}
    assert identity_of(body).digests.engine == digest()


@pytest.mark.parametrize(("engine", "counted"), [("sglang", ()), ("vllm", ("l4-24gb",))])
def test_what_proved_too_small_on_one_engine_says_nothing_of_another(engine: str, counted: tuple[str, ...]) -> None:
    body = inference_deployment_body("chat", spec={})
    entry = {"gpuType": "l4-24gb", "tensorParallel": 1, "kvTokens": 30_000, "spec": identity_of(body).digests.engine}
    wanted = replace(request(), engine=EngineChoice(EngineVersion(0, 6), name=engine))
    given = deployment_of({**body, "status": {"tooSmall": [entry]}}, resource=deployment(), request=wanted)
    ready = observing.ready_of(given, Observed(), CommonLessons(), ChangedRequests(), reading=None, now=0.0)
    assert ready is not None
    assert tuple(seen.gpu_type for seen in ready.request.observed) == counted


def test_new_replicas_may_take_three_times_as_long_as_the_weights_of_all_their_gpus() -> None:
    """A download brings 125 MB a second."""
    pool = PLACED.pools[0]
    assert pool.choice is not None
    divided = replace(pool, target=replace(pool.target, split=Split(2)))
    seconds = 3 * 2 * pool.choice.estimate.weights_bytes / 125e6
    assert seconds_allowed(deployment_of(), replace(PLACED, pools=(divided,)), 0.0) == seconds
    assert seconds_allowed(deployment_of(), replace(PLACED, pools=(replace(divided, choice=None),)), 7.0) == 7


SLOW_START = Delay("Pulling")


@pytest.mark.parametrize(
    ("ready", "is_late", "state", "delay", "late"),
    [
        (1, True, PoolState.RETIRING, SLOW_START, "new"),
        (0, True, PoolState.RETIRING, SLOW_START, None),
        (1, False, PoolState.RETIRING, SLOW_START, None),
        (1, True, PoolState.ACTIVE, SLOW_START, None),
        (1, True, PoolState.RETIRING, None, None),
    ],
    ids=["late", "nothing serves", "in time", "nothing goes", "no pool says so"],
)
def test_a_new_pool_is_late_while_an_old_one_that_goes_serves_on(
    ready: int, *, is_late: bool, state: PoolState, delay: Any, late: str | None
) -> None:
    old, new = replace(pool(L40S, ready=ready, state=state), name="old"), replace(pool(H100, delay=delay), name="new")
    found = outcome_of(
        deployment_of(pools=(old, new), is_late=is_late),
        decision=replace(PLACED, pools=tuple(replace(as_it_is(each), choice=None) for each in (old, new))),
    )
    said = report_of(found, 0.0).late
    assert (None if said is None else said.name) == late


def test_a_hint_stays_as_it_was_written_while_its_figures_are_about_the_same() -> None:
    hint = ReuseHint("40 of 100 tokens come again: set it.", "set it.")
    assert hint.or_earlier(["30 of 100 tokens come again: set it."]) == "30 of 100 tokens come again: set it."
    for other in (
        "19 of 100 tokens come again: set it.",
        "81 of 100 tokens come again: set it.",
        "40 of 100 tokens came again: set it.",
        "40 of 100 tokens come again: leave it.",
    ):
        assert hint.or_earlier([other]) == hint.words
    earlier = ["1 of 100 tokens come again: set it.", "20 of 100 tokens come again: set it."]
    assert hint.or_earlier(earlier) == earlier[1]


@pytest.mark.parametrize(
    ("pods", "stray"),
    [
        ({}, "new"),
        ({"bound_since": 100.0}, "new"),
        ({"bound_since": 99.0}, ""),
        ({"bound_since": None}, ""),
        ({"node": "other"}, ""),
        ({"terminating": True}, ""),
        ({"name": "old"}, ""),
        ({"ready": True}, ""),
    ],
    ids=["after it began", "at once", "before", "not bound", "elsewhere", "ending", "the old one", "it serves"],
)
@pytest.mark.parametrize("reason", [DecisionReason.REPLICA_SLOW, DecisionReason.MAKES_ROOM])
def test_a_pod_that_came_to_the_node_that_is_to_be_left_may_end(
    pods: dict[str, Any], stray: str, reason: DecisionReason
) -> None:
    facts: dict[str, Any] = {
        "bound": True,
        "ready": False,
        "ended": False,
        "terminating": False,
        "node": "n",
        "bound_since": 150.0,
    }
    pod = PodFacts(**{"name": "new"} | facts | pods)
    away = Replacement("old", "n", reason, began=100.0)
    expected = "new" if reason is DecisionReason.MAKES_ROOM and pods == {"ready": True} else stray
    assert stray_of(away, Surroundings({"p": (pod,)}, {})) == expected
