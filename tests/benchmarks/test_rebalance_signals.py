"""The figures that policies read from samples, and how an HPA carries numbers out."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.simulation.peers import keda
from plimsoll.simulation.peers.hpa import Behavior, Hpa, Rules, Step, desired_for
from plimsoll.simulation.peers.signals import (
    Lengths,
    arrivals,
    highest,
    increase,
    known,
    lengths,
    mean_prompt,
    rate,
)
from tests.benchmarks.rebalance_views import (
    NOW,
    nan,
    near,
    pod,
    sample,
    stale,
    starting,
    view,
)
from tests.support.tables import every_case


def test_figures_of_a_window() -> None:
    one = replace(pod(), samples=(sample(NOW - 70, kv=0.9), sample(NOW - 50, kv=0.5), sample(NOW - 5, kv=0.4)))

    assert highest(one, NOW, 60, lambda each: each.kv_usage) == 0.5
    assert highest(one, NOW, 90, lambda each: each.kv_usage) == 0.9
    assert increase(one, NOW, 60, lambda each: each.finished_total) == near(45 * 2)
    assert rate(one, NOW, 60, lambda each: each.prompt_tokens_total) == near(2000)
    assert rate(one, NOW, 20, lambda each: each.prompt_tokens_total) == 0, "one sample has no rate"


def test_arrivals_are_what_finished_and_what_is_more_inside() -> None:
    one = replace(pod(), samples=(sample(NOW - 40, waiting=0, running=4), sample(NOW - 10, waiting=9, running=10)))

    assert arrivals(one, NOW, 60) == near(2 + 15 / 30)


def test_lengths_are_means_of_requests_and_unknown_without_any() -> None:
    two = pod(prompt=1000, output=100), pod("b", per_second=6, prompt=2000, output=200)

    assert lengths(two, NOW, 300) == Lengths(near(1750), near(175))
    assert mean_prompt(two, NOW, 300) == near(1750)
    assert lengths([pod(per_second=0)], NOW, 300) is None
    assert mean_prompt([pod(per_second=0)], NOW, 300) == 0
    started = replace(sample(NOW - 5, per_second=0), prompt_tokens_total=6000, first_tokens_total=3)
    assert mean_prompt([replace(pod(), samples=(started,))], NOW, 300) == 2000, "those with a first token"


def test_who_is_known() -> None:
    everybody = pod("fresh"), stale(), nan(), starting()

    assert [each.name for each in known(view(*everybody))] == ["fresh"]
    assert known(view(*everybody, has_metrics=False)) == ()


@every_case(
    ("total", "current", "desired"), [(1.8, 2, 3), (1.7, 2, 2), (1.45, 2, 2), (1.43, 2, 2), (0.7, 2, 1), (0, 3, 0)]
)
def test_an_hpa_rounds_up_outside_its_tolerance(total: float, current: int, desired: int) -> None:
    assert desired_for(total, 0.8, current) == desired


def test_a_window_adds_the_least_and_removes_to_the_most_of_its_proposals() -> None:
    windows = Behavior(Rules(60), Rules(60))
    up, down = Hpa(windows), Hpa(windows)

    assert [up(at, 2, wish) for at, wish in ((0, 5), (30, 4), (60, 6))] == [2, 2, 4]
    assert [down(at, 5, wish) for at, wish in ((0, 1), (30, 3), (60, 2))] == [5, 5, 3]


def test_steps_limit_the_changes_of_their_period() -> None:
    one = Hpa(Behavior(Rules(0, (Step(180, pods=1),)), Rules(0, (Step(300, pods=1),))))
    assert [one(0, 2, 9), one(60, 3, 9), one(180, 3, 9)] == [3, 3, 4]
    assert [one(480, 4, 1), one(600, 3, 1), one(780, 3, 1)] == [3, 3, 2]
    assert Hpa(keda.SAMPLE)(0, 8, 30) == 16, "the larger step counts"
    assert Hpa(keda.SAMPLE)(0, 2, 30) == 7
    assert Hpa(keda.SAMPLE)(0, 8, 0) == 0
