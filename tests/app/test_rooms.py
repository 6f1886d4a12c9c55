"""Room at others in passes: a proposal with whom it touches, which the operator never carries out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import PODS, PRIORITY_CLASSES
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.api.v1alpha1.inbox import ProposalContent
from plimsoll.decision import memory as rooms_module
from plimsoll.decision.memory import serving_floor
from plimsoll.decision.turns import Standing
from plimsoll.facts.cluster.priority_reading import PREEMPTS
from plimsoll.placement.proposing.proposals import Neighbours, room_for
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import Plan, Room
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.policy import ScheduledMinimum
from tests.support.live_passes import AUTO, EASY, L40S, PRESSURE, Open, live_part, pools
from tests.support.proposal_passes import ProposalPasses

KEPT_PASSES = 20
MOST_SEARCHES = 5

ADVICE = AUTO | {"mode": "Recommend"}
GOLD: dict[str, Any] = {"podTemplate": {"priorityClassName": "gold"}}


def gold_class(*, preempts: bool) -> dict[str, Any]:
    head = {"name": "gold", "uid": "gold", "resourceVersion": "1"}
    return {"metadata": {**head, "annotations": {PREEMPTS: "true"} if preempts else {}}, "value": 1000}


async def full(
    opened: Open,
    rebalancing: dict[str, Any] | None = None,
    *,
    preempts: bool = True,
    low: int = 2,
    low_in: str = "ns",
    low_more: dict[str, Any] | None = None,
) -> ProposalPasses:
    """``asks`` is under pressure, of high priority, and ``low`` holds all other GPUs."""
    there = opened(l40s=1 + low)
    there.store.replace(PRIORITY_CLASSES, [gold_class(preempts=preempts)])
    there.put("asks", L40S, rebalancing=AUTO if rebalancing is None else rebalancing, **GOLD)
    there.put("low", L40S, created="04:00:00", replicas=low, namespace=low_in, **low_more or {})
    room = ProposalPasses.open(there)
    await there.settle()
    there.load(there.make()["asks"], PRESSURE)
    return room


def later(room: ProposalPasses) -> None:
    """Let the engines be scraped again."""
    room.there.now += 15
    room.there.load(room.there.make()["asks"], PRESSURE)


@pytest.mark.parametrize("rebalancing", [AUTO, ADVICE], ids=["Auto", "Recommend"])
async def test_a_proposal_says_who_would_make_room_with_bill_and_time(
    opened: Open, rebalancing: dict[str, Any]
) -> None:
    room = await full(opened, rebalancing)
    cases = await room.turn()
    assert (pools(cases["asks"]), pools(cases["low"])) == ({(L40S, "Active"): 1}, {(L40S, "Active"): 2})
    [body] = room.proposals()
    content = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    read = ProposalContent.model_validate(content, strict=True, by_alias=True, by_name=False)
    assert (read.deployment, read.change, read.reason) == ("asks", "AddReplica", "SustainedKvPressure")
    assert read.summary == "add 1 replica on l40s-48gb x 1, +$1.15/h"
    [touch] = read.touches
    assert (touch.deployment, touch.replicas, touch.action) == ("low", 1, "leaves node l40s-48gb for good")
    figures = {each.name: each.value for each in read.figures}
    assert int(figures["seconds"]) >= 90
    assert float(figures["added"]) > 0
    assert read.bill.after is not None
    assert read.bill.before is not None
    assert float(read.bill.after) > float(read.bill.before)
    assert (
        "No GPUs are free for it: end 1 of low on l40s-48gb x 1 (node l40s-48gb): makes room for 1 more" in read.message
    )
    live = live_part(cases["asks"])
    assert live["proposalId"] == read.id
    assert "Room for it: end 1 of low" in live["proposal"]
    reason = "OthersCanMakeRoom" if rebalancing is AUTO else "SustainedKvPressure"
    assert (live["reason"], live["targetReplicas"]) == (reason, 1)
    room.there.load((await room.turn())["asks"], 0.97)
    assert [each["id"] for each in room.proposals()] == [read.id], "a proposal is written once"


@pytest.mark.parametrize(
    "more",
    [
        {"preempts": False},
        {"low": 1},
        {"low_more": GOLD},
        {"low_more": {"suspend": True}},
        {"low_more": {"rebalancing": {"minReplicas": 2}}},
        {"low_more": {"rebalancing": {"scale": "External"}}},
    ],
    ids=["no right to preempt", "the last replica", "equal priority", "suspended", "its minimum", "its own scaler"],
)
async def test_who_must_not_give_a_replica_is_not_asked(opened: Open, more: dict[str, Any]) -> None:
    low_more = more.get("low_more", {})
    suspended = low_more.pop("suspend", False) if "suspend" in low_more else False
    room = await full(opened, **{**more, "low_more": low_more})
    if suspended:
        room.there.change("low", suspend=True)
    case = (await room.turn())["asks"]
    assert (live_part(case)["reason"], room.proposals()) == ("NoPlaceFound", [])
    assert "proposal" not in live_part(case)


async def test_room_for_a_replica_that_is_too_dear_is_not_proposed(opened: Open) -> None:
    room = await full(opened, AUTO | {"limits": {"dollarsPerHour": "0.01"}})
    case = (await room.turn())["asks"]
    assert (live_part(case)["reason"], room.proposals()) == ("DollarsPerHourSpent", [])


async def test_a_deployment_of_another_namespace_is_not_named(opened: Open) -> None:
    room = await full(opened, low_in="secret")
    case = (await room.turn())["asks"]
    [body] = room.proposals()
    assert [each["deployment"] for each in body["touches"]] == ["another deployment"]
    assert "end 1 of another deployment" in live_part(case)["proposal"]
    assert "low" not in live_part(case)["proposal"]


@pytest.mark.parametrize("rebalancing", [AUTO, ADVICE], ids=["Auto", "Recommend"])
async def test_an_approval_ends_nobody_and_counts_when_there_is_room(opened: Open, rebalancing: dict[str, Any]) -> None:
    room = await full(opened, rebalancing)
    await room.turn()
    [body] = room.proposals()
    name = room.answer(body["id"])
    cases = await room.turn()
    assert (pools(cases["asks"]), pools(cases["low"])) == ({(L40S, "Active"): 1}, {(L40S, "Active"): 2})
    await room.turn()
    assert room.outcome(name) == "Waiting"
    room.there.store.observe(PODS, "DELETED", _a_pod_of(room, "low"))
    room.there.change("low", replicas=1)
    await room.turn()
    later(room)
    cases = await room.turn()
    assert (pools(cases["asks"]), pools(cases["low"])) == ({(L40S, "Active"): 2}, {(L40S, "Active"): 1})
    assert "Approved by alex." in live_part(cases["asks"])["lastChange"]
    await room.turn()
    assert room.outcome(name) == "CarriedOut"
    assert room.proposals() == []


def _a_pod_of(room: ProposalPasses, name: str) -> Any:
    return next(body for body in room.there.store.all(PODS) if body["metadata"]["name"].startswith(f"{name}-"))


async def test_a_rejected_one_is_not_made_again(opened: Open) -> None:
    room = await full(opened)
    await room.turn()
    [body] = room.proposals()
    room.answer(body["id"], decision="reject")
    await room.turn()
    live = live_part((await room.turn())["asks"])
    assert "proposal" not in live
    assert live["reason"] == "OthersCanMakeRoom"


async def test_without_pressure_nothing_is_looked_for(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    room = await full(opened)
    for name, case in room.there.make().items():
        if name == "asks":
            room.there.load(case, EASY)

    def refused(*_: Any) -> Any:
        raise AssertionError("nobody asks")

    monkeypatch.setattr(rooms_module, "neighbours_of", refused)
    monkeypatch.setattr(rooms_module, "room_for", refused)
    assert live_part((await room.turn())["asks"])["decision"] == "Keep"


async def test_a_later_turn_says_the_same_without_another_search(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    room = await full(opened)
    await room.turn()
    await room.turn()
    searches: list[object] = []
    monkeypatch.setattr(rooms_module, "room_for", lambda *asked: searches.append(asked))
    later(room)
    assert live_part(room.there.make()["asks"])["reason"] == "OthersCanMakeRoom"
    assert searches == []
    room.there.put("new", L40S, created="05:00:00")
    later(room)
    room.there.make()
    assert searches, "somebody has changed"


async def test_a_search_that_fails_costs_nobody_a_decision(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(rooms_module, "room_for", broken)
    room = await full(opened)
    case = (await room.turn())["asks"]
    assert (case.outcome.problem, live_part(case)["reason"]) == (None, "NoPlaceFound")


async def many(opened: Open) -> ProposalPasses:
    """More deployments under pressure than a pass searches for, and one of lower priority with two replicas."""
    names = [f"asks-{index}" for index in range(MOST_SEARCHES + 2)]
    there = opened(l40s=len(names) + 2)
    there.store.replace(PRIORITY_CLASSES, [gold_class(preempts=True)])
    for name in names:
        there.put(name, L40S, rebalancing=AUTO, **GOLD)
    there.put("low", L40S, created="04:00:00", replicas=2)
    room = ProposalPasses.open(there)
    await there.settle()
    return room


def reasons(room: ProposalPasses) -> list[str]:
    """Return the words of everybody's turn after another scrape."""
    room.there.now += 15
    for name, case in room.there.make().items():
        if name.startswith("asks"):
            room.there.load(case, PRESSURE)
    return sorted(live_part(case)["reason"] for name, case in room.there.make().items() if name.startswith("asks"))


async def test_a_pass_searches_for_few_deployments_and_the_next_one_for_the_others(opened: Open) -> None:
    room = await many(opened)
    assert reasons(room) == 2 * ["NoPlaceFound"] + MOST_SEARCHES * ["OthersCanMakeRoom"]
    assert reasons(room) == (MOST_SEARCHES + 2) * ["OthersCanMakeRoom"]


async def test_an_answer_stays_until_it_is_searched_for_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    room = await many(opened)
    for _ in range(2):
        reasons(room)
    searches: list[object] = []

    def counted(plan: Plan, lacking: Answer, neighbours: Neighbours) -> Room | None:
        searches.append(lacking.tenant)
        return room_for(plan, lacking, neighbours)

    monkeypatch.setattr(rooms_module, "room_for", counted)
    room.there.put("new", L40S, created="05:00:00")
    assert reasons(room) == (MOST_SEARCHES + 2) * ["OthersCanMakeRoom"], "nobody's answer comes and goes"
    assert 0 < len(searches) <= 2 * MOST_SEARCHES


async def test_answers_that_nobody_asks_for_are_forgotten(opened: Open) -> None:
    room = await full(opened)
    await room.turn()
    later(room)
    room.there.make()
    assert room.there.passes.memory.rooms._last  # noqa: SLF001 - what it keeps is what is tested
    room.there.load(room.there.make()["asks"], EASY)
    for _ in range(KEPT_PASSES + 2):
        room.there.make()
    assert not room.there.passes.memory.rooms._last  # noqa: SLF001 - as above


@pytest.mark.parametrize(
    ("given", "floor"),
    [
        ({}, 1),
        ({"rebalancing": {"minReplicas": 3}}, 3),
        ({"rebalancing": {"mode": "Auto", "maxReplicas": 9, "minReplicas": 0}}, 1),
        ({"rebalancing": {"scale": "External"}}, 4),
    ],
)
def test_the_floor_is_what_the_owner_asks_for_and_one(given: dict[str, Any], floor: int) -> None:
    load = {"model": {"name": "Qwen/Qwen2.5-7B-Instruct"}, "contextLength": 4096}
    standing = Standing(5, 4, ChangeHistory())
    spec = InferenceDeploymentSpec.model_validate(load | {"concurrency": 4, "replicas": 5} | given)
    assert serving_floor(spec, standing) == floor
    later = ScheduledMinimum(9, Opening(is_open=False, opens_at=1e9))
    assert serving_floor(spec, standing, (ScheduledMinimum(4, Opening()), later)) == max(floor, 4)
    sized = InferenceDeploymentSpec.model_validate(load | {"totalConcurrency": 40})
    assert serving_floor(sized, replace(standing, base_replicas=5)) == 5
