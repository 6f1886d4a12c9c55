"""Another engine would serve the same load for clearly less: it is proposed, and people decide."""

from __future__ import annotations

from typing import Any

from plimsoll.adapters.cluster.client import DEPLOYMENTS
from plimsoll.app.plan.rendered import Desired
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.placement.demands.clocks import LEAST_SECONDS
from tests.app.test_moves import AUTO, LIGHT, comes_and_goes, serves, with_nodes
from tests.app.test_rolled_back import carry_out, late
from tests.render.workloads import container
from tests.support.live_passes import L4, L40S, LivePasses, Open, live_part, pools
from tests.support.proposal_passes import ProposalPasses

LLAMA = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}}
ONE_GPU = {"allow": [L40S, L4], "maxPerReplica": 1}
IMAGES = {"vllm": VLLM.image(Vendor.NVIDIA, "0.32.0"), "sglang": SGLANG.image(Vendor.NVIDIA, "0.5.23")}
STAYS = {(L40S, "Active"): 1}
BEGUN = {(L4, "Active"): 1, (L40S, "Retiring"): 1}


async def opened_choice(opened: Open, engine: dict[str, Any] | None = None) -> ProposalPasses:
    """SGLang runs on an L40S, and the choice is left open. vLLM fits an L4, where SGLang has too little room."""
    there = opened(l40s=2)
    comes_and_goes(there)
    wish: dict[str, Any] = LLAMA | {"gpu": ONE_GPU, "rebalancing": AUTO}
    there.put("asks", engine={"name": "sglang"}, **wish)
    there.put("honest", engine={"name": "sglang"}, created="04:00:00", **wish)
    room = ProposalPasses.open(there)
    await there.settle()
    there.change("asks", engine=engine or {"name": "auto"})
    for _ in range(3):
        there.carry_out(list(there.make().values()))
    with_nodes(there, l40s=2, l4=2)
    return room


async def look(room: ProposalPasses) -> dict[str, Desired]:
    """A pass at a moment at which the deployment may look for another place, with a steady light load."""
    there = room.there
    for name in ("honest", "asks"):
        serves(there, there.make()[name], LIGHT, engine="sglang")
    return await room.turn()


def engines(case: Desired) -> dict[str, str]:
    """The engine of each pool that a status has, by its GPU type."""
    return {each["gpuType"]: each.get("engine", "vllm") for each in (case.new_status or {})["pools"]}


def images(there: LivePasses, name: str = "asks") -> set[str]:
    bodies = (each for each in there.store.all(DEPLOYMENTS) if each["metadata"]["name"].startswith(f"{name}-"))
    return {str(container(dict(body))["image"]) for body in bodies}


async def test_another_engine_is_proposed_with_both_names_price_gain_and_cause_and_is_not_taken(opened: Open) -> None:
    room = await opened_choice(opened)
    for _ in range(3):
        cases = await look(room)
        assert (pools(cases["asks"]), engines(cases["asks"])) == (STAYS, {L40S: "sglang"})
    reported = live_part(cases["asks"])
    assert (reported["decision"], reported["reason"]) == ("Move", "CheaperPlace")
    [body] = room.proposals()
    assert body["deployment"] == "asks"
    assert body["summary"] == "move 1 replica to vLLM on l4-24gb x 1, -$0.74/h"
    assert body["message"].startswith(
        "The same load would cost 0.42 US dollars an hour instead of 1.15 (64 % less), with 1 replica of vLLM on "
        "l4-24gb x 1 instead of 1 replica of SGLang on l40s-48gb x 1: 3 requests a minute "
    )
    assert "A replica of vLLM holds " in body["message"]
    assert reported["proposal"].startswith(
        "Approve this proposal to move to another engine, or set spec.engine.name to vllm. The same load would cost "
    )
    assert images(room.there) == images(room.there, "honest") == {IMAGES["sglang"]}


async def test_an_approved_engine_serves_before_the_other_one_ends_and_the_neighbour_stays(opened: Open) -> None:
    room = await opened_choice(opened)
    await look(room)
    [body] = room.proposals()
    answer = room.answer(body["id"])
    cases = await look(room)
    assert (pools(cases["asks"]), engines(cases["asks"])) == (BEGUN, {L4: "vllm", L40S: "sglang"})
    assert room.outcome(answer) == "CarriedOut"
    assert live_part(cases["asks"])["changes"][-1] | {"at": ""} == {
        "at": "",
        "kind": "Move",
        "reason": "CheaperPlace",
        "replicas": 1,
        "engine": "vllm",
    }
    assert images(room.there) == {*IMAGES.values()}
    for _ in range(3):
        room.there.passes.live.readings.clear()
        cases = await room.turn()
    assert (pools(cases["asks"]), engines(cases["asks"])) == ({(L4, "Active"): 1}, {L4: "vllm"})
    assert (cases["asks"].new_status or {})["engine"]["name"] == "vllm"
    assert (pools(cases["honest"]), engines(cases["honest"])) == (STAYS, {L40S: "sglang"})
    assert images(room.there, "honest") == {IMAGES["sglang"]}


async def test_an_approved_engine_that_does_not_come_up_is_taken_back(opened: Open) -> None:
    room = await opened_choice(opened)
    await look(room)
    [body] = room.proposals()
    room.answer(body["id"])
    case = (await look(room))["asks"]
    carry_out(room.there, case, kind=L4)
    waits = late(room.there, LEAST_SECONDS - 1)
    assert (pools(waits), engines(waits)) == (BEGUN, {L4: "vllm", L40S: "sglang"})
    carry_out(room.there, waits, kind=L4)
    case = late(room.there, 2)
    assert (pools(case), engines(case)) == (STAYS, {L40S: "sglang"})
    assert [(each["gpuType"], each["reason"]) for each in (case.new_status or {})["failedMoves"]] == [
        (L4, "EnginesStarting")
    ]
    carry_out(room.there, case, kind=L4)
    after = late(room.there, 30)
    assert (pools(after), engines(after)) == (STAYS, {L40S: "sglang"})
    assert images(room.there) == {IMAGES["sglang"]}


async def test_a_rejected_engine_is_not_proposed_again(opened: Open) -> None:
    room = await opened_choice(opened)
    await look(room)
    [body] = room.proposals()
    room.answer(body["id"], decision="reject", reason="we know SGLang")
    await room.turn()
    for _ in range(3):
        case = (await look(room))["asks"]
        assert "proposal" not in live_part(case)
        assert (pools(case), engines(case)) == (STAYS, {L40S: "sglang"})
    assert [each["id"] for each in room.proposals()] == [body["id"]]


async def test_the_price_calls_for_no_engine_that_the_user_likes_less(opened: Open) -> None:
    room = await opened_choice(opened, {"name": "auto", "prefer": ["sglang"]})
    case = (await look(room))["asks"]
    assert (room.proposals(), pools(case), live_part(case)["decision"]) == ([], STAYS, "Keep")


async def test_a_cheaper_place_of_the_engine_that_runs_comes_first(opened: Open) -> None:
    room = await opened_choice(opened)
    room.there.change("asks", generation=3, gpu={"allow": [L40S, L4]})
    for _ in range(2):
        room.there.carry_out(list(room.there.make().values()))
    case = (await look(room))["asks"]
    assert (room.proposals(), engines(case)) == ([], {L4: "sglang", L40S: "sglang"})
