"""A neighbour that does not answer is asked less and less, and at once again when it does."""

from __future__ import annotations

import pytest

from plimsoll.adapters.hub.circuit_breaker import (
    FAILURES_TO_OPEN,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    CircuitBreaker,
    NotAsked,
    Unreached,
)
from plimsoll.domain.errors import ModelNotFound, SourceUnavailable


class Desk:
    """A breaker with clocks of its own, and a count of the attempts that came through."""

    def __init__(self) -> None:
        self.now, self.through = 0.0, 0
        self.breaker = CircuitBreaker("the hub", clock=lambda: self.now, wall=lambda: 1_800_000_000 + self.now)

    def attempt(self, error: Exception | None = None) -> None:
        with self.breaker.attempt():
            self.through += 1
            if error is not None:
                raise error

    def fail(self, times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(Unreached):
                self.attempt(Unreached("nobody"))

    def refused(self) -> str:
        before = self.through
        with pytest.raises(SourceUnavailable) as refusal:
            self.attempt()
        assert not isinstance(refusal.value, Unreached)
        assert self.through == before
        return str(refusal.value)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_five_failures_in_a_row_open_it_and_the_text_says_since_when(desk: Desk) -> None:
    desk.fail()
    desk.now = 7
    desk.fail(FAILURES_TO_OPEN - 1)
    assert desk.refused() == "the hub has not answered since 2027-01-15T08:00:00Z"


@pytest.mark.parametrize("answer", [None, ModelNotFound("no such model"), SourceUnavailable("HTTP 500")])
def test_any_answer_between_them_keeps_it_closed(desk: Desk, answer: Exception | None) -> None:
    for _ in range(3):
        desk.fail(FAILURES_TO_OPEN - 1)
        if answer is None:
            desk.attempt()
        else:
            with pytest.raises(type(answer)):
                desk.attempt(answer)


def test_after_the_pause_one_is_let_through_and_the_others_wait_for_it(desk: Desk) -> None:
    desk.fail(FAILURES_TO_OPEN)
    desk.now += FIRST_PAUSE_SECONDS
    with desk.breaker.attempt():
        desk.refused()
    desk.attempt()


def test_pauses_double_up_to_five_minutes_and_start_small_again(desk: Desk) -> None:
    desk.fail(FAILURES_TO_OPEN)
    pause = FIRST_PAUSE_SECONDS
    for expected in (60, 120, 240, 300, 300):
        desk.now += pause - 1
        desk.refused()
        desk.now += 1
        desk.fail()
        pause = expected
    assert pause == LONGEST_PAUSE_SECONDS
    desk.now += pause
    desk.attempt()
    desk.fail(FAILURES_TO_OPEN)
    desk.now += FIRST_PAUSE_SECONDS
    desk.attempt()


def test_those_who_began_before_it_opened_do_not_lengthen_the_pause(desk: Desk) -> None:
    late = [desk.breaker.attempt() for _ in range(3)]
    for each in late:
        each.__enter__()
    desk.fail(FAILURES_TO_OPEN)
    for each in late:
        assert not each.__exit__(Unreached, Unreached("nobody"), None)
    desk.now += FIRST_PAUSE_SECONDS
    desk.attempt()


def test_a_request_that_was_not_made_says_nothing(desk: Desk) -> None:
    desk.fail(FAILURES_TO_OPEN - 1)
    with pytest.raises(NotAsked):
        desk.attempt(NotAsked("offline"))
    desk.fail()
    desk.refused()
    desk.now += FIRST_PAUSE_SECONDS
    with pytest.raises(NotAsked):
        desk.attempt(NotAsked("offline"))
    desk.fail()
    desk.refused()


def test_a_probe_that_is_broken_off_lets_the_next_one_try(desk: Desk) -> None:
    desk.fail(FAILURES_TO_OPEN)
    desk.now += FIRST_PAUSE_SECONDS
    with pytest.raises(KeyboardInterrupt), desk.breaker.attempt():
        raise KeyboardInterrupt
    desk.attempt()
