"""Questions and pauses of a wait, on a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from testbed import waiting
from testbed.waiting import PATIENCE, NotInTime, wait_until


@dataclass(slots=True)
class Clock:
    """Stands still but for pauses."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(waiting, "time", own)
    return own


def test_an_answer_that_is_there_is_returned_without_a_pause(clock: Clock) -> None:
    assert wait_until(lambda: "yes", 60, "it") == "yes"
    assert clock.pauses == []


def test_what_comes_soon_is_asked_for_often_and_a_long_wait_has_longer_pauses(clock: Clock) -> None:
    wait_until(lambda: clock.now >= 1060, 90, "a minute")
    assert clock.pauses[:20] == [0.1] * 20
    assert clock.pauses == sorted(clock.pauses)
    assert max(clock.pauses) == clock.pauses[-1] == 0.3
    assert clock.now < 1060.5


def test_longer_pauses_can_be_asked_for(clock: Clock) -> None:
    wait_until(lambda: clock.now >= 1060, 90, "a minute", poll_seconds=5)
    assert clock.pauses == [5] * 12


@pytest.mark.parametrize(("patience", "seconds"), [(None, 60), ("1", 60), ("6", 360)])
def test_a_wait_ends_with_the_last_answer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, patience: str | None, seconds: int
) -> None:
    monkeypatch.delenv(PATIENCE)
    if patience is not None:
        monkeypatch.setenv(PATIENCE, patience)
    with pytest.raises(NotInTime, match=rf"rain: not within {seconds} s; the last answer was \[\]"):
        wait_until(list, 60, "rain")
    assert 1000 + seconds <= clock.now <= 1000.3 + seconds
