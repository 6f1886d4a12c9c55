"""Planning time is shared: what one namespace applies delays nobody else, and everybody has a turn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.app.plan.planning_time import (
    FREE_CHANGES,
    KEPT_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MOST_UNWRITTEN,
    SECONDS,
    UNWRITTEN_SECONDS,
    PlanningTime,
)
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.placement.demands.pools import Decision
from plimsoll.status.record.report import DeploymentProblem
from tests.app.test_rolled_back import status
from tests.support.bodies import inference_deployment_body
from tests.support.live_passes import L4, Open
from tests.support.outcomes import deployment_of

NOW = 1_795_300_000.0
TIME = "2026-11-22T04:00:00Z"


@dataclass
class Desk:
    """Passes over deployments whose planning takes the seconds that are said here."""

    costs: Mapping[str, float]
    spent: float = 0.0
    now: float = NOW
    generations: dict[str, int] = field(default_factory=dict)
    costs_again: bool = False
    reading: float = 0.0
    stuck: frozenset[str] = frozenset()
    priorities: Mapping[str, int] = field(default_factory=dict)
    done: set[tuple[str, int]] = field(default_factory=set)
    written: dict[str, int] = field(default_factory=dict)
    writes: int = 1000
    read: dict[tuple[str, int, int | None], Deployment] = field(default_factory=dict)
    time: PlanningTime = field(init=False)

    def __post_init__(self) -> None:
        self.time = PlanningTime(SECONDS, clock=lambda: self.spent, wall=lambda: self.spent)

    def case(self, name: str) -> Deployment:
        """A deployment is read once for each generation and status, as passes read it."""
        version = name, self.generations.get(name, 1), self.written.get(name)
        if version not in self.read:
            self.read[version] = self.case_of(name)
        return self.read[version]

    def case_of(self, name: str) -> Deployment:
        body = inference_deployment_body(name, uid=name)
        body["metadata"] |= {"namespace": name.partition("-")[0], "generation": self.generations.get(name, 1)}
        if name in self.written:
            condition = {
                "type": "Planned",
                "status": "True",
                "reason": "Placed",
                "message": "",
                "lastTransitionTime": TIME,
            }
            body["status"] = {"observedGeneration": self.written[name], "conditions": [condition]}
        return deployment_of(body, key=ObjectKey(name.partition("-")[0], name))

    def make(self, *, seconds: float = 1.0) -> list[str]:
        """One pass; returns who was planned, in turn."""
        cases = [self.case(name) for name in self.costs]
        problems: dict[str, DeploymentProblem] = {}
        self.time.begin(cases, self.now, lambda case: self.priorities.get(case.key.name, 0))
        for case in self.time.in_turn(cases):
            waits = self.time.waits(case, reading=True)
            if waits is None:
                self.time.spend(partial(self.take, self.reading), case)
                waits = HUB_IS_DOWN if case.key.name in self.stuck else None
            if waits is not None:
                problems[case.key.name] = waits
        planned, queued = list[str](), {case.identity.uid for case in self.time.in_turn([])}
        for case in cases:
            if case.identity.uid not in queued and self.costs_again:
                self.time.spend(partial(self.take, self.costs[case.key.name]), case)
        for case in self.time.queued():
            waits = problems.get(case.key.name) or self.time.waits(case)
            if waits is not None:
                problems[case.key.name] = waits
                continue
            version = case.identity.uid, case.identity.generation
            is_done = version in self.done and not self.costs_again
            self.time.spend(partial(self.take, self.costs[case.key.name] * (not is_done)), case)
            self.done.add(version)
            planned.append(case.key.name)
        self.time.end([outcome(case, problems.get(case.key.name)) for case in cases])
        self.now += seconds
        self.write()
        return planned

    def take(self, seconds: float) -> None:
        self.spent += seconds

    def write(self) -> None:
        """Write as many decisions as are written between two passes."""
        decided = dict(sorted(self.done))
        unwritten = [name for name, generation in decided.items() if self.written.get(name) != generation]
        self.written |= {name: decided[name] for name in unwritten[: self.writes]}


HUB_IS_DOWN = DeploymentProblem(ConditionReason.MODEL_SOURCE_UNAVAILABLE, "the Hub is down", permanent=False)


def outcome(case: Deployment, problem: DeploymentProblem | None) -> Outcome:
    return Outcome(case, problem=problem, decision=None if problem else Decision.__new__(Decision))


COSTS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 20)).map(lambda pair: f"{pair[0]}-{pair[1]}"),
    st.sampled_from([0.001, 0.02, 0.1, 0.3, 2.0]),
    max_size=40,
)


@given(costs=COSTS)
def test_everybody_has_a_turn_and_no_pass_is_longer_than_its_seconds_and_one_more(costs: Mapping[str, float]) -> None:
    desk, planned = Desk(costs), list[str]()
    for _ in range(len(costs) + 1):
        before = desk.spent
        made = desk.make()
        assert desk.spent - before <= SECONDS + max((costs[name] for name in made), default=0.0)
        planned += [name for name in made if name not in planned]
    assert sorted(planned) == sorted(costs)
    desk.make()
    assert desk.make() == [], "what is planned and has not changed costs nothing"


@given(flood=st.integers(1, 200), cost=st.sampled_from([0.02, 0.15, 0.5]))
def test_a_newcomer_is_in_the_first_pass_after_it_came_whatever_a_neighbour_applies(flood: int, cost: float) -> None:
    desk = Desk({f"busy-{number}": cost for number in range(flood)})
    desk.make()
    for number in range(flood):
        desk.generations[f"busy-{number}"] = 2
    desk.costs = {**desk.costs, "honest-0": 0.02}
    assert "honest-0" in desk.make()
    assert desk.make() != [] or flood * cost <= SECONDS


@given(cost=st.sampled_from([0.02, 0.15, 0.5]), newcomers=st.integers(1, 6))
def test_who_took_much_makes_way_for_newcomers_every_other_pass(cost: float, newcomers: int) -> None:
    flood = [f"busy-{number}" for number in range(40)]
    desk = Desk(dict.fromkeys(flood, cost))
    while desk.make():
        pass
    desk.generations = dict.fromkeys(flood, 2)
    desk.now += 10
    arrived, turns = list[str](), list[bool]()
    for number in range(newcomers):
        arrived.append(f"honest{number}-0")
        desk.costs = {**desk.costs, arrived[-1]: 0.02}
        made = desk.make(seconds=0.1)
        assert arrived[-1] in made
        turns.append(made != [arrived[-1]])
    assert not turns[0]
    assert all(before or after for before, after in itertools.pairwise(turns)), "it waits for one pass at most"


@pytest.mark.parametrize("cost", [0.02, 0.05, 0.1])
def test_a_pass_ends_early_when_a_newcomer_asks_for_the_next_one(cost: float) -> None:
    desk = Desk({f"busy-{number}": cost for number in range(40)})
    while desk.make():
        pass
    desk.generations = dict.fromkeys(desk.costs, 2)
    desk.now += 10
    desk.time.is_hurried = lambda: True
    for _ in range(5):
        assert len(desk.make()) == 1
        before = desk.spent
        assert desk.make() != []
        assert KEPT_SECONDS <= desk.spent - before < KEPT_SECONDS + cost, "some time is left to it"


def test_of_one_namespace_the_cheap_ones_come_first() -> None:
    desk = Desk({"a-costly": 0.2, "a-cheap": 0.01})
    desk.make()
    desk.make()
    desk.generations = {"a-costly": 2, "a-cheap": 2}
    desk.now += 100
    assert desk.make() == ["a-cheap", "a-costly"]


def test_of_one_namespace_the_higher_priority_comes_first_and_takes_nothing_from_others() -> None:
    desk = Desk({"a-low": 0.2, "a-high": 0.2, "b-none": 0.2})
    desk.priorities = {"a-high": 1000}
    planned = [name for _ in range(3) for name in desk.make()]
    assert planned.index("a-high") < planned.index("a-low")
    assert planned.index("b-none") < planned.index("a-low")


@given(count=st.integers(2, 40), cost=st.sampled_from([0.02, 0.2, 1.5]))
def test_those_that_cost_something_in_each_pass_take_turns(count: int, cost: float) -> None:
    desk = Desk({f"a-{number}": cost * (1 + number % 3) for number in range(count)}, costs_again=True)
    for _ in range(count):
        desk.make()
    planned = [set(desk.make()) for _ in range(count)]
    assert set.union(*planned) == set(desk.costs)
    assert all(planned), "each pass has one at least"


def test_who_was_cheap_at_first_and_costs_something_later_takes_turns_as_well() -> None:
    desk = Desk({f"a-{number}": 0.0 for number in range(8)})
    desk.make()
    desk.costs, desk.costs_again = dict.fromkeys(desk.costs, 0.4), True
    desk.make()
    assert 0 < len(desk.make()) < len(desk.costs)


def test_many_that_wait_for_their_model_do_not_keep_the_others_of_their_namespace_waiting() -> None:
    stuck = frozenset(f"a-{number:03}" for number in range(300))
    desk = Desk(dict.fromkeys(sorted(stuck), 0.0), reading=0.002, stuck=stuck)
    desk.priorities = dict.fromkeys(stuck, 1000)
    for _ in range(3):
        desk.make()
    desk.costs = {**desk.costs, "a-newcomer": 0.02, "b-honest": 0.02}
    assert "b-honest" in desk.make()
    assert "a-newcomer" in {name for _ in range(4) for name in desk.make()}
    desk.generations["a-newcomer"] = 2
    desk.now += 100
    assert desk.make() == ["a-newcomer"]
    desk.stuck = frozenset()
    planned = {name for _ in range(20) for name in desk.make()}
    assert planned >= stuck


@given(flood=st.integers(1, 400), writes=st.integers(0, 40), neighbours=st.integers(1, 3))
def test_no_namespace_is_planned_far_ahead_of_its_writes_and_none_waits_for_those_of_others(
    flood: int, writes: int, neighbours: int
) -> None:
    desk = Desk(dict.fromkeys([f"a-{number:03}" for number in range(flood)], 0.0), writes=writes)
    ahead = list[int]()
    for _ in range(12):
        desk.make()
        ahead.append(len(desk.done) - len(desk.written))
    assert max(ahead) <= MOST_UNWRITTEN
    assert len(desk.done) == min(flood, MOST_UNWRITTEN + 11 * min(writes, MOST_UNWRITTEN))
    arrived = [f"b-{number}" for number in range(neighbours)]
    desk.costs = {**desk.costs, **dict.fromkeys(arrived, 0.02)}
    assert {*desk.make()} >= {*arrived}


def test_decisions_that_can_never_be_written_do_not_keep_their_namespace_waiting_for_ever() -> None:
    desk = Desk(dict.fromkeys([f"a-{number:03}" for number in range(300)], 0.0), writes=0)
    passes = 0
    while len(desk.done) < len(desk.costs):
        desk.make(seconds=3.0)
        passes += 1
    assert passes <= math.ceil(300 / MOST_UNWRITTEN) * (UNWRITTEN_SECONDS / 3.0 + 1)


def test_who_changes_a_spec_again_and_again_waits_longer_each_time() -> None:
    desk = Desk({"busy-0": 0.02})
    planned = list[float]()
    for change in range(600):
        desk.generations["busy-0"] = change + 1
        if desk.make(seconds=0.5):
            planned.append(desk.now - NOW)
    pauses = [later - earlier for earlier, later in itertools.pairwise(planned)]
    assert pauses[: FREE_CHANGES + 1] == [0.5] * (FREE_CHANGES + 1)
    assert max(pauses) <= LONGEST_PAUSE_SECONDS + 0.5
    assert len(planned) < 60, "the average pause is longer than five seconds"
    desk.now += 600
    desk.generations["busy-0"] += 1
    assert desk.make() == ["busy-0"], "a calm time is remembered"


async def test_who_waits_keeps_what_runs_and_is_planned_later(opened: Open) -> None:
    there = opened(l4=8)
    there.put("runs", L4, replicas=2, namespace="busy")
    await there.settle()
    there.passes.time = PlanningTime(0.0)
    there.change("runs", replicas=3)
    for number in range(3):
        there.put(f"more-{number}", L4, namespace="busy", created="04:00:00")
    there.put("honest", L4, namespace="honest", created="05:00:00")
    seen = dict[str, set[str]]()
    for _ in range(6):
        cases = there.make()
        waiting = {name for name, case in cases.items() if waits(case.outcome.problem)}
        assert len(waiting) <= 4, "each pass plans one at least"
        for name in waiting:
            assert cases[name].manifests == ()
        if "runs" in waiting:
            assert [pool.replicas for pool in cases["runs"].outcome.deployment.placed.pools] == [2]
        for name in cases.keys() - waiting:
            seen.setdefault(name, set()).add("planned")
        there.carry_out(list(cases.values()))
    assert len(seen) == 5
    assert status(there.make()["runs"])["replicasSummary"] == "3/3"


def waits(problem: DeploymentProblem | None) -> bool:
    return problem is not None and problem.reason == ConditionReason.PLANNING_QUEUED
