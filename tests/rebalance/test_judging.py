"""One look at the load: it asks for replicas, and it teaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.rebalance.diagnosis.judging import Judged, judged
from plimsoll.rebalance.law.wishes import Need, Wish
from plimsoll.rebalance.signals.forecast import Point, Season, step_of
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import PodState, SignalState
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import Look, LoopMemory
from tests.support.engine_loads import NOW, alone, replica_model
from tests.support.live_situations import EASY, IDLE, loads_of, situation

SETTLED_SECONDS = 45.0

LEAST_STARTUP_SECONDS = 180.0


def wish_in(look: Judged) -> Wish:
    assert look.wish is not None
    return look.wish


def test_a_look_is_remembered_with_what_would_have_been_enough() -> None:
    look = judged(situation(EASY, EASY))
    assert look.memory.looks == (Look(NOW, wish_in(look).enough, NOW, wish_in(look).rate),)
    assert wish_in(look).enough >= wish_in(look).replicas


def test_without_a_known_pod_there_is_no_wish_and_nothing_is_seen() -> None:
    look = judged(situation(EASY, load=LoadSummary(SignalState.UNAVAILABLE), startup_seconds=90.0))
    assert look == Judged(None, LoopMemory(startup_seconds=90.0))


def test_unknown_pods_are_added_to_what_is_needed_and_to_what_is_enough() -> None:
    known = judged(situation(EASY, EASY))
    load = loads_of(EASY, EASY)
    load = replace(load, state=SignalState.STALE, pods=(*load.pods, PodState("z", SignalState.STALE)))
    found = judged(situation(EASY, EASY, load=load, replicas=3, ready=3))
    assert wish_in(found).replicas == wish_in(known).replicas + 1
    assert wish_in(found).enough == wish_in(known).enough + 1


def test_engines_that_have_not_said_how_much_cache_they_hold_use_none_of_it() -> None:
    known = loads_of(EASY)
    assert known.traffic is not None
    silent = replace(known, held_tokens=0, traffic=replace(known.traffic, used_tokens=0.0))
    assert wish_in(judged(situation(EASY, load=silent, model=None))).replicas == 1


@pytest.mark.parametrize(
    ("placement", "is_settled"),
    [
        ({}, True),
        ({"settled_since": NOW - SETTLED_SECONDS}, False),
        ({"settled_since": NOW - SETTLED_SECONDS - 1}, True),
        ({"settled_since": None}, False),
        ({"updating": True}, False),
        ({"replicas": 3}, False),
        ({"replicas": 3, "new_replicas": 1}, True),
        ({"replicas": 4, "new_replicas": 1}, False),
        ({"replicas": 3, "new_replicas": 2}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize(("retuned", "is_old"), [(None, True), (SETTLED_SECONDS, False), (SETTLED_SECONDS + 1, True)])
def test_a_queue_is_news_once_every_replica_has_served_for_a_while_as_it_is_set(
    placement: dict[str, Any], retuned: float | None, *, is_settled: bool, is_old: bool
) -> None:
    queued = replace(EASY, waiting=9.0)
    changes = () if retuned is None else (ChangeRecord(NOW - retuned, ChangeKind.RETUNE),)
    found = judged(
        situation(queued, queued, **{"model": None, "replicas": 2, "history": ChangeHistory(changes)} | placement)
    )
    assert (wish_in(found).need is Need.QUEUE) is (is_settled and is_old)


@pytest.mark.parametrize(
    ("waiting", "seconds", "is_left"),
    [(250.0, 1.0, True), (250.0, 2.0, False), (250.0, 2.9, False), (400.0, 2.0, True), (400.0, 2.9, True)],
)
def test_a_replica_that_should_serve_by_now_serves_the_backlog_for_a_whole_start_up_and_no_longer(
    waiting: float,
    seconds: float,
    is_left: bool,  # noqa: FBT001 - a column
) -> None:
    """Nine replicas begin ``seconds`` ago. In a start-up of two seconds all serve 517 of those that wait at two."""
    queued = replace(EASY, rate=10.0, waiting=waiting)
    memory = LoopMemory(startup_seconds=2.0)
    found = situation(queued, queued, memory=memory, settled_since=NOW - 5, starting_since=(NOW - seconds,) * 9)
    assert (wish_in(judged(found)).need is Need.BACKLOG) is is_left


@pytest.mark.parametrize(("startup", "kept"), [(10.0, 600.0), (300.0, 600.0), (400.0, 800.0)])
def test_arrivals_are_remembered_for_ten_minutes_or_for_two_starts(startup: float, kept: float) -> None:
    points = tuple(Point(NOW - age, EASY.rate) for age in (kept + 1, kept, kept - 1))
    memory = judged(situation(EASY, memory=LoopMemory(points=points, startup_seconds=startup))).memory
    assert [NOW - each.at for each in memory.points] == [kept, kept - 1, 0]


@pytest.mark.parametrize(
    ("changes", "ready", "is_known"),
    [({}, 2, True), ({}, 3, False), ({"state": SignalState.STALE}, 2, False), ({"quiet": None}, 2, False)],
    ids=str,
)
def test_a_time_without_requests_is_noted_if_every_ready_pod_says_so(
    changes: dict[str, Any], ready: int, *, is_known: bool
) -> None:
    load = replace(loads_of(IDLE, IDLE), **changes)
    memory = judged(situation(IDLE, IDLE, load=load, replicas=ready, ready=ready)).memory
    assert (memory.quiet_at == NOW) is is_known
    assert (memory.quiet_since is not None) is is_known


def test_the_longest_start_is_learned() -> None:
    memory = LoopMemory(startup_seconds=120.0)
    for seen, known in ((None, 120.0), (60.0, 120.0), (300.0, 300.0)):
        found = judged(situation(EASY, memory=memory, startup_seconds=seen)).memory
        assert found.startup_seconds == known


def test_slow_engines_need_more_replicas() -> None:
    """Tokens take twice as long as the model says; what is learned of it changes the wish."""
    memory, wishes = LoopMemory(), []
    for turn in range(60):
        now = NOW + 30.0 * turn
        look = judged(situation(*3 * (alone(8.0, 2.0),), memory=memory, now=now))
        memory = look.memory
        wishes.append(wish_in(look).replicas)
    assert memory.slowness == pytest.approx(2.0, rel=0.1)
    assert wishes[-1] > wishes[0]


def test_a_steady_rise_is_provided_for_and_a_step_is_not() -> None:
    """The arrivals of now are the same in both; the start of a replica takes 300 s."""
    moments = [NOW - 600 + 15 * index for index in range(40)]
    now_rate = 2 * EASY.rate
    rising = tuple(Point(at, now_rate * (1 + (at - NOW) / 700)) for at in moments)
    step = tuple(Point(at, now_rate if at > NOW - 200 else now_rate / 2) for at in moments)
    found = {
        name: wish_in(judged(situation(EASY, EASY, memory=LoopMemory(points=points, startup_seconds=300.0))))
        for name, points in {"rise": rising, "step": step, "none": ()}.items()
    }
    assert found["step"].rate == found["none"].rate == pytest.approx(now_rate)
    assert found["rise"].rate > 1.2 * now_rate
    assert found["rise"].replicas >= found["none"].replicas


def test_the_model_that_was_used_has_the_speed_that_was_learned() -> None:
    model = judged(situation(EASY, EASY, memory=LoopMemory(slowness=1.5, compared_at=NOW))).model
    assert model == replace(replica_model(), slowness=1.5)
    assert judged(situation(EASY, EASY, model=None)).model is None


def rising(factor: float = 2.0, steps: int = 2) -> LoadSummary:
    """The load of two easy replicas that is usually so many times as large after so many steps of 300 s."""
    now = 2 * EASY.rate
    rates = tuple(now * (factor if index >= 2 + steps else 1.0) for index in range(40))
    return replace(loads_of(EASY, EASY), season=Season(step_of(NOW) - 1, rates, 1.0, 7, 0.02))


def test_a_rise_of_the_days_before_is_provided_for_before_it_comes() -> None:
    memory = LoopMemory(startup_seconds=600.0)
    plain, look = (judged(situation(EASY, EASY, load=load, memory=memory)) for load in (rising(1.0), rising()))
    assert wish_in(look).need is Need.RISE
    assert wish_in(plain).replicas < wish_in(look).replicas <= 2 * wish_in(plain).replicas
    assert wish_in(look).rate == wish_in(plain).rate
    assert look.memory.looks == plain.memory.looks


def test_a_rise_after_the_start_up_only_keeps_replicas() -> None:
    look = judged(situation(EASY, EASY, load=rising(steps=4), memory=LoopMemory(startup_seconds=600.0)))
    assert wish_in(look).need is not Need.RISE
    assert wish_in(look).kept > wish_in(look).replicas


@pytest.mark.parametrize("startup", [None, LEAST_STARTUP_SECONDS - 1])
def test_replicas_that_start_quickly_need_no_forecast(startup: float | None) -> None:
    look = judged(situation(EASY, EASY, load=rising(), memory=LoopMemory(startup_seconds=startup)))
    assert wish_in(look).coming is None
    assert wish_in(look).kept == wish_in(look).replicas


def test_replicas_that_start_no_quicker_than_that_need_a_forecast() -> None:
    memory = LoopMemory(startup_seconds=LEAST_STARTUP_SECONDS)
    assert wish_in(judged(situation(EASY, EASY, load=rising(), memory=memory))).coming is not None


def test_a_forecast_takes_no_removal_back() -> None:
    memory = LoopMemory(startup_seconds=600.0)
    for age, is_provided in ((599, False), (601, True)):
        history = ChangeHistory((ChangeRecord(NOW - age, ChangeKind.REMOVE),))
        look = judged(situation(EASY, EASY, load=rising(), memory=memory, history=history))
        assert (wish_in(look).need is Need.RISE) is is_provided
