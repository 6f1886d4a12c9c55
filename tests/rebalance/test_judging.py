"""One look at the load: it asks for replicas, and it teaches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.rebalance.capacity import times_of
from plimsoll.rebalance.judging import Judged, judged
from plimsoll.rebalance.load import LoadSummary
from plimsoll.rebalance.memory import Look, LoopMemory
from plimsoll.rebalance.signals import PodState, SignalState
from plimsoll.rebalance.traffic import Lengths
from plimsoll.rebalance.trend import Point
from plimsoll.rebalance.wishes import Wish
from tests.support.engine_loads import NOW, replica_model
from tests.support.live_situations import BUSY, EASY, loads_of, situation


def wish_in(look: Judged) -> Wish:
    assert look.wish is not None
    return look.wish


def test_a_look_is_remembered_with_what_would_have_been_enough() -> None:
    look = judged(situation(EASY, EASY))
    assert look.memory.looks == (Look(NOW, wish_in(look).enough, rate=wish_in(look).rate),)
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


def test_the_longest_start_is_learned() -> None:
    memory = LoopMemory(startup_seconds=120.0)
    for seen, known in ((None, 120.0), (60.0, 120.0), (300.0, 300.0)):
        found = judged(situation(EASY, memory=memory, startup_seconds=seen)).memory
        assert found.startup_seconds == known


def test_slow_engines_need_more_replicas() -> None:
    """Tokens take twice as long as the model says; what is learned of it changes the wish."""
    slow = replace(BUSY, rate=16.0, running=200, kv_usage=0.5)
    expected = times_of(replica_model(), Lengths(1000, 200, 0, 1100), 200).token
    memory, wishes = LoopMemory(), []
    for turn in range(60):
        now = NOW + 30.0 * turn
        look = judged(situation(*3 * (replace(slow, token_seconds=2 * expected),), memory=memory, now=now))
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
