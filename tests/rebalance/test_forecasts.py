"""What becomes of a forecast: replicas within bounds, a sentence, no removal, and no restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.decide import LoopResult, decide, kind_of
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind
from plimsoll.rebalance.figures import live_figures
from plimsoll.rebalance.signals.forecast import Season, step_of
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, RemoveReplica, Retune
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.situation import Situation
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import NOW, Serves, replica_model
from tests.support.hypotheses import room_for_all
from tests.support.live_situations import AUTO, CAPACITY, EASY, enough_for, loads_of, situation
from tests.support.tables import examples

MEMORY = replace(enough_for(1, 3000), startup_seconds=600.0)


def season(*later: float, current: float = 2 * EASY.rate, error: float = 0.02, today: float = 1.0) -> Season:
    """A usual course: as much as now, then so many times as much in the steps from 600 s on."""
    rates = tuple(current * (later[min(index - 4, len(later) - 1)] if index >= 4 else 1.0) for index in range(40))
    return Season(step_of(NOW) - 1, rates, today, 7, error)


def where(*loads: Serves, course: Season | None, **changed: Any) -> Situation:
    found = loads or (EASY, EASY)
    load = replace(loads_of(*found), season=course)
    return situation(*found, load=load, **{"memory": MEMORY} | changed)


def made(*loads: Serves, course: Season | None, **changed: Any) -> LoopResult:
    facts = where(*loads, course=course, **changed)
    return decide(facts, room_for_all(facts.placement.replicas))


def test_replicas_are_added_before_the_rise_and_the_sentence_has_its_figures() -> None:
    decided = made(course=season(3.0))
    assert isinstance(decided.decision, AddReplica)
    assert decided.decision.reason is DecisionReason.RISE_EXPECTED
    assert decided.kind is DiagnosisKind.MORE_EXPECTED
    assert kind_of(decided.decision) is ChangeKind.ADD
    text = sentence(decided.decision)
    assert "requests a minute are expected in 10 min. This is from 7 days before at the same time" in text
    assert "err by 2 %" in text
    assert made(course=None).decision.reason is DecisionReason.WITHIN_BAND
    assert made(course=season(1.0)).decision.reason is DecisionReason.WITHIN_BAND


def test_the_metric_has_what_is_expected_and_nothing_where_it_is_no_more_than_now() -> None:
    for course, is_shown in ((season(3.0), True), (season(1.0), False), (None, False)):
        facts = where(course=course)
        figures = live_figures(facts, decide(facts, room_for_all(2)), 2)
        assert (figures.expected is not None) is is_shown
        assert figures.arrivals is not None
        assert not is_shown or (figures.expected or 0.0) > 2 * figures.arrivals


def test_the_metrics_have_the_seats_and_the_cache_of_the_engines_that_are_known() -> None:
    facts = where(course=None)
    traffic, model = facts.load.traffic, facts.placement.model
    assert traffic is not None
    assert model is not None
    figures = live_figures(facts, decide(facts, room_for_all(2)), 2)
    assert figures.slots == traffic.pods * model.limits.sequences
    assert (figures.used_tokens, figures.held_tokens) == (traffic.used_tokens, facts.load.held_tokens)
    assert figures.kv_use == traffic.used_tokens / facts.load.held_tokens
    unknown = replace(facts, placement=replace(facts.placement, model=None))
    assert live_figures(unknown, decide(unknown, room_for_all(2)), 2).slots is None


def test_a_forecast_is_bounded_by_the_users_maximum() -> None:
    free, bound = (made(course=season(9.0), policy=replace(AUTO, max_replicas=most)) for most in (9, 3))
    assert isinstance(free.decision, AddReplica)
    assert isinstance(bound.decision, AddReplica)
    assert (free.decision.count, bound.decision.count) == (2, 1)
    at_most = made(course=season(9.0), policy=replace(AUTO, max_replicas=2))
    assert at_most.decision.reason is DecisionReason.AT_MAX_REPLICAS
    assert dict(at_most.decision.numbers)["wanted"] == "RiseExpected"


def test_no_engine_is_restarted_for_a_forecast() -> None:
    """The engines' own limit binds, so arrivals that came would raise it."""
    model = replica_model(max_sequences=32)
    light = Serves(rate=0.1 * CAPACITY, running=10)
    common: dict[str, Any] = {"model": model, "most_sequences": 256}
    course = season(20.0, current=light.rate)
    decided = made(light, course=course, **common)
    assert decided.kind is DiagnosisKind.MORE_EXPECTED
    assert isinstance(decided.decision, AddReplica)
    many = replace(light, rate=0.9 * CAPACITY, running=32)
    assert isinstance(made(many, many, course=None, **common).decision, Retune)


def test_a_replica_that_the_rise_will_need_is_not_removed_and_else_it_is() -> None:
    three = (replace(EASY, rate=0.35 * CAPACITY),) * 3
    current = sum(each.rate for each in three)
    free = made(*three, course=season(1.0, current=current))
    assert isinstance(free.decision, RemoveReplica)
    soon = made(*three, course=season(1.0, 1.0, 3.0, current=current))
    assert not isinstance(soon.decision, RemoveReplica)


def test_after_a_rise_that_did_not_come_the_replica_goes() -> None:
    added = ChangeHistory((ChangeRecord(NOW - 901, ChangeKind.ADD, DecisionReason.RISE_EXPECTED.value, 3),))
    three = (replace(EASY, rate=0.2 * CAPACITY),) * 3
    usual = season(1.0, current=3 * 0.2 * CAPACITY, today=0.6)
    decided = made(*three, course=usual, history=added, policy=replace(AUTO, cooldown_seconds=1800))
    assert isinstance(decided.decision, RemoveReplica)
    young = ChangeHistory((ChangeRecord(NOW - 899, ChangeKind.ADD, DecisionReason.RISE_EXPECTED.value, 3),))
    waits = made(*three, course=usual, history=young, policy=replace(AUTO, cooldown_seconds=1800))
    assert waits.decision.reason is DecisionReason.COOLING_DOWN


@pytest.mark.parametrize("change", [{"moving": True}, {"ready": 1}])
def test_a_forecast_changes_nothing_of_what_else_holds(change: dict[str, Any]) -> None:
    plain, expected = made(course=None, **change), made(course=season(3.0), **change)
    if isinstance(expected.decision, AddReplica):
        assert expected.decision.reason is DecisionReason.RISE_EXPECTED
    else:
        assert expected.decision == plain.decision


courses = st.builds(
    Season,
    st.integers(step_of(NOW) - 5, step_of(NOW) + 2),
    st.lists(st.sampled_from([0.0, 1.0, 10.0, 50.0, 1e6]), max_size=60).map(tuple),
    st.floats(0, 1.25),
    st.integers(2, 7),
    st.floats(0, 2),
)


@settings(max_examples=examples(150), deadline=None)
@given(courses, st.integers(1, 5), st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.integers(1, 9))
def test_every_course_adds_only_at_most_twice_the_need_and_within_the_maximum(
    course: Season, pods: int, share: float, most: int
) -> None:
    loads = (replace(EASY, rate=share * CAPACITY),) * pods
    policy = replace(AUTO, max_replicas=max(pods, most))
    plain, decided = (made(*loads, course=each, policy=policy) for each in (None, course))
    assert plain.wish is not None
    assert decided.wish is not None
    assert plain.wish.replicas <= decided.wish.replicas <= 2 * plain.wish.replicas
    assert (plain.wish.enough, plain.wish.rate) == (decided.wish.enough, decided.wish.rate)
    assert decided.memory.looks == plain.memory.looks
    if isinstance(decided.decision, AddReplica):
        assert pods + decided.decision.count <= policy.max_replicas
    if isinstance(decided.decision, RemoveReplica):
        assert plain.decision.reason is decided.decision.reason
    assert "{" not in sentence(decided.decision)
