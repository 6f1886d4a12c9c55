"""Whatever happens to a deployment that leaves nodes of silent replicas: it gets its replicas, and no other loses any.

The whole operator runs in memory. Its scheduler fills the first node first and knows nothing of nodes that are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import from_rfc3339
from testbed.fleet import gpu_node
from tests.support.installed import inference_deployment
from tests.support.live_loop import engine_spec
from tests.support.plays import Play, Theatre, hurried_theatre

pytestmark = pytest.mark.lengthy

HURT, NEIGHBOUR = ObjectKey("ns", "hurt"), ObjectKey("ns", "neighbour")
AUTO = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 6, "windowSeconds": 8, "cooldownSeconds": 7200}
AUTO |= {"changesPerHour": 60}
MOST_LEFT, HOUR = 4, 3600
SETTLING_PASSES = 8


def nodes_of_bench(play: Play) -> list[str]:
    names = (str(body["metadata"]["name"]) for body in play.api.all(NODES))
    return [name for name in names if name.startswith(HURT.name)]


def newest_last(play: Play) -> list[str]:
    return sorted(play.nodes_of(HURT), key=lambda pod: int(pod.rsplit("-", 1)[1]))


def fall_silent(play: Play) -> None:
    heard = [pod for pod in newest_last(play) if pod not in play.engines.silent]
    if len(heard) > 1:
        play.engines.drop(heard[0])


def speak_again(play: Play) -> None:
    play.engines.silent.clear()


def scaled_by(count: int) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        body = play.api.get(INFERENCE_DEPLOYMENTS, HURT)
        assert body is not None
        wanted = max(1, min(5, int(body["spec"]["replicas"]) + count))
        play.api.patch(INFERENCE_DEPLOYMENTS, HURT, None, {"spec": {"replicas": wanted}})

    return act


def lose_a_node(play: Play) -> None:
    names = nodes_of_bench(play)
    if len(names) > 1:
        play.api.delete(NODES, ObjectKey("", max(names)))


def add_a_node(play: Play) -> None:
    number = 1 + max(int(name.rsplit("-", 1)[1]) for name in nodes_of_bench(play))
    if number < 9:
        play.api.put(gpu_node(f"{HURT.name}-{number}", "L4", 1, labels={"bench": HURT.name}))


def pass_an_hour(play: Play) -> None:
    play.api.clock.now += HOUR


ACTS: dict[str, Callable[[Play], None]] = {
    "silent": fall_silent,
    "speaks": speak_again,
    "more": scaled_by(1),
    "fewer": scaled_by(-1),
    "lost": lose_a_node,
    "new": add_a_node,
    "hour": pass_an_hour,
}


async def prepared(theatre: Theatre) -> Play:
    play = await theatre.begun(HURT)
    for key, count in ((HURT, 4), (NEIGHBOUR, 3)):
        for number in range(count):
            play.api.put(gpu_node(f"{key.name}-{number}", "L4", 1, labels={"bench": key.name}))
        play.api.put(inference_deployment(key.name, key.namespace, **engine_spec(key.name, AUTO, replicas=2)))
    await play.go_on_until(lambda: all(len(play.nodes_of(key)) == 2 for key in (HURT, NEIGHBOUR)))
    return play


def check(play: Play, neighbours: dict[str, str]) -> None:
    left = [each for each in play.status().get("rehomings", []) if each["reason"] == "ReplicaSilent"]
    assert len(left) <= MOST_LEFT
    assert all(play.api.clock.now - (from_rfc3339(each["at"]) or 0.0) <= HOUR for each in left)
    assert len({each["node"] for each in left}) == len(left)
    assert play.nodes_of(NEIGHBOUR) == neighbours
    assert "rehomings" not in play.status(NEIGHBOUR)


def has_what_there_is_room_for(play: Play) -> bool:
    """Whether as many replicas serve as are wanted, or as there are GPUs; and all are placed if all have a GPU."""
    wanted, room = int(play.live()["targetReplicas"]), len(nodes_of_bench(play))
    planned = next(each for each in play.status()["conditions"] if each["type"] == "Planned")
    return len(play.nodes_of(HURT)) >= min(wanted, room) and (planned["status"] == "True" or wanted > room)


async def played(acts: list[str], cache: Path, patched: pytest.MonkeyPatch) -> None:
    async with hurried_theatre(cache, patched) as theatre:
        play = await prepared(theatre)
        neighbours = play.nodes_of(NEIGHBOUR)
        for act in acts:
            if act == "restart":
                play = await theatre.again(play)
            else:
                ACTS[act](play)
            for _ in range(SETTLING_PASSES):
                await play.operator.go_on()
                check(play, neighbours)
            await play.go_on_until(lambda: has_what_there_is_room_for(play))  # noqa: B023 - asked at once
        assert not [each for each in play.evicted() if each in neighbours]


@given(st.lists(st.sampled_from(["restart", *ACTS]), min_size=3, max_size=7))
@example(["silent", "new", "restart", "lost", "lost", "more"])
@example(["silent", "more", "silent", "more", "lost"])
@settings(max_examples=5, deadline=None)
def test_a_deployment_gets_its_replicas_and_its_neighbour_keeps_its_own(acts: list[str]) -> None:
    with TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patched:
        asyncio.run(played(acts, Path(cache), patched))
