"""Retries of a single request: the pauses follow the server's ``Retry-After``, and the total time is limited."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from plimsoll.adapters.api_errors import ClusterRefused
from plimsoll.domain.errors import SourceUnavailable

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on the tries of one request: ``total_seconds`` from the first try to the start of the last one."""

    total_seconds: float = 30.0
    tries: int = 8


IMPATIENT = Patience(total_seconds=0.0, tries=1)
"""One try only: for a request that the caller repeats soon anyway."""


async def patiently(attempt: Callable[[], Awaitable[T]], patience: Patience) -> T:
    """Retry until there is an answer that another try would not change, or until the limits are reached.

    Raises:
        ClusterRefused: the last refusal.
        SourceUnavailable: the last failure to reach the server.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + patience.total_seconds
    for number in range(1, patience.tries + 1):
        try:
            return await attempt()
        except ClusterRefused as refusal:
            if not refusal.is_passing or number == patience.tries:
                raise
            pause = _pause(number, refusal.retry_after)
            if loop.time() + pause > end:
                raise
        except SourceUnavailable:
            pause = _pause(number, None)
            if number == patience.tries or loop.time() + pause > end:
                raise
        await asyncio.sleep(pause)
    raise AssertionError("patience ends with an answer or an error")


def _pause(number: int, asked: float | None) -> float:
    """Return the pause before the next try: the server's plus a little, or else doubled each time with jitter."""
    if asked is not None:
        return asked + random.random() / 4  # noqa: S311 - spreads retries, guards no secret
    ceiling = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
    return ceiling * (0.5 + random.random() / 2)  # noqa: S311 - same
