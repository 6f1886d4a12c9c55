"""Pauses that grow per object."""

from __future__ import annotations

import pytest

from plimsoll.app.backoff import FIRST_SECONDS, LONGEST_SECONDS, Backoff


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("plimsoll.app.backoff.time.monotonic", lambda: now[0])
    return now


def test_an_object_without_failures_is_due(clock: list[float]) -> None:
    clock[0] = 0.0
    assert Backoff().is_due("a")


def test_a_failure_delays_that_object_alone_until_its_pause_is_over(clock: list[float]) -> None:
    backoff = Backoff()
    pause = backoff.failed("a")
    assert not backoff.is_due("a")
    assert backoff.is_due("b")
    clock[0] += pause
    assert backoff.is_due("a")


def test_pauses_double_with_up_to_half_taken_off_and_end_at_the_longest() -> None:
    backoff = Backoff()
    for exponent in range(12):
        ceiling = min(LONGEST_SECONDS, FIRST_SECONDS * 2**exponent)
        assert ceiling / 2 <= backoff.failed("a") <= ceiling


def test_days_of_failures_do_not_overflow() -> None:
    backoff = Backoff()
    for _ in range(3000):
        pause = backoff.failed("a")
    assert LONGEST_SECONDS / 2 <= pause <= LONGEST_SECONDS


def test_a_success_starts_over() -> None:
    backoff = Backoff()
    for _ in range(8):
        backoff.failed("a")
    backoff.succeeded("a")
    assert backoff.is_due("a")
    assert backoff.failed("a") <= FIRST_SECONDS


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> list[float]:
    """The clock, while every pause is its longest."""
    monkeypatch.setattr("plimsoll.app.backoff.random.random", lambda: 1.0)
    return clock


def test_the_pauses_are_1_2_4_seconds_and_so_on_up_to_two_minutes(steady: list[float]) -> None:
    backoff = Backoff()
    assert steady == [100.0]
    assert [backoff.failed("a") for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_half_of_a_pause_is_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    for drawn, pause in ((0.0, 0.5), (0.5, 0.75), (1.0, 1.0)):
        monkeypatch.setattr("plimsoll.app.backoff.random.random", lambda drawn=drawn: drawn)
        assert Backoff().failed("a") == pause


def test_the_caller_may_shorten_the_longest_pause(steady: list[float]) -> None:
    backoff = Backoff()
    assert [backoff.failed("a", longest_seconds=3) for _ in range(4)] == [1, 2, 3, 3]
    assert steady == [100.0]


def test_the_next_try_is_the_first_that_is_still_to_come(steady: list[float]) -> None:
    backoff = Backoff()
    assert backoff.next_due_in_seconds() is None
    for uid, failures in (("a", 1), ("b", 2), ("c", 3)):
        for _ in range(failures):
            backoff.failed(uid)
    assert backoff.next_due_in_seconds() == 1
    steady[0] += 1  # now "a" is due, and waits no longer
    assert backoff.next_due_in_seconds() == 1
    assert backoff.next_due_in_seconds(["a", "c", "unknown"]) == 3
    assert backoff.next_due_in_seconds(["a"]) is None


def test_objects_that_are_gone_are_forgotten(steady: list[float]) -> None:
    backoff = Backoff()
    for uid in ("a", "b"):
        backoff.failed(uid)
    backoff.forget_all_but(["b"])
    assert (backoff.is_due("a"), backoff.is_due("b")) == (True, False)
    assert backoff.failed("a") == 1
    assert backoff.failed("b") == 2
    assert steady == [100.0]
