"""The memory of earlier passes saves time and changes no decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.planning.passes import look_up
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES, PODS, ObjectKind
from plimsoll.app.plan import passes as passes_module
from plimsoll.app.plan.rendered import Desired
from plimsoll.decision.decide import decide
from plimsoll.decision.memory import Memory
from plimsoll.decision.outcome import Outcome, Outcomes
from plimsoll.decision.supervisor import PassSupervisor
from plimsoll.decision.world import World
from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Taint
from plimsoll.domain.cluster.gpus import Billing, GpuType, Price
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.facts.cluster.quota_reading import NamespaceQuotas
from tests.support.live_passes import AUTO, H100, L4, L40S, LivePasses
from tests.support.outcomes import without_answers
from tests.support.tables import examples

pytestmark = pytest.mark.lengthy

LONGEST_SECONDS = 10.0

NAMES = ("chat", "mail", "asks")
WISHES: tuple[dict[str, Any], ...] = (
    {},
    {"replicas": 3},
    {"replicas": 9},
    {"replicas": 0},
    {"concurrency": 64},
    {"contextLength": 16384},
    {"gpu": {"allow": [H100]}},
    {"suspend": True},
    {"rebalancing": AUTO},
    {"rebalancing": {"mode": "Off"}},
    {"engine": {"name": "sglang"}},
    {"engine": {"name": "auto"}, "rebalancing": AUTO},
)


Edit = Callable[[World], World]
"""Changes what a pass decides from."""


def _nodes(change: Callable[[GpuNode], GpuNode]) -> Edit:
    return lambda world: replace(world, fleet=world.fleet.with_nodes(map(change, world.fleet.nodes)))


def _without(kind: str) -> Edit:
    def change(world: World) -> World:
        left = (each for each in world.fleet.nodes if each.gpu.name != kind)
        return replace(world, fleet=Fleet(tuple(left), world.fleet.ignored))

    return change


def _priced(gpu: GpuType, usd: str) -> GpuType:
    return replace(gpu, price=Price(Decimal(usd), "test"))


def _sold_at(kind: str, usd: str) -> Edit:
    def change(world: World) -> World:
        return replace(world, catalog=tuple(_priced(gpu, usd) if gpu.name == kind else gpu for gpu in world.catalog))

    return change


def _may_grow(kind: str, usd: str, most: int | None) -> Edit:
    def change(world: World) -> World:
        sold = (each for each in world.catalog if each.name == kind)
        groups = (NodeGroup("spare", _priced(gpu, usd), "nvidia.com/gpu", 2, most) for gpu in sold)
        return replace(world, groups=tuple(groups))

    return change


def _limited(namespace: str, gpus: int) -> Edit:
    def change(world: World) -> World:
        return replace(world, quotas=NamespaceQuotas(remaining={namespace: {"nvidia.com/gpu": gpus}}))

    return change


def _first(name: str, value: int) -> Edit:
    def change(world: World) -> World:
        return replace(
            world,
            deployments=tuple(
                replace(each, asked=replace(each.asked, priority=Priority(value))) if each.key.name == name else each
                for each in world.deployments
            ),
        )

    return change


def _billed(billing: Billing) -> Edit:
    return lambda world: replace(world, settings=replace(world.settings, billing=billing))


EDITS: dict[str, tuple[Edit, ...]] = {
    "held": (
        _nodes(lambda each: replace(each, held=each.allocatable)),
        _nodes(lambda each: replace(each, held=each.allocatable) if each.gpu.name == L4 else each),
        _nodes(lambda each: replace(each, held=min(each.allocatable, each.held + 1))),
    ),
    "offered": (
        _without(L4),
        _without(H100),
        _nodes(lambda each: replace(each, allocatable=each.allocatable + 2)),
        _nodes(lambda each: replace(each, taints=(Taint("team", "ml", "NoSchedule"),))),
        _nodes(lambda each: replace(each, gpu=replace(each.gpu, usable_bytes=each.gpu.usable_bytes // 2))),
    ),
    "prices": (
        _nodes(lambda each: replace(each, gpu=_priced(each.gpu, "9.5")) if each.gpu.name == L4 else each),
        _nodes(lambda each: replace(each, gpu=_priced(each.gpu, "0.1")) if each.gpu.name == H100 else each),
    ),
    "catalog": (_sold_at(L4, "9.5"), _sold_at(H100, "0.1"), lambda world: replace(world, catalog=())),
    "groups": (_may_grow(H100, "3", None), _may_grow(H100, "4", None), _may_grow(L40S, "1", 2)),
    "quotas": (_limited("team-0", 0), _limited("team-0", 1), _limited("team-1", 2), _limited("team-1", -1)),
    "billing": (_billed(Billing.ON_DEMAND), _billed(Billing.OWNED)),
    "priorities": (_first("asks", 10), _first("mail", 20), _first("asks", 30)),
}
"""By part of the world. The last change of each part holds until another one comes, or it is undone."""


@dataclass
class Compared:
    """Decides each world of a pass with the memory of all passes before, and with an empty one."""

    worlds: int = 0
    edits: dict[str, Edit] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)

    def decide(self, world: World, memory: Memory, supervisor: PassSupervisor | None = None, **tools: Any) -> Outcomes:
        """Both ways give the same."""
        for edit in self.edits.values():
            world = edit(world)
        without = decide(world, without_answers(memory), **tools)
        found = decide(world, memory, supervisor, **tools)
        for warm, cold in zip(found.each, without.each, strict=True):
            assert _said(warm) == _said(cold)
        assert found.left.left.ledger == without.left.left.ledger
        self.worlds += 1
        self.decided |= {type(each.turn.decision).__name__ for each in found.each if each.turn is not None}
        return found


def _said(outcome: Outcome) -> tuple[object, ...]:
    turn = outcome.turn
    words = None if turn is None else (turn.decision, turn.proposal, turn.acted, turn.standing, turn.hints)
    return outcome, words


@dataclass
class Events:
    """A course of events in a small cluster."""

    there: LivePasses
    edits: dict[str, Edit]
    cases: dict[str, Desired] = field(default_factory=dict)
    generation: int = 1

    def make(self, seconds: float) -> None:
        self.there.now += LONGEST_SECONDS + seconds
        self.cases = self.there.make()

    def wish(self, name: str, wish: dict[str, Any]) -> None:
        self.generation += 1
        self.there.change(name, self.generation, **wish)

    def carry_out(self) -> None:
        self.there.carry_out([case for case in self.cases.values() if case.new_status is not None])

    def load(self, name: str, usage: float) -> None:
        case = self.cases.get(name)
        decision = None if case is None else case.outcome.decision
        if case is not None and decision is not None and decision.choice is not None:
            self.there.load(case, usage)

    def change(self, kind: ObjectKind, index: int, change: Callable[[dict[str, Any]], object]) -> None:
        bodies = self.there.store.all(kind)
        if not bodies:
            return
        self.there.version += 1
        body = _copied(bodies[index % len(bodies)])
        body["metadata"]["resourceVersion"] = str(self.there.version)
        change(body)
        self.there.store.observe(kind, "MODIFIED", body)

    def drop(self, name: str) -> None:
        """Delete a deployment, and make another one of its name."""
        for body in self.there.store.all(INFERENCE_DEPLOYMENTS):
            if body["metadata"]["name"] == name:
                self.there.version += 1
                version = str(self.there.version)
                head = {**body["metadata"], "uid": f"uid-{name}-{version}", "resourceVersion": version}
                self.there.store.observe(INFERENCE_DEPLOYMENTS, "DELETED", body)
                self.there.store.observe(
                    INFERENCE_DEPLOYMENTS, "ADDED", {**body, "metadata": {**head, "generation": 1}, "status": {}}
                )


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return [_copied(entry) for entry in value] if isinstance(value, list) else value


EVENTS = st.one_of(
    st.tuples(st.just("wish"), st.sampled_from(NAMES), st.sampled_from(WISHES)),
    st.tuples(st.just("load"), st.sampled_from(NAMES), st.sampled_from([0.0, 0.6, 1.0])),
    st.tuples(st.just("carry_out")),
    st.tuples(st.just("pod"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("node"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("drop"), st.sampled_from(NAMES)),
    *(
        st.tuples(st.just("edit"), st.just(part), st.integers(0, len(edits) - 1) | st.none())
        for part, edits in EDITS.items()
    ),
)


def _play(course: Events, event: tuple[Any, ...]) -> None:
    match event:
        case ("wish", name, wish):
            course.wish(name, wish)
        case ("load", name, usage):
            course.load(name, usage)
        case ("carry_out",):
            course.carry_out()
        case ("pod", index, ready):
            course.change(PODS, index, lambda body: _set_ready(body, is_ready=ready))
        case ("node", index, cordoned):
            course.change(NODES, index, lambda body: body["spec"].update(unschedulable=cordoned))
        case ("drop", name):
            course.drop(name)
        case ("edit", part, None):
            course.edits.pop(part, None)
        case ("edit", part, number):
            course.edits[part] = EDITS[part][number]
        case _:
            raise AssertionError(event)


def _set_ready(body: dict[str, Any], *, is_ready: bool) -> None:
    for condition in body["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "True" if is_ready else "False"


async def _begun(cache: Path, edits: dict[str, Edit]) -> Events:
    there = LivePasses.open(cache, {L4: 3, L40S: 2, H100: 2})
    for index, name in enumerate(NAMES):
        there.put(name, L4, L40S, H100, created=f"03:00:0{index}", namespace=f"team-{index % 2}")
    there.make()
    await look_up(there.passes)
    course = Events(there, edits)
    for _ in range(2):
        course.make(1.0)
        course.carry_out()
    return course


EVERY_EDIT: list[tuple[tuple[Any, ...], float]] = [
    (("edit", part, number), 0.0) for part, edits in EDITS.items() for number in (*range(len(edits)), None)
]
WAITS: list[tuple[tuple[Any, ...], float]] = [(("wish", "asks", {"replicas": 9}), 0.0), (("carry_out",), 0.0)]
OPEN: list[tuple[tuple[Any, ...], float]] = [
    (("wish", "asks", {"replicas": 9, "engine": {"name": "auto"}, "rebalancing": AUTO}), 0.0),
    (("carry_out",), 0.0),
]


@settings(max_examples=examples(40))
@example(events=EVERY_EDIT)
@example(events=[*WAITS, *EVERY_EDIT])
@example(events=[*OPEN, *EVERY_EDIT])
@given(events=st.lists(st.tuples(EVENTS, st.sampled_from([0.0, 30.0, 700.0])), max_size=10))
def test_a_decision_with_a_warm_memory_is_that_with_an_empty_one(events: list[tuple[tuple[Any, ...], float]]) -> None:
    compared = Compared()

    async def run() -> None:
        with TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
            patch.setattr(passes_module, "decide", compared.decide)
            course = await _begun(Path(cache), compared.edits)
            for event, seconds in events:
                _play(course, event)
                course.make(seconds)
            await course.there.passes.reader.models.close()

    asyncio.run(run())
    assert compared.worlds == len(events) + 3
