"""The operator is killed at every write of a change by the live loop: in the end all is as if nothing had happened.

Everything is in memory, and the time is the test's. ``tests/cluster/test_killed_while_rebalancing.py`` plays the same
stories with a real process.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from plimsoll.app.settings import Settings
from testbed.operator_process import USER
from tests.support.api_in_memory import ApiInMemory, Clock, InMemoryView
from tests.support.end_states import differences, end_state
from tests.support.engines_in_memory import EnginesInMemory
from tests.support.installed import View
from tests.support.live_loop import L4_POOL, L40S_POOL
from tests.support.operator_in_memory import OperatorInMemory, Trouble
from tests.support.small_worlds import APPROVAL, APPROVED, MOVE, NAME, OFF, SCALE_OUT, Stage, Story, World, load
from tests.support.witness import Witness

pytestmark = pytest.mark.lengthy

STORIES = {story.name: story for story in (SCALE_OUT, MOVE, APPROVED)}
L4_DEPLOYMENT, L40S_DEPLOYMENT = f"{NAME}-{L4_POOL}", f"{NAME}-{L40S_POOL}"
MOST_PASSES = 60

_GENERATED = re.compile(r"(\.[0-9a-f]{16}|-[0-9a-f]{12})$")
"""What the names of events and proposals end with."""


@dataclass(frozen=True)
class Play:
    """One story on a cluster of its own, beside a neighbour whose live loop is off."""

    api: ApiInMemory
    engines: EnginesInMemory
    operator: OperatorInMemory
    world: World
    neighbour: World

    async def go_on_until(self, question: Callable[[], bool]) -> None:
        """Make passes, one a second, until the answer is yes."""
        for _ in range(MOST_PASSES):
            if question():
                return
            await self.operator.go_on()
        raise AssertionError(f"not within {MOST_PASSES} passes: {self.world.view.get(NAME).get('status')}")

    def begin(self) -> None:
        """Let the cause come."""
        made = self.world.story.cause(cast("Stage", self), self.world)
        if made:
            self.api.put(made)

    def writes(self, since: int = 0) -> list[tuple[str, str, str]]:
        """What the operator has written, in order."""
        return [(each.verb, each.resource, each.name) for each in self.api.writes[since:] if each.user == USER]

    def witness(self) -> Witness:
        """Everything that has happened in the world."""
        return Witness.of(self.api.writes, self.world)


@dataclass
class Theatre:
    """Opens plays, and ends them all."""

    cache: Path
    clock: Clock
    opened: list[OperatorInMemory] = field(default_factory=list)

    async def prepared(self, story: Story) -> Play:
        """Return a play in which the cause may come."""
        play = await self._open(story, ApiInMemory(self.clock), lambda: None)
        worlds = (play.world, play.neighbour)
        for manifest in (manifest for world in worlds for manifest in (*world.nodes(), world.deployment())):
            play.api.put(manifest)
        if story.is_loaded:
            load(cast("Stage", play), play.world)
        await play.go_on_until(lambda: all(world.story.is_prepared(world.view) for world in worlds))
        return play

    async def again(self, before: Play, trouble: Callable[[], Trouble | None] = lambda: None) -> Play:
        """Return another play that goes on from where one is."""
        play = await self._open(before.world.story, before.api.copy(), trouble)
        play.engines.loads |= before.engines.loads
        play.engines.samples |= before.engines.samples
        return play

    async def _open(self, story: Story, api: ApiInMemory, trouble: Callable[[], Trouble | None]) -> Play:
        settings = Settings(rebalancing_moves_per_hour=1000)
        engines, operator = EnginesInMemory(api), OperatorInMemory(api, self.cache, settings=settings, trouble=trouble)
        operator.before_pass = lambda: engines.scrape(operator)
        self.opened.append(operator)
        await operator.start()
        world, neighbour = (World(each, cast("View", InMemoryView(api, each.name))) for each in (story, OFF))
        return Play(api, engines, operator, world, neighbour)


@pytest.fixture
async def theatre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Theatre]:
    made = Theatre(tmp_path, Clock())
    monkeypatch.setattr(time, "time", made.clock.read)
    monkeypatch.setattr(time, "monotonic", made.clock.read)
    yield made
    for operator in made.opened:
        await operator.close()


async def in_peace(theatre: Theatre, prepared: Play) -> Play:
    """The story without a kill."""
    began, play = theatre.clock.now, await theatre.again(prepared)
    play.begin()
    await play.go_on_until(play.world.is_at_rest)
    theatre.clock.now = began
    return play


KINDS = {
    "scale": [
        ("patch", "inferencedeployments/status", NAME),
        ("patch", "deployments", L4_DEPLOYMENT),
        ("create", "events", NAME),
    ],
    "move": [
        ("patch", "inferencedeployments/status", NAME),
        ("create", "deployments", L40S_DEPLOYMENT),
        ("create", "events", NAME),
        ("delete", "deployments", L4_DEPLOYMENT),
    ],
    "approved": [
        ("patch", "inferencedeployments/status", NAME),
        ("patch", "deployments", L4_DEPLOYMENT),
        ("patch", "placementapprovals/status", APPROVAL),
        ("delete", "placementproposals", NAME),
        ("create", "events", NAME),
    ],
}
"""What a story writes in peace: each kind of write once, in the order in which they come first."""

ASKED = {
    "scale": {L4_DEPLOYMENT: [1, 2]},
    "move": {L4_DEPLOYMENT: [1, 0], L40S_DEPLOYMENT: [1]},
    "approved": {L4_DEPLOYMENT: [1, 2]},
}


@pytest.mark.parametrize("name", STORIES)
async def test_in_peace_the_decision_is_written_first_and_nothing_is_asked_for_twice(
    theatre: Theatre, name: str
) -> None:
    prepared = await theatre.prepared(STORIES[name])
    peace = await in_peace(theatre, prepared)
    writes, witness = peace.writes(len(prepared.api.writes)), peace.witness()
    assert (
        list(dict.fromkeys((verb, resource, _GENERATED.sub("", each)) for verb, resource, each in writes))
        == KINDS[name]
    )
    assert witness.asked_replicas() == ASKED[name]
    assert witness.outcomes() == ({"CarriedOut": 1} if name == "approved" else {})
    assert list(witness.broken_by(witness)) == []
    assert len(peace.world.view.get(NAME)["status"]["rebalancing"]["changes"]) == 1


@pytest.mark.parametrize("how", [Trouble.KILLED_BEFORE, Trouble.KILLED_AFTER], ids=["before", "after"])
@pytest.mark.parametrize("name", STORIES)
async def test_killed_at_any_write_it_ends_as_in_peace_and_what_is_over_stays_over(
    theatre: Theatre, name: str, how: Trouble
) -> None:
    prepared = await theatre.prepared(STORIES[name])
    peace = await in_peace(theatre, prepared)
    writes, began = peace.writes(len(prepared.api.writes)), theatre.clock.now
    for number, write in enumerate(writes):
        theatre.clock.now = began
        fates = [*[None] * number, how]
        play = await theatre.again(prepared, partial(next, iter(fates), None))
        play.begin()
        try:
            await play.go_on_until(lambda: _is_over(play, peace))  # noqa: B023 - asked before the next round
        except AssertionError as error:
            raise AssertionError(f"{how} {write}: {[*_differences(play, peace)]}") from error
        assert list(play.witness().broken_by(peace.witness())) == [], (how, write)
        assert _about_the_neighbour(play) == _about_the_neighbour(prepared), (how, write)
        over = len(play.api.writes)
        await play.operator.restart()
        for _ in range(3):
            await play.operator.go_on()
        again = [each for each in play.writes(over) if each[1] not in ("events", "inferencedeployments/status")]
        assert again == [], (how, write)


def _is_over(play: Play, peace: Play) -> bool:
    return play.world.is_at_rest() and not [*_differences(play, peace)]


def _differences(play: Play, peace: Play) -> Iterator[str]:
    return differences(end_state(peace.world), end_state(play.world))


def _about_the_neighbour(play: Play) -> list[str]:
    """What was written about the tenant next door."""
    return [each.resource for each in play.api.writes if each.user == USER and each.namespace == OFF.name]
