"""A silent replica is replaced through the whole operator, in memory: at peace, and killed at each of its writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import from_rfc3339, to_rfc3339
from testbed.fleet import gpu_node
from tests.support.installed import condition, inference_deployment
from tests.support.live_loop import engine_spec
from tests.support.operator_in_memory import Trouble
from tests.support.plays import Play, Theatre, hurried_theatre

HURT, NEIGHBOUR = ObjectKey("ns", "hurt"), ObjectKey("ns", "neighbour")
AUTO = {"mode": "Auto", "maxReplicas": 3, "windowSeconds": 8, "cooldownSeconds": 600}
REPLICAS = 2


async def prepared_in(theatre: Theatre, nodes: int = 3, gpus_of_first: int = 1, **rebalancing: Any) -> Play:
    """Return a play in which two replicas of each of two deployments serve, each with nodes of its own.

    The scheduler fills the first node first.
    """
    play = await theatre.begun(HURT)
    for key in (HURT, NEIGHBOUR):
        for number in range(nodes):
            gpus = 1 if number else gpus_of_first
            play.api.put(gpu_node(f"{key.name}-{number}", "L4", gpus, labels={"bench": key.name}))
        spec = engine_spec(key.name, AUTO | rebalancing, replicas=REPLICAS)
        play.api.put(inference_deployment(key.name, key.namespace, **spec))
    await play.go_on_until(lambda: all(len(play.nodes_of(key)) == REPLICAS for key in (HURT, NEIGHBOUR)))
    await play.rest()
    play.fewest = REPLICAS
    return play


def is_over(play: Play, old: str, node: str) -> bool:
    """Whether another replica serves elsewhere, and all is at rest."""
    serving, reported = play.nodes_of(HURT), play.live()
    is_replaced = old not in serving and node not in serving.values() and len(serving) == REPLICAS
    return is_replaced and "replacing" not in reported and reported.get("reason") == "WithinBand"


@pytest.fixture
async def theatre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Theatre]:
    async with hurried_theatre(tmp_path, monkeypatch) as made:
        yield made


async def test_a_silent_replica_goes_after_a_new_one_serves_on_another_node(theatre: Theatre) -> None:
    play = await prepared_in(theatre)
    neighbour, began = play.nodes_of(NEIGHBOUR), len(play.api.writes)
    old, node = min(play.nodes_of(HURT).items())
    play.engines.drop(old)
    await play.go_on_until(lambda: "replacing" in (play.status().get("rebalancing") or {}))
    reported = play.status()["rebalancing"]
    assert (reported["decision"], reported["reason"]) == ("ReplaceReplica", "ReplicaSilent")
    assert (reported["replacing"]["pod"], reported["replacing"]["node"]) == (old, node)
    assert [(each["reason"], each["node"]) for each in play.status()["rehomings"]] == [("ReplicaSilent", node)]
    await play.go_on_until(lambda: is_over(play, old, node))
    assert play.evicted() == [old]
    assert play.fewest == REPLICAS, "as many serve as before, all the time"
    assert [each["kind"] for each in play.status()["rebalancing"]["changes"]] == ["Replace"]
    assert play.nodes_of(NEIGHBOUR) == neighbour
    assert [write for write in play.writes(began) if "neighbour" in write[2]] == []
    [note] = play.notes("RebalancedReplaceReplica")
    assert f"on node {node}" in note


async def test_a_replaced_replica_goes_though_an_object_of_a_router_is_refused(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = await prepared_in(theatre)
    applied = play.api.apply

    def refuse(manifest: dict[str, Any], user: str) -> Any:
        if manifest["metadata"]["name"] == f"{HURT.name}-picker":
            raise ClusterRefused("apply it", 403, "a policy forbids it")
        return applied(manifest, user)

    monkeypatch.setattr(play.api, "apply", refuse)
    body = play.api.get(INFERENCE_DEPLOYMENTS, HURT) or {}
    routing = {"mode": "Standalone", "replicas": 1}
    play.api.put({**body, "spec": {**body["spec"], "routing": routing}})
    old, node = min(play.nodes_of(HURT).items())
    play.engines.drop(old)
    await play.go_on_until(lambda: is_over(play, old, node))
    assert play.evicted() == [old]
    assert play.fewest == REPLICAS
    assert condition(play.api.get(INFERENCE_DEPLOYMENTS, HURT) or {}, "Troubled")["reason"] == "RouterRefused"
    assert len(play.nodes_of(NEIGHBOUR)) == REPLICAS


@pytest.mark.parametrize("how", [Trouble.KILLED_BEFORE, Trouble.KILLED_AFTER], ids=["before", "after"])
async def test_killed_at_any_write_one_replica_is_replaced_once(theatre: Theatre, how: Trouble) -> None:
    prepared = await prepared_in(theatre)
    old, node = min(prepared.nodes_of(HURT).items())
    prepared.engines.drop(old)
    began, since = theatre.clock.now, len(prepared.api.writes)
    peace = await theatre.again(prepared)
    await peace.go_on_until(lambda: is_over(peace, old, node))
    for number, write in enumerate(peace.writes(since)):
        theatre.clock.now = began
        play = await theatre.again(prepared, partial(next, iter([*[None] * number, how]), None))
        await play.go_on_until(lambda: is_over(play, old, node))  # noqa: B023 - asked before the next round
        assert set(play.evicted()) == {old}, (how, write)
        assert play.fewest >= REPLICAS, (how, write)
        assert play.nodes_of(NEIGHBOUR) == prepared.nodes_of(NEIGHBOUR), (how, write)
        assert len(play.status()["rebalancing"]["changes"]) == 1, (how, write)


async def test_a_new_replica_that_is_silent_as_well_goes_and_the_old_one_stays(theatre: Theatre) -> None:
    play = await prepared_in(theatre)
    old, _ = min(play.nodes_of(HURT).items())
    before = set(play.nodes_of(HURT))
    play.engines.drop(old)
    await play.go_on_until(lambda: len(play.nodes_of(HURT)) == REPLICAS + 1)
    (new,) = play.nodes_of(HURT).keys() - before
    play.engines.drop(new)
    await play.go_on_until(lambda: (play.status()["rebalancing"]).get("reason") == "ReplacingDoesNotHelp")
    await play.go_on_until(lambda: play.nodes_of(HURT).keys() == before)
    assert play.evicted() == []
    assert [each["kind"] for each in play.status()["rebalancing"]["changes"]] == ["Replace", "RollBack"]
    assert play.notes("ReplacementEnded") == [
        f"Pod {old} is not replaced: the new replica is no better, so it is not the node."
    ]
    assert [note.endswith("the node was not the cause.") for note in play.notes("NodeUsedAgain")] == [True]
    assert left(play) == []


async def test_a_new_replica_on_the_same_node_says_nothing_about_others_and_another_is_tried(theatre: Theatre) -> None:
    """The scheduler may choose the node that the plan avoids: the pods' template is that of the healthy replicas."""
    play = await prepared_in(theatre, gpus_of_first=REPLICAS + 1)
    before = play.nodes_of(HURT)
    old, node = min(before.items())
    play.engines.drop(old)
    await play.go_on_until(lambda: len(play.nodes_of(HURT)) == REPLICAS + 1)
    assert set(play.nodes_of(HURT).values()) == {node}
    (new,) = play.nodes_of(HURT).keys() - before.keys()
    play.engines.drop(new)
    await play.go_on_until(lambda: play.nodes_of(HURT) == before and bool(play.notes("ReplacementEnded")))
    [note] = play.notes("ReplacementEnded")
    assert note.endswith("the new replica came to the same node and is no better; cordon the node to try another one.")
    await play.operator.go_on()
    assert play.status()["rebalancing"]["reason"] == "CoolingDown"
    play.api.put(gpu_node(node, "L4", REPLICAS + 1, labels={"bench": HURT.name}, unschedulable=True))
    theatre.clock.now += 3600
    await play.go_on_until(lambda: play.evicted() == [old])
    assert set(play.nodes_of(HURT).values()) == {node, f"{HURT.name}-1"}


async def replaced_in(theatre: Theatre, nodes: int = 3, **more: int) -> tuple[Play, str]:
    """Return a play in which a silent replica was replaced, and the node that was left for it."""
    play = await prepared_in(theatre, nodes=nodes, **more)
    old, node = min(play.nodes_of(HURT).items())
    play.engines.drop(old)
    await play.go_on_until(lambda: old in play.evicted() and "replacing" not in play.live())
    return play, node


def scale(play: Play, replicas: int) -> None:
    """Let somebody change ``spec.replicas``."""
    play.api.patch(INFERENCE_DEPLOYMENTS, HURT, None, {"spec": {"replicas": replicas}})


def left(play: Play) -> list[str]:
    """The nodes that take no further replicas, as the status says."""
    return [each["node"] for each in play.status().get("rehomings", []) if not each.get("usedAgain")]


async def test_the_node_is_left_for_an_hour_across_restarts_and_the_event_says_until_when(theatre: Theatre) -> None:
    play, node = await replaced_in(theatre)
    [note] = play.notes("RebalancedReplaceReplica")
    [entry] = play.status()["rehomings"]
    until = to_rfc3339((from_rfc3339(entry["at"]) or 0.0) + 3600)
    assert note.endswith(f"Replicas are added on node {node} before {until} only if no other has room.")
    again = await theatre.again(play)
    await again.rest()
    assert left(again) == [node]
    hint = f"Replicas are added on {node} (until {until}: ReplicaSilent) only if no other node has room."
    assert hint in again.live()["hints"]
    theatre.clock.now += 3600
    await again.rest()
    assert left(again) == []
    assert again.notes("NodeUsedAgain") == [], "time alone is no news"
    assert hint not in again.live().get("hints", [])


async def test_a_deployment_without_other_room_uses_the_node_and_says_so(theatre: Theatre) -> None:
    play, node = await replaced_in(theatre)
    neighbour, began = play.nodes_of(NEIGHBOUR), len(play.api.writes)
    scale(play, REPLICAS + 1)
    await play.go_on_until(lambda: len(play.nodes_of(HURT)) == REPLICAS + 1)
    assert node in play.nodes_of(HURT).values()
    assert left(play) == []
    assert play.notes("NodeUsedAgain") == [
        f"Replicas may be added on node {node} again, which was left for a slow or silent one: no other node has room."
    ]
    assert play.nodes_of(NEIGHBOUR) == neighbour
    assert [write for write in play.writes(began) if "neighbour" in write[2]] == []


async def test_a_load_that_needs_one_more_replica_does_not_wait_for_the_hour(theatre: Theatre) -> None:
    play, node = await replaced_in(theatre)
    play.engines.load(str(HURT), kv_tokens=10**6)
    await play.go_on_until(lambda: len(play.nodes_of(HURT)) == REPLICAS + 1)
    assert node in play.nodes_of(HURT).values()
    assert [note.endswith("no other node has room.") for note in play.notes("NodeUsedAgain")] == [True]


async def test_replicas_of_a_node_that_goes_move_to_the_node_that_was_left_before_they_end(theatre: Theatre) -> None:
    play, node = await replaced_in(theatre)
    goes = max(play.nodes_of(HURT).values())
    play.api.put(gpu_node(goes, "L4", 1, labels={"bench": HURT.name}, unschedulable=True))
    await play.go_on_until(lambda: len(play.nodes_of(HURT)) == REPLICAS + 1)
    assert set(play.nodes_of(HURT).values()) >= {node, goes}
    assert [note.endswith("no other node has room.") for note in play.notes("NodeUsedAgain")] == [True]


async def test_a_silent_replica_on_a_node_that_is_used_again_is_replaced_as_soon_as_another_has_room(
    theatre: Theatre,
) -> None:
    """It is no sign that replacing does not help: the deployment knew the node, and had no other."""
    play, node = await replaced_in(theatre)
    scale(play, REPLICAS + 1)
    await play.go_on_until(lambda: len(play.nodes_of(HURT)) == REPLICAS + 1)
    [again] = [pod for pod, where in play.nodes_of(HURT).items() if where == node]
    play.engines.drop(again)
    await play.go_on_until(lambda: play.live().get("reason") == "NoPlaceFound")
    play.api.put(gpu_node("hurt-late", "L4", 1, labels={"bench": "hurt"}))
    await play.go_on_until(lambda: again in play.evicted())
    await play.go_on_until(lambda: "hurt-late" in play.nodes_of(HURT).values())


async def test_a_replica_that_serves_there_as_others_do_clears_the_node(theatre: Theatre) -> None:
    """The scheduler of these tests fills the first node first, so the new replica serves next to the silent one."""
    play, node = await replaced_in(theatre, gpus_of_first=REPLICAS + 1)
    await play.go_on_until(lambda: bool(play.notes("NodeUsedAgain")))
    assert play.notes("NodeUsedAgain")[0].endswith("the node was not the cause.")
    assert left(play) == []
    assert set(play.nodes_of(HURT).values()) == {node}


async def test_without_another_node_it_waits_for_one_and_nothing_ends(theatre: Theatre) -> None:
    play = await prepared_in(theatre, nodes=REPLICAS)
    before = play.nodes_of(HURT)
    play.engines.drop(min(before))
    await play.go_on_until(lambda: play.status()["rebalancing"].get("reason") == "NoPlaceFound")
    for _ in range(5):
        await play.operator.go_on()
    assert play.nodes_of(HURT) == before
    node = gpu_node("hurt-late", "L4", 1, labels={"bench": "hurt"})
    play.api.put(node)
    await play.go_on_until(lambda: is_over(play, min(before), before[min(before)]))


async def test_an_eviction_that_is_refused_stops_nothing_and_is_said(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = await prepared_in(theatre)
    old, node = min(play.nodes_of(HURT).items())
    with monkeypatch.context() as forbids:
        forbids.setattr(play.api, "evict", partial(_refuse, 403))
        play.engines.drop(old)
        await play.go_on_until(lambda: bool(play.notes("ReplacementEnded")))
        for _ in range(5):
            await play.operator.go_on()
        assert "What helps: allow the operator to create pods/eviction" in play.notes("ReplacementEnded")[0]
        assert len(play.nodes_of(HURT)) == REPLICAS + 1
    await play.go_on_until(lambda: is_over(play, old, node))


def _refuse(status: int, *_: object) -> None:
    raise ClusterRefused("evict pod", status, "forbidden")


async def test_in_recommend_mode_it_is_only_proposed(theatre: Theatre) -> None:
    play = await prepared_in(theatre, mode="Recommend")
    old, node = min(play.nodes_of(HURT).items())
    play.engines.drop(old)
    await play.go_on_until(lambda: play.status()["rebalancing"].get("reason") == "ReplicaSilent")
    assert play.status()["rebalancing"]["proposal"].startswith(f"Cordon node {node} and delete pod {old} once another")
    for _ in range(10):
        await play.operator.go_on()
    assert play.evicted() == []
    assert len(play.nodes_of(HURT)) == REPLICAS
