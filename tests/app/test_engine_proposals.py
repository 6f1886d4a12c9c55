"""Another engine would serve the same load for clearly less: it is proposed, and people decide."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.cluster.client import APPROVALS, DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.app.plan.rendered import Desired
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Reason
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.placement.demands.clocks import LEAST_SECONDS
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.reading import Reading
from tests.app.test_moves import AUTO, LIGHT, comes_and_goes, serves, with_nodes
from tests.app.test_rolled_back import MESSAGE, carry_out, late, unready
from tests.render.workloads import container
from tests.support.live_passes import L4, L40S, LivePasses, Open, live_part, pools
from tests.support.proposal_passes import ProposalPasses
from tests.support.tables import examples

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
    busy(room.there)
    return await room.turn()


def busy(there: LivePasses) -> None:
    for name in ("honest", "asks"):
        case = there.make()[name]
        [engine] = [pool.engine for pool in case.outcome.deployment.placed.active]
        serves(there, case, LIGHT, engine=engine)


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
        "Approve this proposal to move to another engine. With spec.engine.name vllm it stays on its GPUs with as "
        "many replicas, if it fits there. The same load would cost "
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


async def test_a_status_that_names_another_engine_is_no_approval(opened: Open) -> None:
    room = await opened_choice(opened)
    forge(room.there)
    for _ in range(3):
        case = (await room.turn())["asks"]
        assert (pools(case), engines(case)) == (STAYS, {L40S: "sglang"})
    assert images(room.there) == {IMAGES["sglang"]}


async def test_an_approved_engine_that_does_not_come_up_is_taken_back(opened: Open) -> None:
    room = await opened_choice(opened)
    await look(room)
    [body] = room.proposals()
    room.answer(body["id"])
    case = (await look(room))["asks"]
    carry_out(room.there, case, kind=L4)
    waits = late(room.there, LEAST_SECONDS - 1)
    assert (pools(waits), engines(waits)) == (BEGUN, {L4: "vllm", L40S: "sglang"})
    assert waits.outcome.request is not None
    assert waits.outcome.request.engine.name == "vllm", "the old engine serves, and the move to the new one goes on"
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


async def test_an_engine_that_does_not_know_an_argument_is_not_proposed(opened: Open) -> None:
    room = await opened_choice(opened, {"name": "auto", "extraArgs": ["--schedule-policy=lpm"]})
    case = (await look(room))["asks"]
    assert case.outcome.request is not None
    assert case.outcome.request.engine.name == "sglang"
    assert (room.proposals(), case.outcome.request.alternatives) == ([], ())


async def test_a_cheaper_place_of_the_engine_that_runs_comes_first(opened: Open) -> None:
    room = await opened_choice(opened)
    room.there.change("asks", generation=3, gpu={"allow": [L40S, L4]})
    for _ in range(2):
        room.there.carry_out(list(room.there.make().values()))
    case = (await look(room))["asks"]
    assert (room.proposals(), engines(case)) == ([], {L4: "sglang", L40S: "sglang"})


async def test_where_the_hardware_that_remains_takes_another_engine_alone_that_is_proposed(opened: Open) -> None:
    room = await opened_choice(opened)
    there = room.there
    with_nodes(there, l4=2)
    strand(there, "asks", "honest")
    for _ in range(2):
        case = (await room.turn())["asks"]
        assert (pools(case), engines(case)) == (STAYS, {L40S: "sglang"})
    [body] = room.proposals()
    assert body["deployment"] == "asks"
    assert body["reason"] == "OtherEngineFits"
    assert body["message"] == (
        "SGLang has no place for all replicas, and vLLM has one: 1 replica on l4-24gb x 1, for 0.42 US dollars an hour."
    )
    room.answer(body["id"])
    cases = await room.turn()
    assert (pools(cases["asks"]), engines(cases["asks"])) == ({(L4, "Active"): 1}, {L4: "vllm"})
    for _ in range(3):
        cases = await room.turn()
    assert (pools(cases["asks"]), engines(cases["asks"])) == ({(L4, "Active"): 1}, {L4: "vllm"})
    assert (pools(cases["honest"]), engines(cases["honest"])) == (STAYS, {L40S: "sglang"})


async def test_replicas_that_are_woken_where_another_engine_alone_has_a_place_get_a_proposal(opened: Open) -> None:
    room = await opened_choice(opened)
    there = room.there
    there.change("asks", generation=3, replicas=0)
    there.passes.live.readings.clear()
    await room.turn()
    for body in there.store.all(PODS):
        if body["metadata"]["name"].startswith("asks"):
            there.store.observe(PODS, "DELETED", body)
    with_nodes(there, l4=2)
    await room.turn()
    assert room.proposals() == []
    there.change("asks", generation=4, replicas=1)
    await room.turn()
    [body] = room.proposals()
    assert (body["deployment"], body["reason"]) == ("asks", "OtherEngineFits")
    room.answer(body["id"])
    cases = await room.turn()
    assert (pools(cases["asks"]), engines(cases["asks"])) == ({(L4, "Active"): 1}, {L4: "vllm"})
    assert (pools(cases["honest"]), engines(cases["honest"])) == (STAYS, {L40S: "sglang"})


def strand(there: LivePasses, *names: str) -> None:
    """The node of some deployments is gone: their pods were made anew, and have had no node for long."""
    there.passes.live.readings.clear()
    for body in there.store.all(PODS):
        if body["metadata"]["name"].startswith(names):
            since = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-11-21T03:00:00Z"}
            waits = unready(there, body, conditions=[since | {"reason": "Unschedulable", "message": MESSAGE}])
            bare = {name: value for name, value in body["spec"].items() if name != "nodeName"}
            there.store.observe(PODS, "MODIFIED", {**waits, "spec": bare})


def forge(there: LivePasses) -> None:
    """Somebody writes into the status that the pools of a deployment run vLLM."""
    there.version += 1
    [body] = [each for each in there.store.all(INFERENCE_DEPLOYMENTS) if each["metadata"]["name"] == "asks"]
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    named = [{name: value for name, value in each.items() if name != "engine"} for each in body["status"]["pools"]]
    written = {**body, "metadata": head, "status": {**body["status"], "pools": named}}
    there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)


AT_ONE_PLACE = "l4-24gb-tp1-vllm"
"""The pool of an engine that takes over where the other one has the name of the place."""


async def outgrown_place(opened: Open, concurrency: int = 4) -> ProposalPasses:
    """SGLang runs on an L4, and the choice is left open. For four requests vLLM alone has enough room there."""
    there = opened(l4=4)
    small: dict[str, Any] = LLAMA | {"gpu": {"allow": [L4], "maxPerReplica": 1}, "rebalancing": AUTO, "concurrency": 1}
    there.put("asks", engine={"name": "sglang"}, **small)
    there.put("honest", engine={"name": "sglang"}, created="04:00:00", **small)
    room = ProposalPasses.open(there)
    await there.settle()
    there.change("asks", engine={"name": "auto"}, concurrency=concurrency)
    return room


def by_name(case: Desired) -> dict[str, tuple[str, str]]:
    """The engine and the state of each pool that a status has."""
    found = (case.new_status or {})["pools"]
    return {each["name"]: (each.get("engine", "vllm"), each["state"]) for each in found}


ON_SGLANG = {"l4-24gb-tp1": ("sglang", "Active")}
BESIDE = {AT_ONE_PLACE: ("vllm", "Active"), "l4-24gb-tp1": ("sglang", "Retiring")}


async def test_another_engine_that_alone_fits_the_same_gpus_is_proposed_and_serves_before_the_other_one_ends(
    opened: Open,
) -> None:
    room = await outgrown_place(opened)
    for _ in range(2):
        case = (await room.turn())["asks"]
        assert by_name(case) == ON_SGLANG
    [body] = room.proposals()
    assert (body["deployment"], body["reason"]) == ("asks", "OtherEngineFits")
    assert body["summary"] == "move 1 replica to vLLM on l4-24gb x 1, same price"
    answer = room.answer(body["id"])
    cases = await room.turn()
    assert by_name(cases["asks"]) == BESIDE
    assert room.outcome(answer) == "CarriedOut"
    assert live_part(cases["asks"])["changes"][-1]["engine"] == "vllm"
    chosen = (cases["asks"].new_status or {})["engine"]
    assert (chosen["name"], chosen["reason"]) == ("vllm", "Approved")
    assert chosen["message"] == "vLLM takes over from SGLang: the move to it was approved."
    assert images(room.there) == {*IMAGES.values()}
    for _ in range(3):
        cases = await room.turn()
        assert by_name(cases["asks"]) == {AT_ONE_PLACE: ("vllm", "Active")}
    assert by_name(cases["honest"]) == ON_SGLANG
    assert images(room.there, "honest") == {IMAGES["sglang"]}


def holds_too_little(there: LivePasses) -> None:
    """The engine of a deployment reports less cache than one request needs."""
    case = there.make()["asks"]
    [pod] = [pod.name for pod in case.outcome.deployment.placed.around.ready_pods()]
    ages = (19.0, 10.0, 1.0)
    samples = tuple(EngineSample(there.now - age, 0.6, 0, 1, 0, 1000, *2 * (there.now - age,)) for age in ages)
    there.passes.live.readings[case.key] = Reading({pod: PodSignals(pod, samples)})


async def test_an_engine_that_does_not_come_up_beside_the_other_one_closes_the_place_for_itself_alone(
    opened: Open,
) -> None:
    room = await outgrown_place(opened, concurrency=1)
    there = room.there
    for _ in range(2):
        there.carry_out(list(there.make().values()))
    holds_too_little(there)
    await room.turn()
    [body] = room.proposals()
    assert body["reason"] == "OtherEngineFits"
    room.answer(body["id"])
    holds_too_little(there)
    case = (await room.turn())["asks"]
    assert by_name(case) == BESIDE
    carry_out(there, case, kind=AT_ONE_PLACE)
    case = late(there, LEAST_SECONDS + 1)
    assert by_name(case) == ON_SGLANG
    [failed] = (case.new_status or {})["failedMoves"]
    assert (failed["gpuType"], failed.get("engine", "vllm"), failed["reason"]) == (L4, "vllm", "EnginesStarting")
    carry_out(there, case, kind=AT_ONE_PLACE)
    there.change("asks", generation=3, replicas=2)
    for _ in range(2):
        there.passes.live.readings.clear()
        cases = await room.turn()
    decision = cases["asks"].outcome.decision
    assert decision is not None
    here = {each.reason for each in decision.rejections if (each.gpu_type, each.split) == (L4, Split(1))}
    assert here == {Reason.OBSERVED_TOO_SMALL}, "by its own report, and not by the failure of the other engine"
    assert by_name(cases["asks"]) == ON_SGLANG
    assert by_name(cases["honest"]) == ON_SGLANG


async def test_a_rejected_engine_at_the_same_place_is_not_proposed_again(opened: Open) -> None:
    room = await outgrown_place(opened)
    await room.turn()
    [body] = room.proposals()
    room.answer(body["id"], decision="reject", reason="we know SGLang")
    for _ in range(3):
        case = (await room.turn())["asks"]
    assert (by_name(case), "proposal" in live_part(case)) == (ON_SGLANG, False)
    assert [each["id"] for each in room.proposals()] == [body["id"]]


class Walk:
    """A course of events over both deployments. New pods serve while ``comes_up`` is true."""

    def __init__(self, room: ProposalPasses, neighbour: dict[tuple[str, str], int]) -> None:
        self.neighbour = neighbour
        self.room, self.comes_up, self.generation, self.seen = room, True, 2, set[str]()
        self.seen = {body["metadata"]["name"] for body in room.there.store.all(PODS)}
        self.engine = "sglang"

    def ready(self, name: str = "asks") -> dict[str, str]:
        """The pool of each pod of a deployment that serves."""
        bodies = (dict(body) for body in self.room.there.store.all(PODS))
        mine = (body for body in bodies if body["metadata"]["labels"]["plimsoll.dev/deployment"] == name)
        return {
            body["metadata"]["name"]: body["metadata"]["labels"]["plimsoll.dev/pool"]
            for body in mine
            if body["status"]["conditions"][1]["status"] == "True"
        }

    async def take(self, step: str) -> None:
        there = self.room.there
        there.now += 20
        if step in ("approve", "reject"):
            for body in self.room.proposals():
                self.room.answer(body["id"], decision=step)
        elif step == "late":
            there.now += LEAST_SECONDS + 1
        elif step == "edit":
            self.generation += 1
            there.change("asks", generation=self.generation, engine={"name": "auto", "prefer": ["vllm", "sglang"]})
        elif step == "forge" and len(self.ready()) == 1:
            forge(there)
        else:
            self.comes_up = step != "fails"
        there.passes.live.readings.clear()
        if step != "late":
            busy(there)
        await self.passes()

    async def passes(self) -> None:
        """Make a pass, and check what it decided before the cluster does it."""
        there, served = self.room.there, self.ready()
        before = {body["metadata"]["name"]: body.get("status") or {} for body in there.store.all(APPROVALS)}
        cases = there.make()
        for case in cases.values():
            await self.room.proposal_writer.deliver(case)
        decision = cases["asks"].outcome.decision
        assert decision is not None
        kept = {pool.name for pool in decision.pools if pool.replicas}
        assert kept & {*served.values()}, "nothing that serves ends before its successor serves"
        [engine] = {pool.engine for pool in decision.pools if pool.is_active}
        if engine != self.engine:
            now = {name: self.room.outcome(name) for name in before}
            done = [name for name, outcome in now.items() if outcome == "CarriedOut" != before[name].get("state")]
            back = {pool.engine for pool in cases["asks"].outcome.deployment.placed.pools if pool.ready}
            assert done or engine in back, "an engine changes after an approval alone, or back to what serves"
        self.engine = engine
        assert (pools(cases["honest"]), {*engines(cases["honest"]).values()}) == (self.neighbour, {"sglang"})
        assert images(there, "honest") == {IMAGES["sglang"]}
        assert len({pool.name for pool in decision.pools}) == len(decision.pools)
        there.carry_out(list(cases.values()))
        self._clean_up(kept)

    def _clean_up(self, kept: set[str]) -> None:
        there = self.room.there
        for kind in (DEPLOYMENTS, PODS):
            for body in there.store.all(kind):
                labels = body["metadata"]["labels"]
                if labels["plimsoll.dev/deployment"] == "asks" and labels["plimsoll.dev/pool"] not in kept:
                    there.store.observe(kind, "DELETED", body)
        there_now = {body["metadata"]["name"]: body for body in there.store.all(PODS)}
        for name in there_now.keys() - self.seen if not self.comes_up else ():
            there.store.observe(PODS, "MODIFIED", unready(there, there_now[name]))
        self.seen |= there_now.keys()


@settings(max_examples=examples(15), deadline=None)
@given(
    at_one_place=st.booleans(),
    steps=st.lists(st.sampled_from(["look", "approve", "reject", "fails", "late", "edit", "forge"]), max_size=8),
)
def test_whatever_happens_an_engine_changes_after_an_approval_alone(
    at_one_place: bool,  # noqa: FBT001
    steps: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async def walk() -> None:
        there = LivePasses.open(tmp_path_factory.getbasetemp(), {L4: 4} if at_one_place else {L40S: 2})
        begun = outgrown_place if at_one_place else opened_choice
        kind = L4 if at_one_place else L40S
        course = Walk(await begun(lambda **_: there), {(kind, "Active"): 1})
        for step in ["look", *steps]:
            await course.take(step)
            await course.passes()
        await there.passes.reader.models.close()

    asyncio.run(walk())
