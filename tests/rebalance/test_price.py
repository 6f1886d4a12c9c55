"""One more replica, or one less, by the price of a replica against that of requests that miss their promise."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.latency import Objective
from plimsoll.rebalance.law.capacity import capacity_of
from plimsoll.rebalance.law.price import WORTH, Stakes, stakes_of
from plimsoll.rebalance.signals.traffic import Lengths
from plimsoll.rebalance.state.policy import RebalancePolicy
from tests.support.engine_loads import replica_model

OWN_ERROR = 0.05
WANDER_PER_SECOND = 1e-05

LENGTHS = Lengths(1000, 200, 0, 1100)
MODEL = replica_model()
SECONDS = st.floats(1, 3600)
RATES = st.floats(0.01, 1000)


def stakes(startup_seconds: float, objective: Objective = Objective.BALANCED, per_second: float = 2.0) -> Stakes:
    return Stakes(WORTH[objective] / per_second, startup_seconds)


def test_a_replica_stays_for_the_usual_cool_down_of_a_spec() -> None:
    assert stakes(60.0).stay_seconds == RebalancePolicy().cooldown_seconds == 1800


def test_the_parts_for_five_replicas_worth_of_arrivals() -> None:
    seconds = (60, 100, 180, 300, 420, 600, 900)
    assert [round(100 * stakes(each).use(10.0)) for each in seconds] == [95, 93, 91, 89, 87, 84, 81]
    assert [round(100 * stakes(each).spare_use(10.0)) for each in seconds] == [87, 85, 82, 79, 77, 75, 73]


def test_a_replica_is_superfluous_below_the_need_of_another_and_the_longer_a_start_up_takes_the_more_room_is_kept() -> (
    None
):
    found = [stakes(seconds) for seconds in (60, 100, 180, 300, 600, 900)]
    assert all(each.spare_use(10.0) < each.use(10.0) < 1 for each in found)
    for parts in ([each.use(10.0) for each in found], [each.spare_use(10.0) for each in found]):
        assert all(later < earlier for earlier, later in pairwise(parts))


def test_who_pays_more_for_time_gets_more_room_and_who_pays_nothing_gets_none() -> None:
    interactive, balanced, batch = (stakes(300, each).use(10.0) for each in Objective)
    assert interactive < balanced < batch == 1.0


def test_what_is_counted_badly_asks_for_more_room() -> None:
    assert [round(100 * stakes(300).use(10.0, error)) for error in (0.0, 0.05, 0.2)] == [89, 87, 73]


def test_a_replica_that_stays_longer_must_be_worth_more() -> None:
    parts = [stakes(300).staying(seconds).use(10.0) for seconds in (600, 1800, 3600)]
    assert parts == sorted(parts)
    assert parts[0] < parts[-1]
    assert stakes(300).staying(0.0).stay_seconds == 300
    assert stakes(0).staying(0.0).stay_seconds == 60


@given(RATES, SECONDS, st.floats(0, 0.5))
def test_at_that_part_one_more_replica_costs_what_it_saves(rate: float, startup: float, counted: float) -> None:
    """The tail of the normal distribution, from a thousandth to one half of it."""
    found = stakes(startup)
    use = found.use(rate, counted)
    error = math.sqrt(counted**2 + OWN_ERROR**2 + WANDER_PER_SECOND * startup)
    chance = math.erfc((1 / use - 1) / error / math.sqrt(2)) / 2
    worth = rate * (startup + found.notice_seconds) * found.missed_seconds
    assert chance == pytest.approx(min(0.5, max(0.001, found.stay_seconds / worth)), rel=1e-6)


@given(st.floats(0, 1000), st.floats(0.01, 50), st.floats(0.1, 10), SECONDS)
def test_a_backlog_gets_the_replicas_that_cost_the_least_with_it(
    backlog: float, rate: float, most: float, startup: float
) -> None:
    found = stakes(startup)
    wanted = found.behind(backlog, rate, most)

    def cost(replicas: float) -> float:
        missed = rate * backlog / (replicas * most - rate)
        return replicas * found.stay_seconds + missed * found.missed_seconds

    assert wanted >= rate / most
    best = max(wanted, rate / most + 1e-6)
    assert cost(best + 1) - cost(best) >= -1e-6 * cost(best)
    if wanted - 1.01 > rate / most:
        assert cost(wanted - 0.01) - cost(wanted - 1.01) <= 1e-6 * cost(wanted)


def test_huge_numbers_and_nothing_at_all_have_a_price() -> None:
    for rate in (0.0, 1e-12, 1e12):
        for seconds in (0.0, 1e9):
            assert 0 < stakes(seconds).spare_use(rate) <= stakes(seconds).use(rate) <= 1
            assert stakes(seconds).behind(0.0, rate, 1.0) == rate


@pytest.mark.parametrize(
    ("objective", "times"), [(Objective.INTERACTIVE, 62.5), (Objective.BALANCED, 25), (Objective.BATCH, 0)]
)
def test_a_missed_request_is_worth_so_many_times_what_it_costs_to_serve_it(objective: Objective, times: float) -> None:
    capacity = capacity_of(MODEL, LENGTHS)
    found = stakes_of(replace(MODEL, objective=objective), capacity, 100.0)
    assert found.missed_seconds == pytest.approx(times / capacity.per_second)
    assert found.startup_seconds == 100
