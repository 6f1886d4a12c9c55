"""The operator is killed at every write of a change by the live loop: in the end all is as if nothing had happened.

One process serves many small worlds, which do not depend on one another. In each of them another write is the last one
of the process. It is held before it reaches the API server, or after it was applied and before its answer. When every
world is at its point, the process is killed and another one starts. So two kills play all points of a story.
``tests/app/test_killed_at_any_write.py`` does the same in memory. The usual run here has one kill of a move, after the
first effect of the decision; ``make kills`` has every write of every story.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from testbed.audit import AuditLog
from tests.support.end_states import differences, end_state
from tests.support.installed import View
from tests.support.kills import STATUS, Doomed, Undisturbed, writes_of
from tests.support.live_loop import L4_POOL, L40S_POOL
from tests.support.small_worlds import (
    APPROVAL,
    APPROVED,
    CALM,
    MOVE,
    NAME,
    OFF,
    SCALE_OUT,
    Stage,
    Story,
    World,
    begin,
    make,
    open_stage,
)
from tests.support.witness import Witness

pytestmark = pytest.mark.cluster

AT_ALL = bool(os.environ.get("PLIMSOLL_KILLS_AT_ALL"))
STORIES = {story.name: story for story in ((SCALE_OUT, MOVE, APPROVED) if AT_ALL else (MOVE,))}
MOMENTS = ("before", "after") if AT_ALL else ("after",)
KINDS = {
    "scale": [("PUT", STATUS), ("PATCH", f"deployments/{NAME}-{L4_POOL}"), ("POST", "events")],
    "move": [
        ("PUT", STATUS),
        ("PATCH", f"deployments/{NAME}-{L40S_POOL}"),
        ("POST", "events"),
        ("DELETE", f"deployments/{NAME}-{L4_POOL}"),
    ],
    "approved": [
        ("PUT", STATUS),
        ("PATCH", f"deployments/{NAME}-{L4_POOL}"),
        ("PUT", f"placementapprovals/{APPROVAL}/status"),
        ("DELETE", f"placementproposals/{NAME}-ID"),
        ("POST", "events"),
    ],
}
L4_DEPLOYMENT, L40S_DEPLOYMENT = f"{NAME}-{L4_POOL}", f"{NAME}-{L40S_POOL}"


@dataclass(frozen=True, slots=True)
class Scene:
    """The stage, neighbours to whom nothing happens, and each story as it goes in peace, by its name.

    ``over`` holds the worlds whose stories are over, after the end of the audit log at that time.
    """

    stage: Stage
    neighbours: tuple[World, ...]
    peace: dict[str, Undisturbed] = field(default_factory=dict)
    over: list[tuple[int, list[World]]] = field(default_factory=list)

    def world(self, story: Story, name: str) -> World:
        """A new world."""
        return World(story, View(self.stage.control_plane, f"{story.name}-{name}"))

    @property
    def audit(self) -> AuditLog:
        """Everybody's writes."""
        return AuditLog(self.stage.control_plane.audit_log)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with open_stage() as running:
        neighbours = [World(story, View(running.control_plane, f"neighbour-{story.name}")) for story in (CALM, OFF)]
        found = Scene(running, tuple(neighbours))
        worlds = [found.world(story, "in-peace") for story in STORIES.values()]
        make(running, [*worlds, *neighbours])
        for neighbour in neighbours:
            running.wait(neighbour.is_at_rest, f"{neighbour.namespace} at rest")
        before = len(running.proxy.exchanges)
        begin(running, worlds)
        for world in worlds:
            running.wait(world.is_at_rest, f"the end of {world.namespace}")
        events, exchanges = found.audit.events(), running.proxy.exchanges[before:]
        for world in worlds:
            writes = tuple(writes_of(world, exchanges))
            found.peace[world.story.name] = Undisturbed(writes, end_state(world), Witness.of(events, world))
        found.over.append((found.audit.offset(), worlds))
        yield found


def doomed(scene: Scene, story: Story, moment: str) -> list[Doomed]:
    """A world for every write of a story; usually for one of them."""
    found = []
    for number, write in enumerate(scene.peace[story.name].points(of_all=AT_ALL), 1):
        world = scene.world(story, f"{moment}-{number}")
        found.append(Doomed(world, write, write.as_last(world, applied=moment == "after")))
    return found


@pytest.mark.parametrize("name", STORIES)
def test_in_peace_the_decision_is_written_first_and_nothing_is_asked_for_twice(scene: Scene, name: str) -> None:
    peace = scene.peace[name]
    assert peace.kinds == KINDS[name]
    moved = {L4_DEPLOYMENT: [1, 0], L40S_DEPLOYMENT: [1]}
    assert peace.witness.asked_replicas() == (moved if name == "move" else {L4_DEPLOYMENT: [1, 2]})
    assert peace.witness.outcomes() == ({"CarriedOut": 1} if name == "approved" else {})
    assert list(peace.witness.broken_by(peace.witness)) == []
    [body] = peace.end["inferencedeployments"]
    assert len(body["status"]["rebalancing"]["changes"]) == 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STORIES)
def test_killed_at_any_write_it_ends_as_in_peace(scene: Scene, name: str, moment: str) -> None:
    shared, peace = scene.stage, scene.peace[name]
    victims = doomed(scene, STORIES[name], moment)
    make(shared, [victim.world for victim in victims])
    since = scene.audit.offset()
    for victim in victims:
        shared.proxy.hold(victim.last)
    begin(shared, [victim.world for victim in victims])
    for victim in victims:
        wait_for_death(shared, victim)
    shared.operator.kill()
    shared.proxy.let_go()
    shared.operator.start()

    for victim in victims:
        wait_for_peace(shared, peace, victim)
    assert {str(victim): found for victim in victims if (found := differs(peace, victim))} == {}
    events = scene.audit.events()
    broken = {str(victim): list(Witness.of(events, victim.world).broken_by(peace.witness)) for victim in victims}
    assert {victim: found for victim, found in broken.items() if found} == {}
    calm, off = (Witness.of(scene.audit.events(since), neighbour) for neighbour in scene.neighbours)
    assert (calm.changes, off.own) == ([], ()), (calm.asked_replicas(), calm.reasons)
    scene.over.append((scene.audit.offset(), [victim.world for victim in victims]))


def wait_for_death(stage: Stage, victim: Doomed) -> None:
    """Wait until the operator cannot go on in a world."""
    try:
        stage.wait(victim.is_ready_to_die, f"{victim}: the last write")
    except AssertionError as error:
        written = map(str, writes_of(victim.world, stage.proxy.exchanges))
        raise AssertionError("\n".join([str(error), *written])) from error


def wait_for_peace(stage: Stage, peace: Undisturbed, victim: Doomed) -> None:
    """Wait until a world is as it would be without the kill."""
    try:
        stage.wait(lambda: victim.world.is_at_rest() and not differs(peace, victim), f"{victim}: the same end")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *differs(peace, victim)])) from error


def differs(peace: Undisturbed, victim: Doomed) -> list[str]:
    """Where the end of a world is another one than in peace."""
    return list(differences(peace.end, end_state(victim.world)))


def test_what_was_over_stays_over_however_often_the_operator_is_killed(scene: Scene) -> None:
    """The stories in peace, and those of the tests before this one, if there were any."""
    scene.stage.operator.kill()
    scene.stage.operator.start()
    newest = scene.world(OFF, "made-after-all")
    make(scene.stage, [newest])
    scene.stage.wait(newest.is_at_rest, f"{newest.namespace} at rest")
    for since, worlds in scene.over:
        events = scene.audit.events(since)
        assert {world.namespace: Witness.of(events, world).changes for world in worlds} == {
            world.namespace: [] for world in worlds
        }
