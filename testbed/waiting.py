"""Waiting for something to come true, always with an end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1

_SLOWEST_POLL_SECONDS = 0.3
_PAUSE_SHARE = 0.05
"""A question costs the asked as well: the longer a wait, the longer its pauses, up to a twentieth of it."""


PATIENCE = "PLIMSOLL_PATIENCE"
"""The environment variable by which every wait is multiplied. Tests set it: only a hang may end one, however busy the
machine is."""


class NotInTime(AssertionError):
    """The awaited event did not happen in time."""


def wait_until(
    predicate: Callable[[], T], timeout: float, what: str, *, poll_seconds: float = _POLL_SECONDS, exactly: bool = False
) -> T:
    """Ask ``predicate`` until it gives something true, and return that.

    Args:
        predicate: the question; its exceptions are the caller's.
        timeout: seconds to wait at most, on a machine of two cores with nothing else to do; see :data:`PATIENCE`.
        what: what is waited for, for the message.
        poll_seconds: seconds between questions at first; after some seconds they are 0.3 s, where that is more.
        exactly: whether the time is part of what is played, e.g. a grace period, so that nothing multiplies it.

    Raises:
        NotInTime: the time is over; the message carries the last answer.
    """
    began, timeout = time.monotonic(), timeout * (1.0 if exactly else float(os.environ.get(PATIENCE, "1")))
    while True:
        answer = predicate()
        if answer:
            return answer
        waited = time.monotonic() - began
        if waited >= timeout:
            raise NotInTime(f"{what}: not within {timeout:g} s; the last answer was {answer!r}")
        time.sleep(max(poll_seconds, min(_SLOWEST_POLL_SECONDS, _PAUSE_SHARE * waited)))
