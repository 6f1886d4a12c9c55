"""Waiting for something to come true, always with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1


class NotInTime(AssertionError):
    """What was waited for did not happen in time."""


def wait_until(predicate: Callable[[], T], timeout: float, what: str, *, poll_seconds: float = _POLL_SECONDS) -> T:
    """Ask ``predicate`` until it gives something true, and return that.

    Args:
        predicate: the question; its exceptions are the caller's.
        timeout: seconds to wait at most.
        what: what is waited for, for the message.
        poll_seconds: seconds between questions.

    Raises:
        NotInTime: the time is over; the message carries the last answer.
    """
    end = time.monotonic() + timeout
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= end:
            raise NotInTime(f"{what}: not within {timeout:g} s; the last answer was {answer!r}")
        time.sleep(poll_seconds)
