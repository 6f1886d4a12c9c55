"""Others make room for one more replica after somebody has approved it: through the whole operator, in memory.

``asks`` needs two GPUs on one node for each replica. ``mover`` has one replica in the way, and another node to go to. A
neighbour has the same nodes and the same load, and nobody asks anything of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import APPROVALS, DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, PODS
from plimsoll.app.watch.node_groups import NodeGroups, declared_in
from plimsoll.app.watch.store import key_of
from plimsoll.decision import room_orders
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.priority_reading import PREEMPTS
from plimsoll.rebalance.state import replacement
from testbed.fleet import gpu_node
from tests.support.installed import inference_deployment
from tests.support.live_loop import engine_spec
from tests.support.operator_in_memory import Trouble
from tests.support.plays import Play, Theatre, hurried_theatre

ASKS, MOVER, NEIGHBOUR = ObjectKey("ns", "asks"), ObjectKey("ns", "mover"), ObjectKey("ns", "neighbour")
AUTO = {"mode": "Auto", "maxReplicas": 3, "windowSeconds": 8, "cooldownSeconds": 600}
ADVICE = AUTO | {"mode": "Recommend"}
PRESSURE = 79_200
TWO_GPUS: dict[str, Any] = {"gpu": {"maxPerReplica": 2}, "overrides": {"tensorParallel": 2}}
NIGHT = {"maintenanceWindows": [{"schedule": "0 3 * * *", "duration": "1h"}]}
"""The clock of these tests stands at 22:26."""


@pytest.fixture
async def theatre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Theatre]:
    async with hurried_theatre(tmp_path, monkeypatch) as made:
        yield made


def deploy(play: Play, key: ObjectKey, bench: str, rebalancing: dict[str, Any] | None = None, **spec: Any) -> None:
    made = engine_spec(bench, AUTO if rebalancing is None else rebalancing, **spec)
    play.api.put(inference_deployment(key.name, key.namespace, **made))


def add_node(play: Play, name: str, gpus: int, bench: str = "shared") -> None:
    play.api.put(gpu_node(name, "L4", gpus, labels={"bench": bench}))


async def all_serve(play: Play, key: ObjectKey, count: int = 1) -> None:
    await play.go_on_until(lambda: len(play.nodes_of(key)) == count)


async def prepared_in(
    theatre: Theatre,
    asks: dict[str, Any] | None = None,
    mover: dict[str, Any] | None = None,
    free: str = "b-free",
    mover_in: str = "ns",
) -> Play:
    """Return a play in which a proposal stands that moves a replica to the node ``free``."""
    play = await theatre.begun(MOVER)
    for name, gpus in {"c-full": 2, "c-shared": 1, "c-free": 1}.items():
        add_node(play, name, gpus, "calm")
    deploy(play, NEIGHBOUR, "calm")
    add_node(play, "a-full", 2)
    deploy(play, ASKS, "shared", asks, **TWO_GPUS)
    await all_serve(play, ASKS)
    add_node(play, "m-shared", 2)
    deploy(play, ObjectKey(mover_in, "mover"), "shared", mover)
    await all_serve(play, MOVER)
    await all_serve(play, NEIGHBOUR)
    add_node(play, free, 1)
    play.engines.load("ns/asks", kv_tokens=PRESSURE)
    await play.go_on_until(lambda: bool(play.proposals(ASKS)))
    await play.rest(3)
    play.fewest = 1
    return play


def is_made(play: Play) -> bool:
    """Whether the replica that needed room serves, and all is at rest."""
    serving, moved = play.nodes_of(ASKS), play.nodes_of(MOVER)
    is_there = sorted(serving.values()) == ["a-full", "m-shared"] and list(moved.values()) == ["b-free"]
    rest = all(play.live(key).get("reason") == "WithinBand" for key in (ASKS, MOVER))
    return is_there and rest and "room" not in play.live(ASKS) and "replacing" not in play.live(MOVER)


def kinds(play: Play, key: ObjectKey) -> list[tuple[str, str]]:
    return [(each["kind"], each.get("reason", "")) for each in play.live(key).get("changes", ())]


@pytest.mark.parametrize("asks", [AUTO, ADVICE], ids=["Auto", "Recommend"])
async def test_an_approval_moves_the_replica_in_the_way_and_then_adds_one(
    theatre: Theatre, asks: dict[str, Any]
) -> None:
    play = await prepared_in(theatre, asks)
    neighbour, [old], began = play.nodes_of(NEIGHBOUR), play.nodes_of(MOVER), len(play.api.writes)
    [proposal] = play.proposals(ASKS)
    assert "An approval has the operator do it." in proposal["message"]
    await play.rest(5)
    assert play.writes(began) == [], "nothing is done without an approval"
    play.approve(ASKS)
    await play.go_on_until(lambda: "replacing" in play.live(MOVER))
    reported = play.live(MOVER)["replacing"]
    assert (reported["pod"], reported["node"], reported["reason"]) == (old, "m-shared", "MakesRoom")
    assert reported["makesRoomFor"] == "asks"
    assert f"Pod {old} on node m-shared goes to another node, to make room for asks" in play.live(MOVER)["lastChange"]
    assert play.live(ASKS)["lastChange"].endswith("Others make room for it first. Approved by alex.")
    assert [each["pod"] for each in play.live(ASKS)["room"]["leaving"]] == [_uid(play, old)]
    await play.go_on_until(lambda: is_made(play))
    assert (play.evicted(), play.fewest) == ([old], 1)
    assert (kinds(play, MOVER), [kind for kind, _ in kinds(play, ASKS)]) == ([("Replace", "MakesRoom")], ["Add"])
    assert (play.outcome(), play.proposals(ASKS), play.live(ASKS)["targetReplicas"]) == ("CarriedOut", [], 2)
    assert play.nodes_of(NEIGHBOUR) == neighbour
    assert [write for write in play.writes(began) if "neighbour" in write[2]] == []


def _uid(play: Play, pod: str) -> str:
    [body] = [body for body in play.api.all(PODS) if body["metadata"]["name"] == pod]
    return str(body["metadata"]["uid"])


async def test_who_is_in_another_namespace_is_moved_and_not_named(theatre: Theatre) -> None:
    play = await prepared_in(theatre, mover_in="secret")
    mover = ObjectKey("secret", "mover")
    play.approve(ASKS)
    await play.go_on_until(lambda: "replacing" in play.live(mover))
    assert play.live(mover)["replacing"]["makesRoomFor"] == "another deployment"
    assert "asks" not in json.dumps(play.status(mover))
    await all_serve(play, ASKS, 2)
    own = {name: value for name, value in play.live(ASKS).items() if name != "room"}
    assert "mover" not in json.dumps([own, play.notes("RebalancedAddReplica")])


@pytest.mark.parametrize(
    ("mover", "is_offered"),
    [(ADVICE, False), (AUTO | {"moves": "Recommend"}, False), ({"mode": "Off"}, False), (AUTO | NIGHT, True)],
    ids=["it proposes only", "it asks before moves", "its loop is off", "its window is closed"],
)
async def test_who_does_not_let_its_loop_move_it_now_is_not_moved_for_others(
    theatre: Theatre, mover: dict[str, Any], *, is_offered: bool
) -> None:
    play = await prepared_in(theatre, mover=mover)
    before = play.nodes_of(MOVER)
    [proposal] = play.proposals(ASKS)
    assert ("An approval has the operator do it." in proposal["message"]) == is_offered
    play.approve(ASKS)
    await play.rest(12)
    assert (play.outcome(), play.evicted(), play.nodes_of(MOVER)) == ("Waiting", [], before)
    assert (play.live(ASKS)["targetReplicas"], len(play.pods_of(MOVER))) == (1, 1)


def _leaves(play: Play) -> None:
    for body in play.api.all(APPROVALS):
        play.api.delete(APPROVALS, key_of(body))


def _refuses(play: Play) -> None:
    """Somebody refuses the same proposal instead."""
    [approval] = play.api.all(APPROVALS)
    _leaves(play)
    head = {"name": "refuses", "namespace": ASKS.namespace}
    play.api.put({**approval, "metadata": head, "spec": approval["spec"] | {"decision": "reject"}, "status": {}})


def _changes(key: ObjectKey, play: Play, **rebalancing: Any) -> None:
    body = play.api.get(INFERENCE_DEPLOYMENTS, key)
    assert body is not None
    play.api.put({**body, "spec": {**body["spec"], "rebalancing": body["spec"]["rebalancing"] | rebalancing}})


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (_leaves, "its approval is gone"),
        (_refuses, "its approval is gone"),
        (partial(_changes, ASKS, windowSeconds=9), "the spec has changed"),
        (partial(_changes, MOVER, mode="Recommend"), "its owner does not let it any more"),
        (None, "it took too long"),
    ],
    ids=[
        "the approval is deleted",
        "it is refused instead",
        "the spec changes",
        "the other owner forbids it",
        "its time is over",
    ],
)
async def test_an_order_that_counts_no_longer_is_left_undone(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch, cause: Callable[[Play], None] | None, why: str
) -> None:
    play = await prepared_in(theatre)
    before = play.nodes_of(MOVER)
    play.approve(ASKS)
    await play.go_on_until(lambda: len(play.nodes_of(MOVER)) == 2)
    if cause is None:
        monkeypatch.setattr(room_orders, "ROOM_SECONDS", 5.0)
    else:
        cause(play)
    await play.go_on_until(lambda: "room" not in play.live(ASKS))
    assert why in play.live(ASKS)["lastChange"]
    assert [note for note in play.notes("ReplacementEnded") if note.startswith("No replica is added")]
    await play.go_on_until(lambda: play.nodes_of(MOVER) == before)
    await play.rest(5)
    assert (play.evicted(), play.nodes_of(MOVER), play.fewest) == ([], before, 1)
    assert (play.live(ASKS)["targetReplicas"], "replacing" in play.live(MOVER)) == (1, False)
    assert kinds(play, ASKS) == [("TakeBack", "NoRoomWasMade")]


async def test_while_the_cluster_s_switch_is_set_an_order_neither_goes_on_nor_ends(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = await prepared_in(theatre)
    play.approve(ASKS)
    await play.go_on_until(lambda: "replacing" in play.live(MOVER))
    reader, ordered = play.operator.passes.reader, play.live(ASKS)["room"]
    usual = reader.settings
    reader.settings = replace(usual, rebalancing_suspended=True)
    with monkeypatch.context() as context:
        context.setattr(room_orders, "ROOM_SECONDS", 5.0)
        await play.rest(20)
        assert (play.live(ASKS)["room"], play.evicted(), play.fewest) == (ordered, [], 1)
    reader.settings = usual
    await play.go_on_until(lambda: is_made(play))


async def test_a_new_replica_that_does_not_serve_leaves_the_old_one_and_nothing_is_tried_again(
    theatre: Theatre,
) -> None:
    play = await prepared_in(theatre)
    before = play.nodes_of(MOVER)
    play.approve(ASKS)
    await play.go_on_until(lambda: len(play.nodes_of(MOVER)) == 2)
    [new] = play.nodes_of(MOVER).keys() - before
    play.engines.drop(new)
    await play.go_on_until(lambda: "room" not in play.live(ASKS))
    await play.go_on_until(lambda: play.nodes_of(MOVER) == before)
    assert kinds(play, MOVER) == [("Replace", "MakesRoom"), ("RollBack", "MakesRoom")]
    await play.go_on_until(lambda: bool(play.proposals(ASKS)))
    assert all("An approval has the operator do it." not in each["message"] for each in play.proposals(ASKS))
    _leaves(play)
    play.approve(ASKS)
    await play.rest(20)
    assert (play.evicted(), play.nodes_of(MOVER), play.fewest) == ([], before, 1)
    assert play.outcome() == "Waiting"


async def test_a_new_replica_on_the_node_that_is_to_be_left_is_ended_and_the_old_one_stays(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler of these tests puts it there again and again: its pods end at once."""
    monkeypatch.setattr(replacement, "STRAY_SECONDS", 5.0)
    monkeypatch.setattr(replacement, "LONGEST_SECONDS", 10.0)
    play = await prepared_in(theatre, free="z-free")
    [old] = play.nodes_of(MOVER)
    play.approve(ASKS)
    await play.go_on_until(lambda: "room" not in play.live(ASKS) and bool(play.evicted()))
    assert old not in play.evicted()
    assert len(set(play.evicted())) <= 3
    await play.rest(5)
    assert (list(play.nodes_of(MOVER)), play.fewest) == ([old], 1)
    assert play.live(ASKS)["targetReplicas"] == 1


@pytest.mark.parametrize("approved", [False, True], ids=["without an approval", "with an approval of other pods"])
async def test_an_order_that_somebody_else_writes_into_a_status_moves_nobody(
    theatre: Theatre, *, approved: bool
) -> None:
    play = await prepared_in(theatre)
    [(neighbour, node)] = play.nodes_of(NEIGHBOUR).items()
    forged = {"proposal": play.proposals(ASKS)[0]["id"], "basis": "0" * 12, "approval": "nobody", "generation": 1}
    forged["began"] = play.api.clock.text
    if approved:
        play.approve(ASKS)
        await play.go_on_until(lambda: "room" in play.live(ASKS))
        forged = play.live(ASKS)["room"]
    leaving = [{"pod": _uid(play, neighbour), "node": node}]
    loop = play.live(ASKS) | {"room": forged | {"leaving": leaving}, "targetReplicas": 2}
    play.api.put_status(INFERENCE_DEPLOYMENTS, ASKS, {"rebalancing": loop})
    await play.rest(8)
    assert (play.evicted(), len(play.pods_of(NEIGHBOUR)), len(play.pods_of(MOVER))) == ([], 1, 1)
    assert "its approval is gone" in play.live(ASKS)["lastChange"]
    assert "room" not in play.live(ASKS)


async def test_no_new_node_is_woken_for_a_replica_for_which_others_make_room(theatre: Theatre) -> None:
    play = await prepared_in(theatre)
    group = {"name": "late", "gpuType": "l40s-48gb", "gpusPerNode": 2, "maxNodes": 9}
    labels = {"bench": "shared", "pool": "late"}
    declared = json.dumps([group | {"labels": labels, "scaleUp": {"maxHourlyPrice": "20"}}])
    play.operator.passes.node_groups = NodeGroups(declared_in(declared, tuple(load_gpu_types())))
    play.approve(ASKS)
    await play.go_on_until(lambda: is_made(play))
    assert len(play.status(ASKS)["pools"]) == 1


TAKER = ObjectKey("ns", "taker")


async def test_the_wish_of_another_loop_gets_nothing_where_room_is_made(theatre: Theatre) -> None:
    play = await prepared_in(theatre)
    add_node(play, "a-taker", 1)
    deploy(play, TAKER, "shared", AUTO)
    await play.go_on_until(lambda: list(play.nodes_of(TAKER).values()) == ["a-taker"])
    play.approve(ASKS)
    await play.go_on_until(lambda: len(play.nodes_of(MOVER)) == 2)
    play.engines.load("ns/taker", kv_tokens=PRESSURE)
    await play.go_on_until(lambda: is_made(play))
    assert list(play.nodes_of(TAKER).values()) == ["a-taker"]
    assert play.live(TAKER)["reason"] in ("NoPlaceFound", "OthersCanMakeRoom")


GOLD = {"nodeSelector": {"bench": "shared"}, "priorityClassName": "gold"}


def gold_class(*, preempts: bool) -> dict[str, Any]:
    head = {"name": "gold", "annotations": {PREEMPTS: "true"} if preempts else {}}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": head, "value": 1000}


async def reclaiming_in(theatre: Theatre, low: dict[str, Any] | None = None, *, preempts: bool = True) -> Play:
    """Return a play in which ``mover`` has two replicas that its load needs, and ``asks`` has a higher priority."""
    play = await theatre.begun(MOVER)
    play.api.put(gold_class(preempts=preempts))
    for number in range(3):
        add_node(play, f"n-{number}", 1)
    for name, gpus in {"c-0": 1, "c-1": 1}.items():
        add_node(play, name, gpus, "calm")
    deploy(play, NEIGHBOUR, "calm", AUTO | {"minReplicas": 2}, replicas=2)
    template = engine_spec("shared", AUTO)["podTemplate"] | GOLD
    deploy(play, ASKS, "shared", AUTO, podTemplate=template)
    deploy(play, MOVER, "shared", AUTO if low is None else low, replicas=2)
    await all_serve(play, ASKS)
    await all_serve(play, MOVER, 2)
    await all_serve(play, NEIGHBOUR, 2)
    play.engines.load("ns/mover", kv_tokens=PRESSURE)
    play.engines.load("ns/asks", kv_tokens=PRESSURE)
    await play.rest(12)
    play.fewest = 2
    return play


async def test_a_replica_of_lower_priority_ends_after_an_approval_and_comes_back_when_there_is_room(
    theatre: Theatre,
) -> None:
    play = await reclaiming_in(theatre)
    neighbour, low = play.nodes_of(NEIGHBOUR), play.nodes_of(MOVER)
    assert len(play.proposals(ASKS)) == 1
    assert play.evicted() == []
    play.approve(ASKS)
    await play.go_on_until(lambda: "replacing" in play.live(MOVER))
    gone = play.live(MOVER)["replacing"]
    assert (gone["reason"], gone["makesRoomFor"], gone["pod"] in low) == ("GivesWay", "asks", True)
    await all_serve(play, ASKS, 2)
    await play.rest(5)
    assert (play.evicted(), play.fewest) == ([gone["pod"]], 1)
    assert (len(play.nodes_of(MOVER)), play.live(MOVER)["targetReplicas"]) == (1, 1)
    assert kinds(play, MOVER) == [("Remove", "GivesWay")]
    assert "ends to make room for asks, which has a higher priority" in play.live(MOVER)["lastChange"]
    add_node(play, "n-late", 1)
    await all_serve(play, MOVER, 2)
    assert (play.nodes_of(NEIGHBOUR), len(play.nodes_of(ASKS))) == (neighbour, 2)


@pytest.mark.parametrize(
    ("low", "preempts"),
    [(AUTO | {"minReplicas": 2}, True), (AUTO, False), (ADVICE, True), (AUTO | {"scale": "External"}, True)],
    ids=["its minimum", "no right to preempt", "it proposes only", "another scaler"],
)
async def test_who_keeps_its_replicas_keeps_them(theatre: Theatre, low: dict[str, Any], *, preempts: bool) -> None:
    play = await reclaiming_in(theatre, low, preempts=preempts)
    if play.proposals(ASKS):
        play.approve(ASKS)
    await play.rest(12)
    assert (play.evicted(), len(play.nodes_of(MOVER)), play.fewest) == ([], 2, 2)


@pytest.mark.parametrize(
    ("key", "part"), [(ASKS, "room"), (MOVER, "replacing")], ids=["at first", "just before the end"]
)
async def test_an_admin_who_takes_the_right_back_ends_the_order(theatre: Theatre, key: ObjectKey, part: str) -> None:
    play = await reclaiming_in(theatre)
    play.approve(ASKS)
    await play.go_on_until(lambda: part in play.live(key))
    play.api.put(gold_class(preempts=False))
    await play.rest(8)
    assert (play.evicted(), len(play.nodes_of(MOVER)), play.live(MOVER)["targetReplicas"]) == ([], 2, 2)
    assert "its priority does not let it take the place of others any more" in play.live(ASKS)["lastChange"]


def has_given_way(play: Play) -> bool:
    """Whether the replica of higher priority serves instead of the other one, and all is at rest."""
    is_there = (len(play.nodes_of(ASKS)), len(play.pods_of(MOVER))) == (2, 1)
    return is_there and "room" not in play.live(ASKS) and "replacing" not in play.live(MOVER)


@pytest.mark.parametrize("how", [Trouble.KILLED_BEFORE, Trouble.KILLED_AFTER], ids=["before", "after"])
@pytest.mark.parametrize(
    ("prepare", "is_over", "change"),
    [(prepared_in, is_made, ("Replace", "MakesRoom")), (reclaiming_in, has_given_way, ("Remove", "GivesWay"))],
    ids=["a replica moves", "a replica ends"],
)
async def test_killed_at_any_write_room_is_made_once(
    theatre: Theatre,
    prepare: Callable[[Theatre], Awaitable[Play]],
    is_over: Callable[[Play], bool],
    change: tuple[str, str],
    how: Trouble,
) -> None:
    prepared = await prepare(theatre)
    neighbour = prepared.nodes_of(NEIGHBOUR)
    prepared.approve(ASKS)
    began, since = theatre.clock.now, len(prepared.api.writes)
    peace = await theatre.again(prepared)
    await peace.go_on_until(lambda: is_over(peace))
    assert len(peace.evicted()) == 1
    for number, write in enumerate(peace.writes(since)):
        theatre.clock.now = began
        play = await theatre.again(prepared, partial(next, iter([*[None] * number, how]), None))
        await play.go_on_until(lambda: is_over(play))  # noqa: B023 - asked before the next round
        assert (set(play.evicted()), play.fewest) == (set(peace.evicted()), 1), (how, write)
        assert (kinds(play, MOVER), len(kinds(play, ASKS))) == ([change], 1), (how, write)
        assert (play.nodes_of(NEIGHBOUR), play.outcome()) == (neighbour, "CarriedOut"), (how, write)


SHARED = ((("n-0", 1), ("n-1", 1), ("n-2", 1)), (("a-full", 2), ("m-shared", 2), ("b-free", 1)))
"""The nodes of both stories that are not the neighbour's."""


def wanted_gpus(play: Play) -> int:
    """The GPUs of all pods that the operator wants, but for the neighbour's."""
    bodies = [body for body in play.api.all(DEPLOYMENTS) if not body["metadata"]["name"].startswith("neighbour")]
    each = [
        body["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for body in bodies
    ]
    return sum(int(body["spec"]["replicas"]) * int(gpus) for body, gpus in zip(bodies, each, strict=True))


MISHAPS: tuple[Trouble | None, ...] = (*[None] * 12, *Trouble)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_nobody_is_below_its_least_number_and_no_more_is_wanted_than_fits(
    theatre: Theatre, seed: int
) -> None:
    """Writes fail, the operator is killed, nodes are cordoned, approvals are given and taken back, in any order."""
    dice = Random(seed)  # noqa: S311 - a test
    prepared = await (prepared_in(theatre) if seed % 2 else reclaiming_in(theatre))
    neighbour = prepared.nodes_of(NEIGHBOUR)
    play = await theatre.again(prepared, lambda: dice.choice(MISHAPS))
    for _ in range(40):
        if dice.random() < 0.2 and len(play.proposals(ASKS)) == 1:
            _leaves(play)
            play.approve(ASKS)
        if dice.random() < 0.05:
            _leaves(play)
        if dice.random() < 0.1:
            name = dice.choice([body["metadata"]["name"] for body in play.api.all(NODES)])
            body = play.api.get(NODES, ObjectKey("", name))
            assert body is not None
            if body["metadata"]["labels"]["bench"] == "shared":
                play.api.put({**body, "spec": {"unschedulable": dice.random() < 0.5}})
        await play.operator.go_on()
        assert len(play.nodes_of(MOVER)) >= 1
        assert len(play.nodes_of(ASKS)) >= 1
        assert play.nodes_of(NEIGHBOUR) == neighbour
        assert wanted_gpus(play) <= sum(gpus for _, gpus in SHARED[seed % 2])
    assert play.api.trespasses == []
