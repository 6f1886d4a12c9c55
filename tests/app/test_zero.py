"""Passes in which a deployment goes to zero and comes back, and in which another controller owns its number."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.cluster.client import PODS
from plimsoll.adapters.cluster.kinds import GATEWAYS, HTTP_ROUTES, OF_ROUTERS
from plimsoll.adapters.prometheus.router_scrape import RouterScrape
from plimsoll.app.plan.rendered import Desired
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.gateway_scrapes import queue_of
from plimsoll.rebalance.signals.idle import Quiet
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals, SignalState
from plimsoll.rebalance.signals.reading import Reading
from tests.support.live_passes import L4, L40S, LivePasses, Open, live_part, pools

IDLE_SECONDS = 600
SLEEPS = {
    "mode": "Auto",
    "minReplicas": 0,
    "maxReplicas": 3,
    "windowSeconds": 20,
    "cooldownSeconds": 30,
    "idleSeconds": IDLE_SECONDS,
    "gateway": {"inferencePool": "chat"},
}
BY_HAND = {name: value for name, value in SLEEPS.items() if name != "gateway"} | {"wake": "Manual"}


def queue(there: LivePasses, waiting: float) -> GatewayQueue:
    return queue_of([{there.now - 1: waiting, there.now - 16: waiting}], there.now)


def serve(
    there: LivePasses,
    case: Desired,
    gateway: GatewayQueue | None = None,
    *,
    running: float = 0,
    shows_before: bool = True,
) -> None:
    """Let every engine report that it has served nobody for as long as it is known, or that it serves now.

    ``shows_before`` says whether Prometheus shows the same of the time before the operator's process began.
    """
    times = [there.now - 1 - 15 * index for index in reversed(range(44))]
    samples = tuple(
        EngineSample(
            at=at,
            kv_usage=0.0,
            waiting=0,
            running=running,
            kv_capacity_tokens=100_000,
            prompt_tokens_total=5,
            generation_tokens_total=5,
        )
        for at in times
    )
    pods = [pod.name for pod in case.outcome.deployment.placed.around.ready_pods()]
    quiet = Quiet(times[0], times[-1]) if shows_before and not running else None
    reading = Reading({pod: PodSignals(pod, samples) for pod in pods}, gateway=gateway, quiet_before=quiet)
    there.passes.live.readings[case.key] = reading


def act(there: LivePasses, name: str, gateway: GatewayQueue | None = None, **served: Any) -> Desired:
    """One pass with these signals; the cluster does what it decides."""
    serve(there, there.make()[name], gateway, **served)
    there.passes.memory.turns = type(there.passes.memory.turns)(there.passes.memory.turns.memories)
    case = there.make()[name]
    there.carry_out([case])
    gone = 0 if case.outcome.decision is None else sum(pool.replicas for pool in case.outcome.decision.pools)
    for pod in [
        each for each in there.store.all(PODS) if each["metadata"]["labels"]["plimsoll.dev/deployment"] == name
    ]:
        if not gone:
            there.store.observe(PODS, "DELETED", pod)
    return case


def see_gateway(there: LivePasses, answer: str) -> None:
    """Let the operator list a Gateway and its controller's answer for the route of ``chat``; empty: it gives none."""
    owner = {"kind": "InferenceDeployment", "name": "chat", "uid": "uid-chat", "controller": True}
    owner["apiVersion"] = "plimsoll.dev/v1alpha1"
    conditions = [{"type": kind, "status": answer, "reason": "Played"} for kind in ("Accepted", "ResolvedRefs")]
    parents = [{"parentRef": {"name": "shared"}, "controllerName": "c", "conditions": conditions}] if answer else []
    there.version += 1
    head = {"namespace": "ns", "uid": f"uid-{there.version}", "resourceVersion": str(there.version)}
    own = head | {"name": "chat", "uid": "uid-route", "ownerReferences": [owner]}
    for kind in (*OF_ROUTERS, HTTP_ROUTES, GATEWAYS):
        if kind not in there.store.picture().read:
            there.store.replace(kind, [])
    route = {"kind": "HTTPRoute", "metadata": own, "spec": {}, "status": {"parents": parents}}
    there.store.observe(HTTP_ROUTES, "MODIFIED", route)
    known = there.store.get(GATEWAYS, ObjectKey("ns", "shared"))
    if answer == "Missing" and known is not None:
        there.store.observe(GATEWAYS, "DELETED", known)
    elif answer != "Missing" and known is None:
        gateway = {"metadata": head | {"name": "shared"}, "spec": {}, "status": {}}
        there.store.observe(GATEWAYS, "ADDED", gateway)


async def asleep(opened: Open, rebalancing: dict[str, Any], *kinds: str, **gpus: int) -> LivePasses:
    """An operator with one deployment that has just gone to zero."""
    there = opened(**gpus)
    there.put("chat", *kinds, replicas=1, rebalancing=rebalancing)
    await there.settle()
    empty = queue(there, 0) if "gateway" in rebalancing else None
    assert live_part(act(there, "chat", empty))["reason"] == "NoRequests"
    return there


def conditions(case: Desired) -> dict[str, tuple[str, str]]:
    assert case.new_status is not None
    return {each["type"]: (each["status"], each["reason"]) for each in case.new_status["conditions"]}


def message(case: Desired, kind: str) -> str:
    assert case.new_status is not None
    return next(str(each["message"]) for each in case.new_status["conditions"] if each["type"] == kind)


def scale(there: LivePasses, name: str, replicas: int, generation: int = 2) -> None:
    """Write ``spec.replicas``."""
    there.change(name, generation, replicas=replicas)


async def test_an_idle_deployment_gives_its_gpus_back_and_its_neighbour_is_untouched(opened: Open) -> None:
    there = opened(l40s=2)
    there.put("chat", L40S, rebalancing=SLEEPS)
    there.put("busy", L40S, created="04:00:00", rebalancing=SLEEPS | {"gateway": {"inferencePool": "busy"}})
    there.put("waits", L40S, created="05:00:00")
    await there.settle()
    cases = there.make()
    assert not pools(cases["waits"])
    serve(there, cases["busy"], queue(there, 0), running=1)
    case = act(there, "chat", queue(there, 0))
    assert pools(case) == {(L40S, "Active"): 0}
    assert live_part(case)["targetReplicas"] == 0
    after = there.make()
    assert pools(after["waits"]) == {(L40S, "Active"): 1}, "the GPU is free"
    assert (pools(after["busy"]), live_part(after["busy"])["targetReplicas"]) == ({(L40S, "Active"): 1}, 1)


async def test_another_leader_goes_to_zero_only_where_samples_show_the_time_before_it(opened: Open) -> None:
    """Neither a new process nor anything that a status says is evidence that no request came."""
    there = opened(l40s=2)
    there.put("chat", L40S, rebalancing=SLEEPS)
    await there.settle()
    first = act(there, "chat", queue(there, 0), shows_before=False)
    assert (live_part(first)["reason"], pools(first)) == ("WithinBand", {(L40S, "Active"): 1})
    there.passes.memory.turns.memories.clear()
    assert live_part(act(there, "chat", queue(there, 0), shows_before=False))["reason"] == "WithinBand"
    there.passes.memory.turns.memories.clear()
    assert live_part(act(there, "chat", queue(there, 0)))["reason"] == "NoRequests"


async def test_at_zero_everything_is_as_it_should_be(opened: Open) -> None:
    there = await asleep(opened, SLEEPS, L40S, l40s=1)
    case = act(there, "chat", queue(there, 0))
    assert live_part(case)["reason"] == "NoRequestWaits"
    found = conditions(case)
    assert found["Ready"] == ("True", "ScaledToZero")
    assert found["Available"] == ("False", "ScaledToZero")
    assert not {"Reconciling", "Stalled"} & found.keys()
    assert message(case, "Ready") == (
        "No request has come for a while, so no replica runs. What starts one: a request that waits at the gateway, or "
        "a change of spec.replicas."
    )
    assert case.new_status is not None
    assert (case.new_status["replicas"], case.new_status["replicasSummary"]) == (0, "0/0")
    assert {each["kind"] for each in case.manifests} == {"Service", "PodDisruptionBudget", "Deployment"}
    assert there.passes.live.wanted[case.key].inference_pool == "chat", "the queue is read on"
    again = act(there, "chat", queue(there, 0))
    assert again.new_status == case.new_status, "a status that nothing changes is not written again"


async def test_a_request_at_the_gateway_brings_the_replica_back_to_its_place(opened: Open) -> None:
    """The L4 is cheaper, and comes free while the deployment sleeps."""
    there = opened(l4=1, l40s=1)
    there.put("first", L4)
    there.put("chat", L4, L40S, created="04:00:00", rebalancing=SLEEPS)
    await there.settle()
    act(there, "chat", queue(there, 0))
    there.change("first", replicas=0)
    act(there, "first")
    woken = act(there, "chat", queue(there, 1))
    assert live_part(woken)["reason"] == "RequestsWaitAtGateway"
    assert live_part(woken)["targetReplicas"] == 1
    assert pools(woken) == {(L40S, "Active"): 1}
    assert [each["kind"] for each in live_part(woken)["changes"]] == ["Remove", "Add"]
    there.put("new", L4, L40S, created="05:00:00")
    assert pools(there.make()["new"]) == {(L4, "Active"): 1}, "a deployment that is new takes the cheaper one"


async def test_a_wake_up_without_room_waits_as_a_new_deployment_does(opened: Open) -> None:
    there = await asleep(opened, SLEEPS, L40S, l40s=1)
    there.put("other", L40S, created="04:00:00")
    there.carry_out(list(there.make().values()))
    woken = act(there, "chat", queue(there, 1))
    assert live_part(woken)["targetReplicas"] == 1
    later = there.make()["chat"]
    assert conditions(later)["Planned"] == ("False", "WaitingForGpus")
    assert conditions(later)["Ready"][0] == "False"
    assert pools(there.make()["other"]) == {(L40S, "Active"): 1}, "nobody loses a place to it"


async def test_it_goes_elsewhere_where_its_place_is_taken(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    there.put("chat", L4, L40S, replicas=1, rebalancing=BY_HAND)
    await there.settle()
    assert pools(act(there, "chat")) == {(L4, "Active"): 0}
    there.put("other", L4, created="05:00:00")
    there.carry_out([there.make()["other"]])
    scale(there, "chat", 1, generation=3)
    assert pools(there.make()["chat"]) == {(L40S, "Active"): 1}


@pytest.mark.parametrize("rebalancing", [SLEEPS, BY_HAND], ids=["gateway", "by hand"])
async def test_another_number_of_replicas_wakes_it(opened: Open, rebalancing: dict[str, Any]) -> None:
    there = await asleep(opened, rebalancing, L40S, l40s=2)
    scale(there, "chat", 2)
    assert pools(there.make()["chat"]) == {(L40S, "Active"): 2}


async def test_to_zero_and_back_to_the_same_number_wakes_it_however_quick_it_is(opened: Open) -> None:
    there = await asleep(opened, BY_HAND, L40S, l40s=2)
    assert live_part(act(there, "chat"))["reason"] == "NoRequestWaits"
    scale(there, "chat", 1, generation=3)  # 0 and then 1, before the next pass
    assert pools(there.make()["chat"]) == {(L40S, "Active"): 1}
    woken = there.make()["chat"]
    assert pools(woken) == {(L40S, "Active"): 1}, "until the status says so"
    there.carry_out([woken])
    there.now += 60
    assert live_part(act(there, "chat"))["reason"] == "NoRequests", "it sleeps again, and stays asleep"
    assert pools(act(there, "chat")) == {(L40S, "Active"): 0}


async def test_a_change_of_anything_else_wakes_nobody(opened: Open) -> None:
    there = await asleep(opened, BY_HAND, L40S, l40s=2)
    there.change("chat", contextLength=8192)
    assert pools(act(there, "chat")) == {(L40S, "Active"): 0}


async def test_a_change_there_and_back_before_the_sleep_wakes_nobody(opened: Open) -> None:
    there = opened(l40s=2)
    there.put("chat", L40S, replicas=1, rebalancing=BY_HAND)
    await there.settle()
    scale(there, "chat", 1, generation=3)
    there.carry_out([there.make()["chat"]])
    assert live_part(act(there, "chat"))["reason"] == "NoRequests"
    assert pools(act(there, "chat")) == {(L40S, "Active"): 0}


@pytest.mark.parametrize(
    ("gateway", "said"),
    [
        (GatewayQueue(error="Prometheus has no recent series of x."), "Prometheus has no recent series of x."),
        (GatewayQueue(SignalState.INVALID, error="impossible."), "impossible."),
    ],
)
async def test_a_gateway_that_cannot_be_read_is_said_and_nothing_goes_to_zero(
    opened: Open, gateway: GatewayQueue, said: str
) -> None:
    there = opened(l40s=1)
    there.put("chat", L40S, rebalancing=SLEEPS)
    await there.settle()
    case = act(there, "chat", gateway)
    assert (pools(case), live_part(case)["reason"]) == ({(L40S, "Active"): 1}, "WithinBand")
    assert live_part(case)["hints"] == [f"Requests that wait at the gateway are not counted: {said}"]
    assert "hints" not in live_part(act(there, "chat", queue(there, 2)))


async def test_zero_replicas_of_the_user_stay_zero_without_a_gateway_and_begin_asleep_with_one(opened: Open) -> None:
    there = opened(l40s=2)
    there.put("off", L40S, replicas=0, rebalancing=SLEEPS | {"minReplicas": 1, "gateway": {"inferencePool": "off"}})
    there.put("chat", L40S, created="04:00:00", replicas=0, rebalancing=SLEEPS)
    await there.settle()
    case = act(there, "chat", queue(there, 0))
    assert message(case, "Ready").startswith("spec.replicas is 0, so no replica runs. What starts one: a request")
    assert pools(act(there, "off", queue(there, 9))) == {(L40S, "Active"): 0}
    assert pools(act(there, "chat", queue(there, 1))) == {(L40S, "Active"): 1}


async def test_an_external_scalers_number_is_kept_whatever_the_load_is(opened: Open) -> None:
    there = opened(l40s=3)
    there.put("chat", L40S, replicas=2, rebalancing={"mode": "Auto", "scale": "External", "windowSeconds": 20})
    await there.settle()
    case = there.make()["chat"]
    there.load(case, 1.0)
    case = there.make()["chat"]
    assert (pools(case), live_part(case)["reason"]) == ({(L40S, "Active"): 2}, "ScaledExternally")
    assert case.new_status is not None
    assert (case.new_status["replicas"], bool(case.new_status["selector"])) == (2, True)
    for replicas in (3, 1):
        scale(there, "chat", replicas, generation=5 - replicas)
        assert sum(pools(there.make()["chat"]).values()) == replicas


async def test_a_target_of_the_loop_ends_where_the_number_becomes_anothers(opened: Open) -> None:
    there = await asleep(opened, BY_HAND, L40S, l40s=1)
    there.change("chat", rebalancing={"mode": "Auto", "scale": "External"})
    assert pools(there.make()["chat"]) == {(L40S, "Active"): 1}


async def test_a_scaler_that_writes_again_and_again_is_named_and_not_fought(opened: Open) -> None:
    there = opened(l40s=4)
    auto = {"mode": "Auto", "maxReplicas": 4, "windowSeconds": 20, "cooldownSeconds": 30}
    there.put("chat", L40S, replicas=2, rebalancing=auto)
    there.put("honest", L40S, created="04:00:00", rebalancing=auto)
    await there.settle()
    for generation, replicas in enumerate((1, 2, 1), 2):
        there.now += 60
        scale(there, "chat", replicas, generation)
        case = there.make()["chat"]
        assert pools(case) == {(L40S, "Active"): replicas}
        there.load(case, 0.6)
        hints = live_part(there.make()["chat"]).get("hints")
    assert hints is not None
    [hint] = hints
    assert hint.startswith(
        "spec.replicas was changed 3 times within an hour, so the live loop adds and removes nothing"
    )
    for case in there.make().values():
        there.load(case, 1.0)
    cases = there.make()
    assert live_part(cases["chat"])["reason"] == "ScaleContested"
    assert pools(cases["chat"]) == {(L40S, "Active"): 1}, "the number is the other's"
    assert live_part(cases["honest"])["decision"] == "AddReplica"
    assert "hints" not in live_part(cases["honest"])


@pytest.mark.parametrize(
    ("mode", "answer", "starts"),
    [
        ("Standalone", "", "a request"),
        ("Gateway", "True", "a request"),
        ("Gateway", "", "the operator, as no request reaches the picker"),
    ],
)
async def test_the_picker_of_any_router_is_asked_for_its_queue_at_zero(
    opened: Open, mode: str, answer: str, starts: str
) -> None:
    there = opened(l40s=2)
    routing = {"mode": mode} | ({"gateway": {"name": "shared"}} if mode == "Gateway" else {})
    loop = {name: value for name, value in SLEEPS.items() if name != "gateway"}
    there.put("chat", L40S, replicas=0, routing=routing, rebalancing=loop)
    there.put("plain", L40S, created="04:00:00")
    await there.settle()
    see_gateway(there, answer)
    cases = there.make()
    routers = {name: there.passes.live.wanted[case.key].router for name, case in cases.items() if name == "chat"}
    assert routers["chat"] is not None
    assert routers["chat"].is_asleep
    assert message(cases["chat"], "Ready").startswith(
        f"spec.replicas is 0, so no replica runs. What starts one: {starts}"
    )
    assert pools(cases["plain"]) == {(L40S, "Active"): 1}


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["True", "False", "", "Missing"]), min_size=1, max_size=4))
async def test_whatever_a_gateway_answers_a_deployment_at_zero_is_one_that_requests_reach(
    opened: Open, monkeypatch: pytest.MonkeyPatch, answers: list[str]
) -> None:
    there = opened(l40s=2)
    monkeypatch.setattr(RouterScrape, "queue", lambda *_: queue(there, 0))
    loop = {name: value for name, value in SLEEPS.items() if name != "gateway"}
    routing = {"mode": "Gateway", "gateway": {"name": "shared"}}
    there.put("chat", L40S, replicas=1, routing=routing, rebalancing=loop)
    there.put("plain", L40S, created="04:00:00")
    await there.settle()
    for answer in answers:
        see_gateway(there, answer)
        for _ in range(2):  # a controller has two minutes for its answer
            case = act(there, "chat", queue(there, 0))
            there.now += 130
        target = live_part(case)["targetReplicas"]
        assert answer == "True" or target == 1
        assert ("Troubled" in conditions(case)) is (answer in ("False", "Missing")), "at zero as well"
    assert pools(there.make()["plain"]) == {(L40S, "Active"): 1}


async def test_one_that_sleeps_wakes_when_its_gateway_has_gone_for_a_while(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = opened(l40s=1)
    monkeypatch.setattr(RouterScrape, "queue", lambda *_: queue(there, 0))
    loop = {name: value for name, value in SLEEPS.items() if name != "gateway"}
    there.put("chat", L40S, replicas=1, routing={"mode": "Gateway", "gateway": {"name": "shared"}}, rebalancing=loop)
    await there.settle()
    see_gateway(there, "True")
    assert live_part(act(there, "chat", queue(there, 0)))["reason"] == "NoRequests"
    see_gateway(there, "Missing")
    case = act(there, "chat", queue(there, 0))
    assert (live_part(case)["targetReplicas"], conditions(case)["Troubled"]) == (0, ("True", "GatewayMissing"))
    there.now += 130
    case = act(there, "chat", queue(there, 0))
    assert (live_part(case)["reason"], live_part(case)["targetReplicas"]) == ("NotRouted", 1)
