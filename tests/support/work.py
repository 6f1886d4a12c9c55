"""Work that is counted, where a time would depend on the machine and on what else runs there."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from plimsoll.adapters.garbage import collecting_later

_UNIT_STEPS = 50_000


@dataclass(slots=True)
class Work:
    """What was done inside the block: ``amount`` is known at its end."""

    amount: float = 0.0


@contextmanager
def counted_calls() -> Iterator[Work]:
    """Count the functions that this thread calls: the same number on every machine."""
    done = Work()

    def count(_: FrameType, event: str, __: Any) -> None:
        done.amount += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield done
    finally:
        sys.setprofile(before)


@contextmanager
def measured_effort() -> Iterator[Work]:
    """Measure the CPU time of this thread in units of a fixed piece of work, where calls would show nothing.

    On a slow machine both take longer, and the time of other processes is not counted. What is left of the machine,
    such as a cache that others use too, is far below a factor of ten: leave that much room to the bound. Garbage is
    collected later: what other tests have left in memory would count.
    """
    with collecting_later():
        done, began = Work(), time.thread_time()
        yield done
        spent = time.thread_time() - began
    done.amount = spent / _unit_seconds()


@cache
def _unit_seconds() -> float:
    """The CPU time of one unit, some 5 ms; the least of three, because a first time is longer."""
    return min(_seconds_of_a_unit() for _ in range(3))


def _seconds_of_a_unit() -> float:
    began, sums = time.thread_time(), dict[int, int]()
    for step in range(_UNIT_STEPS):
        sums[step % 1000] = sums.get(step % 1000, 0) + step
    return time.thread_time() - began
