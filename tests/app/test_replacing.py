"""A silent replica is replaced through the whole operator, in memory: at peace, and killed at each of its writes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import EVENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.app.watch.store import key_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.diagnosis import replicas
from plimsoll.rebalance.state import replacement
from testbed.engine_pods import is_ready
from testbed.fleet import gpu_node
from testbed.operator_process import USER
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.engines_in_memory import EnginesInMemory
from tests.support.installed import inference_deployment
from tests.support.live_loop import engine_spec
from tests.support.operator_in_memory import OperatorInMemory, Trouble

HURT, NEIGHBOUR = ObjectKey("ns", "hurt"), ObjectKey("ns", "neighbour")
AUTO = {"mode": "Auto", "maxReplicas": 3, "windowSeconds": 8, "cooldownSeconds": 600}
MOST_PASSES = 80
REPLICAS = 2


@dataclass
class Play:
    """Two deployments of two replicas, each with three nodes of one GPU."""

    api: ApiInMemory
    engines: EnginesInMemory
    operator: OperatorInMemory
    fewest: int = REPLICAS

    def nodes_of(self, key: ObjectKey) -> dict[str, str]:
        """The pods of a deployment that serve, and the node of each."""
        labels = (body["metadata"]["labels"].get("plimsoll.dev/deployment") for body in self.api.all(PODS))
        ours = [body for name, body in zip(labels, self.api.all(PODS), strict=True) if name == key.name]
        return {key_of(body).name: str(body["spec"]["nodeName"]) for body in ours if is_ready(body)}

    def status(self, key: ObjectKey = HURT) -> dict[str, Any]:
        """The status of a deployment."""
        body = self.api.get(INFERENCE_DEPLOYMENTS, key)
        assert body is not None
        found: dict[str, Any] = body.get("status") or {}
        return found

    def evicted(self) -> list[str]:
        """The pods that the operator ended."""
        return [each.name for each in self.api.writes if (each.user, each.resource) == (USER, "pods/eviction")]

    async def go_on_until(self, question: Callable[[], bool]) -> None:
        """Make passes, one a second, until the answer is yes."""
        for _ in range(MOST_PASSES):
            if question():
                return
            await self.operator.go_on()
            self.fewest = min(self.fewest, len(self.nodes_of(HURT)))
        raise AssertionError(f"not within {MOST_PASSES} passes: {self.nodes_of(HURT)}, {self.status()}")

    def is_over(self, old: str, node: str) -> bool:
        """Whether another replica serves elsewhere, and all is at rest."""
        serving, reported = self.nodes_of(HURT), self.status().get("rebalancing") or {}
        is_replaced = old not in serving and node not in serving.values() and len(serving) == REPLICAS
        return is_replaced and "replacing" not in reported and reported.get("reason") == "WithinBand"


@dataclass
class Theatre:
    """Opens plays, and ends them all."""

    cache: Path
    clock: Clock
    opened: list[OperatorInMemory] = field(default_factory=list)

    async def open(self, api: ApiInMemory, trouble: Callable[[], Trouble | None] = lambda: None) -> Play:
        """Return a play on an API server."""
        engines, operator = EnginesInMemory(api), OperatorInMemory(api, self.cache, trouble=trouble)
        operator.before_pass = lambda: engines.scrape(operator)
        self.opened.append(operator)
        await operator.start()
        return Play(api, engines, operator)

    async def prepared(self, nodes: int = 3, gpus_of_first: int = 1, **rebalancing: Any) -> Play:
        """Return a play in which everything serves. The scheduler fills the first node first."""
        play = await self.open(ApiInMemory(self.clock))
        for key in (HURT, NEIGHBOUR):
            for number in range(nodes):
                gpus = 1 if number else gpus_of_first
                play.api.put(gpu_node(f"{key.name}-{number}", "L4", gpus, labels={"bench": key.name}))
            spec = engine_spec(key.name, AUTO | rebalancing, replicas=REPLICAS)
            play.api.put(inference_deployment(key.name, key.namespace, **spec))
        await play.go_on_until(lambda: all(len(play.nodes_of(key)) == REPLICAS for key in (HURT, NEIGHBOUR)))
        for _ in range(10):
            await play.operator.go_on()
        play.fewest = REPLICAS
        return play

    async def again(self, before: Play, trouble: Callable[[], Trouble | None]) -> Play:
        """Return another play that goes on from where one is."""
        play = await self.open(before.api.copy(), trouble)
        play.engines.samples |= before.engines.samples
        play.engines.silent |= before.engines.silent
        return play


@pytest.fixture
async def theatre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Theatre]:
    made = Theatre(tmp_path, Clock())
    monkeypatch.setattr(time, "time", made.clock.read)
    monkeypatch.setattr(time, "monotonic", made.clock.read)
    monkeypatch.setattr(replicas, "SILENT_SECONDS", 6.0)
    monkeypatch.setattr(replacement, "PROVEN_SECONDS", 4.0)
    yield made
    for operator in made.opened:
        await operator.close()


def writes_of(play: Play, since: int) -> Sequence[tuple[str, str, str]]:
    """What the operator has written since then, in order."""
    return [(each.verb, each.resource, each.name) for each in play.api.writes[since:] if each.user == USER]


async def test_a_silent_replica_goes_after_a_new_one_serves_on_another_node(theatre: Theatre) -> None:
    play = await theatre.prepared()
    neighbour, began = play.nodes_of(NEIGHBOUR), len(play.api.writes)
    old, node = min(play.nodes_of(HURT).items())
    play.engines.drop(old)
    await play.go_on_until(lambda: "replacing" in (play.status().get("rebalancing") or {}))
    reported = play.status()["rebalancing"]
    assert (reported["decision"], reported["reason"]) == ("ReplaceReplica", "ReplicaSilent")
    assert (reported["replacing"]["pod"], reported["replacing"]["node"]) == (old, node)
    assert [(each["reason"], each["node"]) for each in play.status()["rehomings"]] == [("ReplicaSilent", node)]
    await play.go_on_until(lambda: play.is_over(old, node))
    assert play.evicted() == [old]
    assert play.fewest == REPLICAS, "as many serve as before, all the time"
    assert [each["kind"] for each in play.status()["rebalancing"]["changes"]] == ["Replace"]
    assert play.nodes_of(NEIGHBOUR) == neighbour
    assert [write for write in writes_of(play, began) if "neighbour" in write[2]] == []
    [note] = _notes(play, "RebalancedReplaceReplica")
    assert f"on node {node}" in note


@pytest.mark.parametrize("how", [Trouble.KILLED_BEFORE, Trouble.KILLED_AFTER], ids=["before", "after"])
async def test_killed_at_any_write_one_replica_is_replaced_once(theatre: Theatre, how: Trouble) -> None:
    prepared = await theatre.prepared()
    old, node = min(prepared.nodes_of(HURT).items())
    prepared.engines.drop(old)
    began, since = theatre.clock.now, len(prepared.api.writes)
    peace = await theatre.again(prepared, lambda: None)
    await peace.go_on_until(lambda: peace.is_over(old, node))
    for number, write in enumerate(writes_of(peace, since)):
        theatre.clock.now = began
        play = await theatre.again(prepared, partial(next, iter([*[None] * number, how]), None))
        await play.go_on_until(lambda: play.is_over(old, node))  # noqa: B023 - asked before the next round
        assert set(play.evicted()) == {old}, (how, write)
        assert play.fewest >= REPLICAS, (how, write)
        assert play.nodes_of(NEIGHBOUR) == prepared.nodes_of(NEIGHBOUR), (how, write)
        assert len(play.status()["rebalancing"]["changes"]) == 1, (how, write)


async def test_a_new_replica_that_is_silent_as_well_goes_and_the_old_one_stays(theatre: Theatre) -> None:
    play = await theatre.prepared()
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
    assert _notes(play, "ReplacementEnded") == [
        f"Pod {old} is not replaced: the new replica is no better, so it is not the node."
    ]


async def test_a_new_replica_on_the_same_node_says_nothing_about_others_and_another_is_tried(theatre: Theatre) -> None:
    """The scheduler may choose the node that the plan avoids: the pods' template is that of the healthy replicas."""
    play = await theatre.prepared(gpus_of_first=REPLICAS + 1)
    before = play.nodes_of(HURT)
    old, node = min(before.items())
    play.engines.drop(old)
    await play.go_on_until(lambda: len(play.nodes_of(HURT)) == REPLICAS + 1)
    assert set(play.nodes_of(HURT).values()) == {node}
    (new,) = play.nodes_of(HURT).keys() - before.keys()
    play.engines.drop(new)
    await play.go_on_until(lambda: play.nodes_of(HURT) == before and bool(_notes(play, "ReplacementEnded")))
    [note] = _notes(play, "ReplacementEnded")
    assert note.endswith("the new replica came to the same node and is no better; cordon the node to try another one.")
    await play.operator.go_on()
    assert play.status()["rebalancing"]["reason"] == "CoolingDown"
    play.api.put(gpu_node(node, "L4", REPLICAS + 1, labels={"bench": HURT.name}, unschedulable=True))
    theatre.clock.now += 3600
    await play.go_on_until(lambda: play.evicted() == [old])
    assert set(play.nodes_of(HURT).values()) == {node, f"{HURT.name}-1"}


async def test_without_another_node_it_waits_for_one_and_nothing_ends(theatre: Theatre) -> None:
    play = await theatre.prepared(nodes=REPLICAS)
    before = play.nodes_of(HURT)
    play.engines.drop(min(before))
    await play.go_on_until(lambda: play.status()["rebalancing"].get("reason") == "NoPlaceFound")
    for _ in range(5):
        await play.operator.go_on()
    assert play.nodes_of(HURT) == before
    node = gpu_node("hurt-late", "L4", 1, labels={"bench": "hurt"})
    play.api.put(node)
    await play.go_on_until(lambda: play.is_over(min(before), before[min(before)]))


async def test_an_eviction_that_is_refused_stops_nothing_and_is_said(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = await theatre.prepared()
    old, node = min(play.nodes_of(HURT).items())
    with monkeypatch.context() as forbids:
        forbids.setattr(play.api, "evict", partial(_refuse, 403))
        play.engines.drop(old)
        await play.go_on_until(lambda: bool(_notes(play, "ReplacementEnded")))
        for _ in range(5):
            await play.operator.go_on()
        assert "What helps: allow the operator to create pods/eviction" in _notes(play, "ReplacementEnded")[0]
        assert len(play.nodes_of(HURT)) == REPLICAS + 1
    await play.go_on_until(lambda: play.is_over(old, node))


def _refuse(status: int, *_: object) -> None:
    raise ClusterRefused("evict pod", status, "forbidden")


def _notes(play: Play, reason: str) -> list[str]:
    return [str(body["note"]) for body in play.api.all(EVENTS) if body["reason"] == reason]


async def test_in_recommend_mode_it_is_only_proposed(theatre: Theatre) -> None:
    play = await theatre.prepared(mode="Recommend")
    old, node = min(play.nodes_of(HURT).items())
    play.engines.drop(old)
    await play.go_on_until(lambda: play.status()["rebalancing"].get("reason") == "ReplicaSilent")
    assert play.status()["rebalancing"]["proposal"].startswith(f"Cordon node {node} and delete pod {old} once another")
    for _ in range(10):
        await play.operator.go_on()
    assert play.evicted() == []
    assert len(play.nodes_of(HURT)) == REPLICAS
