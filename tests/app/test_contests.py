"""Whoever scales a Deployment of ours is answered once at once, then with growing pauses, and named."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.app.watch import contests, pruning
from plimsoll.app.watch.contests import FIRST_PAUSE_SECONDS, REMEMBERED_SECONDS, SAID_SECONDS, Contests
from tests.support.bodies import workload_body


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(contests, "time", made)
    return made


def scaled_by(manager: str | None) -> Any:
    body = workload_body()
    fields: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
    entries = [{"manager": "plimsoll", "fieldsV1": {"f:spec": {"f:template": {}, "f:replicas": {}}}}]
    if manager is not None:
        entries.append({"manager": manager, "fieldsV1": fields})
    body["metadata"]["managedFields"] = entries
    return pruning.workload(body)


def answered(record: Contests, clock: Clock) -> bool:
    return record.noticed(scaled_by("hpa"), 16).answer_at <= clock.now


def test_the_first_change_is_answered_at_once_and_later_ones_after_growing_pauses(clock: Clock) -> None:
    record = Contests()
    assert answered(record, clock)
    answers = 0
    for _ in range(600):  # a change every second for ten minutes
        clock.now += 1
        answers += answered(record, clock)
    assert answers <= 6
    assert record.next_due_in_seconds() is not None


def test_a_slip_is_no_contest_and_a_habit_is_named_with_manager_and_count(clock: Clock) -> None:
    record, live = Contests(), scaled_by("kube-controller-manager")
    record.noticed(live, 16)
    assert record.of(live["metadata"]["uid"]) is None
    clock.now += FIRST_PAUSE_SECONDS + 1
    record.noticed(live, 16)
    contest = record.of(live["metadata"]["uid"])
    assert contest is not None
    said = contest.sentence(1)
    assert "kube-controller-manager set spec.replicas" in said
    assert "to 16 (2 times" in said
    assert "Plimsoll wants 1" in said


def test_a_contest_that_is_over_is_spoken_of_for_a_moment_and_remembered_for_longer(clock: Clock) -> None:
    record, live = Contests(), scaled_by("kubectl")
    for _ in range(3):
        record.noticed(live, 3)
        clock.now += 2 * FIRST_PAUSE_SECONDS + 1
    assert record.of(live["metadata"]["uid"]) is not None
    clock.now += SAID_SECONDS + 1
    assert record.of(live["metadata"]["uid"]) is None
    assert record.noticed(live, 3).count == 4, "whoever begins again is answered as before"
    clock.now += REMEMBERED_SECONDS + 1
    assert record.noticed(live, 3).count == 1


def test_it_is_spoken_of_while_the_number_is_theirs(clock: Clock) -> None:
    record, live = Contests(), scaled_by("kubectl")
    for _ in range(200):
        record.noticed(live, 3)
        clock.now += SAID_SECONDS - 1
    assert record.of(live["metadata"]["uid"]) is not None


def test_managers_are_known_from_the_managed_fields_and_ours_is_none_of_them() -> None:
    assert contests.changed_by(scaled_by("kubectl-scale")) == "kubectl-scale"
    assert contests.changed_by(scaled_by(None)) == "somebody"


def other(uid: str) -> Any:
    live = scaled_by("hpa")
    live["metadata"]["uid"] = uid
    return live


def test_the_pauses_are_10_20_40_seconds_and_so_on_up_to_five_minutes(clock: Clock) -> None:
    record, pauses = Contests(), []
    for _ in range(7):
        record.noticed(other("a"), 16)
        pauses.append(record.noticed(other("a"), 16).answer_at - clock.now)
        clock.now += pauses[-1]
    assert pauses == [10, 20, 40, 80, 160, 300, 300]


def test_at_the_end_of_a_pause_the_change_is_answered_and_counted(clock: Clock) -> None:
    record = Contests()
    record.noticed(other("a"), 16)
    clock.now += FIRST_PAUSE_SECONDS - 1
    assert record.noticed(other("a"), 17).answer_at > clock.now
    clock.now += 1
    answered = record.noticed(other("a"), 18)
    assert (answered.answer_at, answered.count, answered.wanted_by_them) == (clock.now, 2, 18)


def test_a_contest_is_remembered_for_exactly_ten_minutes(clock: Clock) -> None:
    for pause, count in ((600, 2), (601, 1)):
        record = Contests()
        record.noticed(other("a"), 16)
        clock.now += pause
        assert record.noticed(other("a"), 16).count == count


def test_the_status_reports_a_contest_for_exactly_thirty_seconds(clock: Clock) -> None:
    record = Contests()
    record.noticed(other("a"), 16)
    clock.now += FIRST_PAUSE_SECONDS
    record.noticed(other("a"), 16)
    clock.now += 30
    assert record.of("a") is not None
    clock.now += 1
    assert record.of("a") is None


def test_asking_about_a_contest_long_after_its_end_forgets_it(clock: Clock) -> None:
    record = Contests()
    record.noticed(other("a"), 16)
    clock.now += REMEMBERED_SECONDS
    record.of("a")
    assert record.noticed(other("a"), 16).count == 2
    clock.now += REMEMBERED_SECONDS + 1
    record.of("a")
    assert record.next_due_in_seconds() is None
    assert record.noticed(other("a"), 16).count == 1


def test_the_next_moment_is_an_answer_or_the_end_of_a_report(clock: Clock) -> None:
    record = Contests()
    assert record.next_due_in_seconds() is None
    record.noticed(other("a"), 16)
    assert record.next_due_in_seconds() == FIRST_PAUSE_SECONDS
    clock.now += FIRST_PAUSE_SECONDS
    due = record.next_due_in_seconds()
    assert due == pytest.approx(SAID_SECONDS - FIRST_PAUSE_SECONDS + 0.1)
    record.noticed(other("b"), 16)
    assert record.next_due_in_seconds() == FIRST_PAUSE_SECONDS
    clock.now += SAID_SECONDS + 1
    assert record.next_due_in_seconds() is None


def test_several_managers_are_named_together() -> None:
    assert contests.changed_by({contests.REPLICAS_MANAGERS: ["hpa", "kubectl"]}) == "hpa, kubectl"
