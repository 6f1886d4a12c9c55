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
