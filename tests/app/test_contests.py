"""Whoever scales a Deployment of ours is answered once at once, then with growing pauses, and named."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.app import contests, pruning
from plimsoll.app.contests import FIRST_PAUSE_SECONDS, REMEMBERED_SECONDS, SAID_SECONDS, Contests
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
