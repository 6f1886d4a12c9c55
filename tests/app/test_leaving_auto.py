"""Whatever people, restarts and outages do: what serves ends by the loop's decision in Auto or by another number."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.planning.passes import look_up, new_passes
from plimsoll.adapters.cluster.client import PODS
from plimsoll.app.plan.rendered import Desired
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.decisions import AddReplica, RemoveReplica
from tests.support.live_passes import AUTO, L40S, LivePasses, live_part
from tests.support.tables import examples

LIVE = AUTO | {"maxReplicas": 6}
NAME, NEIGHBOUR = "chat", "mail"
Event = tuple[Any, ...]


@dataclass
class Course:
    """A cluster in which one deployment is changed, next to one that nobody touches."""

    there: LivePasses
    cache: Path
    mode: str = "Auto"
    number: int = 1
    generation: int = 1
    cases: dict[str, Desired] = field(default_factory=dict)
    is_read: bool = False

    async def play(self, event: Event) -> None:
        match event:
            case ("mode", mode):
                self.mode = mode
                self._change(rebalancing=LIVE | {"mode": mode})
            case ("number", number):
                self.number = number
                self._change(replicas=number)
            case ("load", usage):
                for case in self.cases.values():
                    self.there.load(case, usage)
                self.is_read = True
            case ("outage",):
                away = Reading(state=SignalState.UNAVAILABLE)
                self.there.passes.live.readings |= {case.key: away for case in self.cases.values()}
                self.is_read = False
            case ("later", seconds):
                self.there.now += seconds
                self.is_read = False
            case ("restart",):
                await self.there.passes.reader.models.close()
                self.there.passes = new_passes(self.cache)
                self.there.passes.live.reader = _begun(self.cache).passes.live.reader
                self.there.make()
                await look_up(self.there.passes)
                self.is_read = False
            case _:
                raise AssertionError(event)

    def _change(self, **spec: Any) -> None:
        self.generation += 1
        self.there.change(NAME, self.generation, **spec)

    def look(self) -> dict[str, Desired]:
        """One pass; the cluster does what it decides."""
        self.there.now += 11
        self.cases = self.there.make()
        self.there.carry_out([case for case in self.cases.values() if case.new_status is not None])
        for name, case in self.cases.items():
            for pod in self._pods(name)[_wanted(case) :]:
                self.there.store.observe(PODS, "DELETED", pod)
        return self.cases

    def serving(self, name: str) -> int:
        return len(self._pods(name))

    def _pods(self, name: str) -> list[Mapping[str, Any]]:
        every = self.there.store.all(PODS)
        return [pod for pod in every if pod["metadata"]["labels"]["plimsoll.dev/deployment"] == name]


def _wanted(case: Desired) -> int:
    return 0 if case.outcome.decision is None else sum(pool.replicas for pool in case.outcome.decision.pools)


def _begun(cache: Path) -> LivePasses:
    there = LivePasses.open(cache, {L40S: 8})
    there.put(NAME, L40S, rebalancing=LIVE)
    there.put(NEIGHBOUR, L40S, created="04:00:00", replicas=2, rebalancing=LIVE | {"mode": "Recommend"})
    return there


EVENTS = st.one_of(
    st.tuples(st.just("mode"), st.sampled_from(["Auto", "Recommend", "Off"])),
    st.tuples(st.just("number"), st.integers(0, 6)),
    st.tuples(st.just("load"), st.sampled_from([0.0, 0.6, 1.0])),
    st.tuples(st.just("later"), st.sampled_from([60.0, 4000.0])),
    st.just(("outage",)),
    st.just(("restart",)),
)

UP: list[Event] = [("load", 1.0), ("load", 1.0), ("load", 1.0)]


@settings(max_examples=examples(60))
@example(events=[*UP, ("mode", "Off"), ("restart",), ("later", 60.0), ("mode", "Recommend"), ("mode", "Auto")])
@example(events=[*UP, ("mode", "Recommend"), ("restart",), ("number", 2), ("mode", "Off"), ("number", 1)])
@example(events=[*UP, ("outage",), ("number", 2), ("later", 60.0), ("restart",), ("load", 0.6)])
@example(events=[*UP, ("outage",), ("number", 2), ("mode", "Off")])
@example(events=[*UP, ("outage",), ("number", 0), ("number", 2)])
@example(events=[("restart",), ("number", 2), ("number", 1)])
@given(events=st.lists(EVENTS, max_size=9))
def test_what_serves_ends_by_the_loop_in_auto_or_by_another_number(events: list[Event]) -> None:
    async def run() -> None:
        with TemporaryDirectory() as cache:
            course = Course(_begun(Path(cache)), Path(cache))
            await course.there.settle()
            course.look()
            await course.play(("load", 0.6))
            course.look()
            obeyed = 1  # the number that the replicas were counted from last
            for event in events:
                has_begun = bool(live_part(course.cases[NAME]))
                await course.play(event)
                before = course.serving(NAME)
                case, neighbour = course.look()[NAME], course.cases[NEIGHBOUR]
                after, turn = course.serving(NAME), case.outcome.turn
                decided = None if turn is None or not turn.acted else turn.decision
                waits = has_begun and course.mode == "Auto" and not course.is_read and course.number > 0
                is_another = course.number != obeyed and not (waits and before > course.number)
                if is_another:
                    assert after == course.number or isinstance(decided, AddReplica | RemoveReplica)
                    obeyed = course.number
                elif after < before:
                    assert course.mode == "Auto"
                    assert isinstance(decided, RemoveReplica), event
                _is_said(course, case, obeyed)
                assert (course.serving(NEIGHBOUR), _wanted(neighbour)) == (2, 2)
            await course.there.passes.reader.models.close()

    asyncio.run(run())


def _is_said(course: Course, case: Desired, obeyed: int) -> None:
    """The condition says that another number is kept exactly while one is, and the status remembers it."""
    assert case.new_status is not None
    wanted = _wanted(case)
    [planned] = [each["message"] for each in case.new_status["conditions"] if each["type"] == "Planned"]
    waits = course.mode == "Auto" and obeyed != course.number
    assert ("are kept: in mode" in planned) is (course.mode != "Auto" and wanted != course.number)
    assert ("until metrics are read" in planned) is waits
    if course.mode == "Off" and wanted == course.number:
        assert not live_part(case)
    elif waits or wanted != course.number:
        assert (live_part(case)["baseReplicas"], live_part(case)["targetReplicas"]) == (obeyed, wanted)
