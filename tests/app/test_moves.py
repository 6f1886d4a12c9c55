"""Moves for a promise and for the price, in whole passes: proposed or carried out, and not taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.adapters.cluster.client import NODES
from plimsoll.app.plan.rendered import Desired
from plimsoll.decision.memory import TurnMemo
from plimsoll.domain.cluster.gpus import Billing
from plimsoll.placement.demands.pools import PoolState
from plimsoll.rebalance.diagnosis.diagnose import MISSED_SECONDS
from plimsoll.rebalance.places.elsewhere import moment_of
from plimsoll.rebalance.signals.metrics import PodSignals
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.memory import Look, LoopMemory
from testbed.fleet import gpu_node
from tests.app.test_rolled_back import carry_out
from tests.support.engine_loads import Serves, moments
from tests.support.live_passes import H100, L4, L40S, PRODUCTS, LivePasses, Open, live_part, pools

AUTO = {"mode": "Auto", "maxReplicas": 4, "cooldownSeconds": 60}
LIGHT = Serves(rate=0.05, prompt=500, output=100, token_seconds=0.01, running=1)
SLOW = Serves(rate=0.05, prompt=500, output=100, token_seconds=0.06, running=1)


def with_nodes(there: LivePasses, **gpus: int) -> None:
    """Let the cluster have these nodes from now on."""
    names = {"l4": L4, "l40s": L40S, "h100": H100}
    bodies = [gpu_node(names[each], PRODUCTS[names[each]], count) for each, count in gpus.items()]
    for body in bodies:
        body["metadata"] |= {"uid": f"node-{body['metadata']['name']}", "resourceVersion": str(there.version)}
    there.version += 1
    there.store.replace(NODES, bodies)


def serves(there: LivePasses, case: Desired, load: Serves, **learned: object) -> None:
    """Let all pods have this load for long, until a moment at which the deployment may look for another place."""
    there.now = moment_of(case.key, there.now) + 5
    pods = [pod.name for pod in case.outcome.deployment.placed.around.ready_pods()]
    held = replace(load, capacity=None)
    samples = tuple(held.sample(at) for at in moments(600, end=there.now - 1))
    there.passes.live.readings[case.key] = Reading({name: PodSignals(name, samples) for name in pods})
    [active] = [pool.name for pool in case.outcome.deployment.placed.pools if pool.state is PoolState.ACTIVE]
    turns = (there.now - 15 * index for index in range(40, 0, -1))
    looks = tuple(Look(at, 1, at, load.rate) for at in turns)
    memory = LoopMemory(pool=active, looks=looks, **learned)  # type: ignore[arg-type]
    there.passes.memory.turns = TurnMemo(there.passes.memory.turns.memories | {case.uid: memory})


def comes_and_goes(there: LivePasses) -> None:
    """Let the admin say that nodes are paid for only as long as something runs there."""
    there.passes.reader.settings = replace(there.passes.settings, billing=Billing.ON_DEMAND)


async def settled(there: LivePasses) -> None:
    """Carry out what was decided, until it serves."""
    for _ in range(3):
        there.passes.live.readings.clear()
        there.carry_out(list(there.make().values()))


async def test_a_calm_deployment_goes_to_a_cheaper_gpu_and_stays_there(opened: Open) -> None:
    there = opened(h100=2)
    comes_and_goes(there)
    there.put("dear", H100, L4, rebalancing=AUTO)
    there.put("honest", H100, rebalancing=AUTO)
    await there.settle()
    with_nodes(there, h100=2, l4=2)
    for case in there.make().values():
        serves(there, case, LIGHT)
    serves(there, there.make()["dear"], LIGHT)
    cases = there.make()
    assert pools(cases["dear"]) == {(L4, "Active"): 1, (H100, "Retiring"): 1}
    assert pools(cases["honest"]) == {(H100, "Active"): 1}
    reported = live_part(cases["dear"])
    assert (reported["decision"], reported["reason"], reported["diagnosis"]) == (
        "Move",
        "CheaperPlace",
        "CheaperElsewhere",
    )
    assert reported["message"].startswith(
        "The same load would cost 0.42 US dollars an hour instead of 3.08 (86 % less)"
    )
    there.carry_out(list(cases.values()))
    await settled(there)
    there.now += 7200
    serves(there, there.make()["dear"], LIGHT)
    again = there.make()
    assert pools(again["dear"]) == {(L4, "Active"): 1}
    assert live_part(again["dear"])["decision"] != "Move"


async def test_nothing_moves_from_nodes_that_are_paid_for_to_save_money(opened: Open) -> None:
    there = opened(h100=2)
    there.put("dear", H100, L4, rebalancing=AUTO)
    await there.settle()
    with_nodes(there, h100=2, l4=2)
    for _ in range(3):
        serves(there, there.make()["dear"], LIGHT)
        made = there.make()["dear"]
        assert pools(made) == {(H100, "Active"): 1}
        assert live_part(made)["decision"] == "Keep"


async def test_a_cheaper_place_is_proposed_where_people_decide(opened: Open) -> None:
    there = opened(h100=2)
    comes_and_goes(there)
    there.put("asks", H100, L4, rebalancing=AUTO | {"moves": "Recommend"})
    await there.settle()
    with_nodes(there, h100=2, l4=2)
    serves(there, there.make()["asks"], LIGHT)
    case = there.make()["asks"]
    assert pools(case) == {(H100, "Active"): 1}
    reported = live_part(case)
    assert (reported["decision"], reported["reason"]) == ("Move", "CheaperPlace")
    assert reported["proposal"].startswith("Set spec.rebalancing.moves to Auto to move. The same load would cost 0.42 ")


async def test_the_status_names_the_place_that_is_proposed_now(opened: Open) -> None:
    there = opened(h100=2)
    comes_and_goes(there)
    there.put("asks", H100, L40S, L4, rebalancing=AUTO | {"moves": "Recommend"})
    there.put("honest", H100, rebalancing=AUTO | {"moves": "Recommend"})
    await there.settle()
    for free in (L4, L40S):
        with_nodes(there, h100=2, **{"l4": 2} if free == L4 else {"l40s": 2})
        serves(there, there.make()["asks"], LIGHT)
        cases = there.make()
        there.carry_out(list(cases.values()))
        reported = live_part(cases["asks"])
        assert (reported["decision"], reported["reason"]) == ("Move", "CheaperPlace")
        assert f"with 1 replica on {free} x 1 instead" in reported["message"]
        assert reported["message"] in reported["proposal"]
        assert live_part(cases["honest"]).get("decision") != "Move"


async def test_what_engines_measure_counts_for_the_next_deployment_like_it(opened: Open) -> None:
    there = opened(l40s=4)
    for name, model in {"slow": "Qwen/Qwen2.5-7B-Instruct", "honest": "Qwen/Qwen3-4B"}.items():
        there.put(name, L40S, model={"name": model}, rebalancing=AUTO)
    await there.settle()
    serves(there, there.make()["slow"], LIGHT, slowness=1.6)
    there.carry_out(list(there.make().values()))
    for name, model in {"new": "Qwen/Qwen2.5-7B-Instruct", "other": "Qwen/Qwen3-4B"}.items():
        there.put(name, L40S, model={"name": model}, created="04:00:00")
    await there.settle()
    made = there.make()
    performance = {}
    for name in ("slow", "new", "other", "honest"):
        status = made[name].new_status
        assert status is not None
        performance[name] = status["placement"]["performance"]
    assert [performance[name]["countedPercent"] for name in ("slow", "new")] == [125, 125]
    assert not any("countedPercent" in performance[name] for name in ("honest", "other"))
    assert live_part(made["slow"])["learned"]["tokenTimePercent"] == 132


async def test_a_load_that_is_not_calm_stays(opened: Open) -> None:
    there = opened(h100=2)
    there.put("busy", H100, L4, rebalancing=AUTO)
    await there.settle()
    with_nodes(there, h100=2, l4=2)
    serves(there, there.make()["busy"], replace(LIGHT, waiting=2))
    assert pools(there.make()["busy"]) == {(H100, "Active"): 1}


@pytest.mark.parametrize(
    ("load", "moves"), [(SLOW, True), (replace(SLOW, token_seconds=0.02), False)], ids=["missed", "kept"]
)
async def test_a_promise_that_no_replica_keeps_moves_the_deployment(opened: Open, load: Serves, *, moves: bool) -> None:
    there = opened(l40s=2)
    there.put("slow", L40S, H100, rebalancing=AUTO, slo={"tpotMilliseconds": 40})
    await there.settle()
    with_nodes(there, l40s=2, h100=1)
    case = there.make()["slow"]
    serves(there, case, load, slowness=2.5, missed_since=there.now - MISSED_SECONDS)
    case = there.make()["slow"]
    expected = {(H100, "Active"): 1, (L40S, "Retiring"): 1} if moves else {(L40S, "Active"): 1}
    assert pools(case) == expected
    assert (live_part(case)["reason"] == "PromiseOutOfReach") is moves


@pytest.mark.parametrize("serves_there", [False, True])
async def test_a_spec_that_forbids_the_new_place_calls_the_old_pool_back(opened: Open, *, serves_there: bool) -> None:
    """Else the old pool would hold the GPU that its successor waits for. A new replica that serves stays for now."""
    there = opened(h100=2)
    comes_and_goes(there)
    there.put("dear", H100, L4, rebalancing=AUTO)
    there.put("honest", H100, rebalancing=AUTO)
    await there.settle()
    with_nodes(there, h100=2, l4=2)
    serves(there, there.make()["dear"], LIGHT)
    case = there.make()["dear"]
    assert pools(case) == {(L4, "Active"): 1, (H100, "Retiring"): 1}
    if serves_there:
        there.carry_out([case])
    else:
        carry_out(there, case, kind=L4)
    there.change("dear", gpu={"allow": [H100]})
    there.passes.live.readings.clear()
    cases = there.make()
    decision = cases["dear"].outcome.decision
    assert decision is not None
    if serves_there:
        assert pools(cases["dear"])[L4, "Active"] == 1
    else:
        assert (pools(cases["dear"]), decision.missing) == ({(H100, "Active"): 1}, 0)
    assert pools(cases["honest"]) == {(H100, "Active"): 1}
