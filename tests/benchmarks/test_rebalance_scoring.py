"""The figures of the rebalancing benchmark, from outcomes made by hand, and its command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.rebalance.__main__ import main
from benchmarks.rebalance.asked import MOST_SEEDS
from benchmarks.rebalance.means import Mean, means, total
from benchmarks.rebalance.runs import Task, scored_with, scores, tasks
from benchmarks.rebalance.scenarios.known import QUICK, situations
from benchmarks.rebalance.scenarios.situation import Goal, Situation
from benchmarks.rebalance.scoring import Score, errors, goodput, missed, recoveries, score
from benchmarks.rebalance.table import tables
from benchmarks.rebalance.values import Maker, Outcome, Scenario
from plimsoll.simulation.peers.view import Policy, View
from plimsoll.simulation.values import AnsweredRequest, Arrival, Fate
from plimsoll.simulation.verdicts import FLIP_SECONDS, Change, flips
from tests.support.tables import every_case

S1 = situations()["S1"]
SCENARIO = replace(S1.scenario, seconds=3600, ttft_seconds=2.0, tpot_seconds=0.1)
Capture = pytest.CaptureFixture[str]
Fails = Callable[[float], bool]


def served(at: float = 0.0, ttft: float = 0.5, tpot: float | None = 0.05) -> AnsweredRequest:
    return AnsweredRequest(Arrival(at, 100, 10), Fate.SERVED, ttft, tpot)


def failed(fate: Fate, at: float = 0.0) -> AnsweredRequest:
    return AnsweredRequest(Arrival(at, 100, 10), fate)


def outcome(
    answered: Iterable[AnsweredRequest] = (), changes: tuple[Change, ...] = (), seconds: float = 0.0
) -> Outcome:
    return Outcome(SCENARIO, "mine", 1, tuple(answered), changes, seconds)


def wishes(*levels: tuple[float, int]) -> tuple[Change, ...]:
    """The changes of a wish that has these levels from these moments on, and was 2 before."""
    before = [2, *(level for _, level in levels)]
    return tuple(Change(at, old, new) for (at, new), old in zip(levels, before, strict=False))


# Goodput and errors


def test_a_request_counts_where_it_was_served_within_both_promises() -> None:
    honest = [served(), served(ttft=2.0, tpot=0.1), served(tpot=None)]
    assert goodput(honest, SCENARIO) == 100
    late, slow = served(ttft=2.01), served(tpot=0.101)
    assert goodput([*honest, late, slow], SCENARIO) == 60


def test_who_gave_up_or_was_lost_counts_against_both_figures() -> None:
    answered = [served(), served(), failed(Fate.GAVE_UP), failed(Fate.LOST)]
    assert (goodput(answered, SCENARIO), errors(answered)) == (50, 50)


def test_who_gave_up_and_who_was_lost_have_figures_of_their_own() -> None:
    answered = [served(), *[failed(Fate.GAVE_UP)] * 2, failed(Fate.LOST)]
    found = score(outcome(answered), S1)
    assert (found.errors, found.gave_up, found.lost) == (75, 50, 25)
    honest = score(outcome([served(), served(ttft=50)]), S1)
    assert (honest.gave_up, honest.lost) == (0, 0)


def test_an_answer_that_was_lost_after_a_quick_first_token_is_no_goodput() -> None:
    lost = AnsweredRequest(Arrival(0, 100, 10), Fate.LOST, 0.5, 0.05)
    assert (goodput([lost], SCENARIO), errors([lost])) == (0, 100)


def test_slow_answers_are_no_errors() -> None:
    assert errors([served(ttft=50), served()]) == 0


def test_without_requests_there_is_no_goodput_to_speak_of() -> None:
    assert (goodput([], SCENARIO), errors([])) == (None, None)
    assert score(outcome(), S1).lost is None


# Cost


def test_gpu_hours_count_every_card_and_dollars_every_replica() -> None:
    found = score(outcome([served()], seconds=5400), S1)
    assert found.gpu_hours == 3  # one replica for an hour and a half, on two cards
    assert found.usd == pytest.approx(1.5 * SCENARIO.engine.hourly_price)


# Changes and flips


def test_changes_are_counted_by_the_hour_and_only_where_something_changed() -> None:
    changes = (*wishes((60, 3), (120, 4)), Change(180, 4, 4))
    assert score(outcome(changes=changes), S1).changes_per_hour == 2
    half = replace(outcome(changes=changes), scenario=replace(SCENARIO, seconds=1800))
    assert score(half, S1).changes_per_hour == 4


@every_case(
    ("levels", "expected"),
    [
        (((0, 3), (600, 2)), 1),
        (((0, 1), (600, 2)), 1),
        (((0, 5), (600, 4)), 1),
        (((0, 3), (600, 2), (1200, 3), (1800, 2)), 3),
        (((0, 3), (60, 4), (120, 5), (180, 4), (240, 3)), 1),
        (((0, 3), (1700, 4), (3400, 3)), 1),
    ],
    ids=["up and back", "down and back", "part of the way", "to and fro", "a staircase", "since the last change"],
)
def test_a_flip_is_a_change_of_mind_within_half_an_hour(levels: tuple[tuple[float, int], ...], expected: int) -> None:
    assert flips(wishes(*levels)) == expected


@pytest.mark.parametrize(
    "levels",
    [(), ((0, 3),), ((0, 3), (60, 4), (120, 5)), ((0, 5), (FLIP_SECONDS + 1, 2)), ((0, 3), (1, 3))],
    ids=["no change", "one change", "upwards only", "after a long time", "no change of direction"],
)
def test_an_honest_policy_has_no_flip(levels: tuple[tuple[float, int], ...]) -> None:
    assert flips(wishes(*levels)) == 0


def test_the_half_hour_ends_after_1800_seconds() -> None:
    assert flips(wishes((0, 3), (1800, 2))) == 1
    assert flips(wishes((0, 3), (1800.5, 2))) == 0


def test_changes_need_not_come_in_order() -> None:
    assert flips(tuple(reversed(wishes((0, 3), (600, 4), (4000, 3))))) == 0
    assert flips(tuple(reversed(wishes((0, 3), (600, 2))))) == 1


# Recovery


def every_second(fails: Fails, end: int = 3600) -> list[AnsweredRequest]:
    return [served(at, ttft=9.0 if fails(at) else 0.5) for at in range(end)]


def recovered(fails: Fails, *rises: float, end: int = 3600) -> list[float | None]:
    return [each.seconds for each in recoveries(outcome(every_second(fails, end)), rises)]


def test_recovery_is_the_time_until_a_minute_is_good_again() -> None:
    # Requests fail from 610 to 899. The minutes from 885 on are looked at, and then those from 900 on.
    assert recovered(lambda at: 610 <= at < 900, 600) == [300]


def test_a_rise_that_hurts_nobody_needs_no_recovery() -> None:
    assert recovered(lambda _: False, 600) == [0]


def test_some_bad_requests_are_within_a_good_minute() -> None:
    assert recovered(lambda at: at % 20 == 0, 600) == [0]  # 57 of 60 are good
    assert recovered(lambda at: at % 15 == 0, 600) == [None]  # 56 of 60 are not


def test_good_minutes_before_the_queue_builds_up_are_no_recovery() -> None:
    assert recovered(lambda at: 700 <= at < 1000, 600) == [405]


def test_a_rise_that_is_never_met_has_no_recovery() -> None:
    assert recovered(lambda at: at >= 650, 600) == [None]


def test_trouble_long_after_a_rise_is_not_its_own() -> None:
    assert recovered(lambda at: 2000 <= at < 2500, 600) == [0]


def test_each_rise_has_its_own_recovery_until_the_next() -> None:
    found = recovered(lambda at: 600 <= at < 660 or 1800 <= at < 2700, 600, 1800, 2760)
    assert found == [60, 900, 0]
    assert recovered(lambda at: 600 <= at < 2000, 600, 1800) == [None, 210]


def test_minutes_without_requests_are_neither_good_nor_bad() -> None:
    gap = [each for each in every_second(lambda at: at >= 700) if not 660 <= each.arrival.at < 1500]
    assert [each.seconds for each in recoveries(outcome(gap), (600,))] == [0]
    assert [each.seconds for each in recoveries(outcome(), (600,))] == [0]


def test_nothing_is_measured_where_demand_never_rises() -> None:
    assert recovered(lambda _: True) == []
    assert score(outcome(every_second(lambda _: True)), replace(S1, rises=())).recoveries == ()


# Means


def run_of(policy: str = "mine", scenario: str = "S1", seed: int = 1, group: str = "tuning") -> Score:
    return replace(score(outcome([served()]), S1), policy=policy, scenario=scenario, seed=seed, group=group)


def test_figures_are_means_over_seeds() -> None:
    first = replace(run_of(), goodput=90.0, errors=2.0, lost=2.0, gpu_hours=4.0, usd=10.0, flips=1)
    second = replace(run_of(seed=2), goodput=100.0, errors=0.0, lost=0.0, gpu_hours=6.0, usd=20.0, flips=4)
    (found,) = means([first, second])
    assert (found.seeds, found.goodput, found.errors, found.gpu_hours, found.usd) == (2, 95, 1, 5, 15)
    assert (found.flips, found.lost, found.gave_up) == (2.5, 1, 0)


def test_seeds_that_never_recovered_are_counted_and_not_averaged() -> None:
    runs = [run_of(seed=seed) for seed in range(3)]
    times: list[float | None] = [100.0, None, 200.0]
    met = [
        replace(run, recoveries=(replace(S1_RECOVERY, seconds=each),)) for run, each in zip(runs, times, strict=True)
    ]
    (found,) = means(met)
    assert (found.recovery_seconds, found.never) == (150, 1)


S1_RECOVERY = run_of().recoveries[0]


def test_scenarios_weigh_the_same_and_hours_add_up() -> None:
    first, second = run_of(), run_of(scenario="S2")
    found = total(
        means([replace(first, goodput=60.0, gpu_hours=1.0, flips=2), replace(second, goodput=None, gpu_hours=2.0)])
    )
    assert (found.goodput, found.gpu_hours, found.flips) == (60, 3, 2)


def test_the_sets_never_share_a_total() -> None:
    with pytest.raises(ValueError, match="one policy in one set"):
        total(means([run_of(), run_of(scenario="azure-conv", group="validation")]))
    with pytest.raises(ValueError, match="one policy in one set"):
        total(means([run_of(), run_of(policy="theirs")]))
    assert total(means([run_of(), run_of(scenario="S2")])).goodput == 100


# Tables and the command


class _Always(Policy):
    """Wants the same number for ever."""

    tick_seconds = 60.0

    def __init__(self, _: Scenario, wish: int) -> None:
        self.wish = wish

    def __call__(self, _: View) -> int:
        return self.wish


MAKERS: dict[str, Maker] = {"one": partial(_Always, wish=1), "ten": partial(_Always, wish=10)}


def fake(scenario: Scenario, maker: Maker, policy_name: str, seed: int) -> Outcome:
    """As many requests of ten are good as there are replicas."""
    policy = maker(scenario)
    replicas = policy.wish if isinstance(policy, _Always) else 0
    answered = tuple(served(at, ttft=0.1 if at < replicas else 9.0) for at in range(10))
    return Outcome(scenario, policy_name, seed, answered, (Change(30, 2, 3),), replicas * 3600.0)


def command(*arguments: str) -> int:
    return main(arguments, run=fake, policies=MAKERS)


def text_of(found: list[Mean]) -> str:
    console = Console(width=160, record=True, file=StringIO())
    for table in tables(found):
        console.print(table)
    return console.export_text()


def test_the_tables_keep_the_sets_apart_and_say_never() -> None:
    never = replace(run_of(), recoveries=(replace(S1_RECOVERY, seconds=None),))
    shown = text_of(means([never, run_of(scenario="azure-conv", group="validation")]))
    assert "The tuning set, all scenarios" in shown
    assert "The validation set, all scenarios" in shown
    assert "never x1" in shown
    assert "never" not in text_of(means([run_of()])).replace("never met", "")


def test_the_table_has_the_lost_apart_from_those_who_gave_up() -> None:
    shown = text_of(means([replace(run_of(), gave_up=12.34, lost=5.67)]))
    line = next(line for line in shown.splitlines() if line.split()[:2] == ["S1", "mine"])
    assert line.split()[2:5] == ["100.0", "12.34", "5.67"]


def test_the_command_prints_a_row_for_each_policy_and_writes_every_figure(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "figures.json"
    assert command("--scenarios", "S1,azure-code", "--seeds", "3", "--json", str(file)) == 0
    shown = capsys.readouterr().out
    assert "10.0" in shown
    assert "100.0" in shown
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert len(figures["runs"]) == 2 * 2 * 3
    assert {each["seed"] for each in figures["runs"] if each["scenario"] == "azure-code"} == {1001, 1002, 1003}
    assert [(each["scenario"], each["policy"], each["goodput"]) for each in figures["means"]] == [
        ("S1", "one", 10),
        ("S1", "ten", 100),
        ("azure-code", "one", 10),
        ("azure-code", "ten", 100),
    ]


@pytest.mark.parametrize("group", ["tuning", "validation"])
def test_a_set_runs_alone(group: str, capsys: Capture) -> None:
    assert command("--set", group, "--seeds", "1", "--policies", "one") == 0
    said = capsys.readouterr()
    assert f"The {group} set in detail" in said.out
    run = {line.split(": ")[1].split(",")[0] for line in said.err.splitlines()}
    assert run == {each.name for each in situations().values() if each.group == group}


def test_a_quick_look_is_one_seed_of_some(capsys: Capture) -> None:
    assert command("--quick") == 0
    assert len(capsys.readouterr().err.splitlines()) == len(QUICK) * len(MAKERS)


def test_the_list_says_what_each_scenario_tests_and_runs_nothing(capsys: Capture) -> None:
    assert command("--list", "--width", "250") == 0
    said = capsys.readouterr()
    assert all(each.tests in said.out for each in situations().values())
    goals = [str(each.goal) for each in situations().values() if each.goal is not None]
    assert len(goals) == said.out.count("goal: ")
    assert [goal for goal in goals if f"goal: {goal}" not in said.out] == []
    assert said.err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policies", "one,keda"), ("--policies: 'keda' is unknown; there are one, ten",)),
        (("--scenarios", "S1,S99"), ("--scenarios: 'S99' is unknown; there are S1, S2, S3", "V-FAULTS")),
        (("--set", "test"), ("--set: 'test' is unknown; there are tuning, validation, rhythm, faults, all",)),
        (("--set", "tuning", "--scenarios", "azure-conv"), ("--scenarios in the tuning set: 'azure-conv' is unknown",)),
        (("--seeds", str(MOST_SEEDS + 1)), ("no seed is in both sets",)),
        (("--seeds", "0"), ("--seeds",)),
        (("--scenarios", ""), ("--scenarios: '' is unknown",)),
    ],
)
def test_unknown_names_are_refused_and_known_ones_listed(
    arguments: tuple[str, ...], words: tuple[str, ...], capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        command(*arguments)
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert [each for each in words if each not in said] == []


def test_several_processes_give_the_same_scores_in_the_same_order() -> None:
    wanted = tasks(list(MAKERS), [situations()["S9"], situations()["V-LONG"]], 2)
    scored = partial(scored_with, fake, MAKERS)
    assert wanted[0] == Task(situations()["S9"], "one", 1)
    assert list(scores(wanted, scored, jobs=2)) == list(scores(wanted, scored, jobs=1))


S1_GOAL = Goal(replace(S1.scenario, start_replicas=10), "ten", replicas=1, points=5.0, hours=1.5)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ()),
        ({"most_replicas": 4, "goodput": 95.0, "gpu_hours": 3.0, "flips": 1}, ()),
        ({"most_replicas": 5}, ("5 replicas, 2 more",)),
        ({"goodput": 94.9}, ("94.9 %, 5.1 less",)),
        ({"goodput": None}, ("0.0 %, 100.0 less",)),
        ({"gpu_hours": 3.1}, ("3.1 GPU-hours, 1.55 x",)),
        ({"flips": 2, "most_replicas": 9}, ("9 replicas, 6 more", "2 flips")),
    ],
)
def test_a_goal_says_what_was_missed(changed: dict[str, Any], words: tuple[str, ...]) -> None:
    other = replace(run_of(), most_replicas=3, goodput=100.0, gpu_hours=2.0)
    assert missed(S1_GOAL, replace(other, **changed), other) == words
    anything = replace(S1_GOAL, replicas=None, points=None, hours=None, flips=99)
    assert missed(anything, replace(other, **changed), other) == ()


@pytest.mark.parametrize(
    ("compared", "points", "met"),
    [("same law", 5.0, (1, ())), ("fleet", 5.0, (0, ("10.0 %, 90.0 less",))), ("fleet", 90.0, (1, ()))],
)
def test_a_run_is_compared_with_the_one_of_its_goal(
    compared: str, points: float, met: tuple[int, tuple[str, ...]]
) -> None:
    def by_its_name(scenario: Scenario, maker: Maker, policy_name: str, seed: int) -> Outcome:
        found = fake(scenario, maker, policy_name, seed)
        is_fleet = not isinstance(maker(scenario), _Always)
        every = tuple(served(at, ttft=0.1) for at in range(10))
        return replace(found, answered=every) if is_fleet else found

    goal = replace(S1_GOAL, by_fleet=compared == "fleet", points=points, replicas=None, hours=None)
    (mean,) = means([scored_with(by_its_name, MAKERS, Task(replace(S1, goal=goal), "one", 1))])
    assert (mean.met, mean.misses) == met
    line = next(line for line in text_of([mean]).splitlines() if " of 1" in line)
    assert line.split() == ["S1", "one", "3.0", str(met[0]), "of", "1", *" ".join(met[1]).split()]


def test_a_situation_without_a_goal_has_no_table_of_goals() -> None:
    shown = text_of(means([run_of()]))
    assert "goals" not in shown


def test_two_deployments_are_scored_together() -> None:
    own = outcome([served(), served(ttft=9.0)])
    other = replace(own, answered=(served(), served()), changes=(Change(0, 1, 3), Change(60, 3, 1)))
    alone, both = score(own, S1), score(replace(own, neighbour=other), S1)
    assert (alone.goodput, both.goodput) == (50, 75)
    assert (both.gpu_hours, both.usd) == (2 * alone.gpu_hours, 2 * alone.usd)
    assert (both.flips, both.most_replicas) == (alone.flips + 1, alone.most_replicas + 3)
    assert both.recoveries == alone.recoveries
    turns = replace(own, changes=(Change(90, SCENARIO.start_replicas, SCENARIO.start_replicas + 2),))
    assert score(replace(turns, neighbour=other), S1).most_replicas == alone.most_replicas + 3, "never at the same time"


def test_a_scenario_is_run_and_scored_by_its_own_rises() -> None:
    found = scored_with(fake, MAKERS, Task(situations()["V-PEAKS"], "ten", 1001))
    rises = situations()["V-PEAKS"].rises
    assert tuple(each.at for each in found.recoveries) == rises
    assert isinstance(situations()["V-PEAKS"], Situation)
