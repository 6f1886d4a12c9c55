"""Leaving a place whose pods found no node: what is remembered of it, and how often it may happen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plimsoll.domain.outcomes import Split

REMEMBERED_SECONDS = 3600
"""A place that was left is not gone back to for so long: whatever kept its pods off its nodes is seldom gone sooner."""

MAX_REHOMINGS_PER_HOUR = 4
"""Places that one deployment may leave in any hour. As many as the GPU types it may spread over; more is a fight."""

MOST_REMEMBERED = 20
"""Entries that a status holds."""


@dataclass(frozen=True, slots=True)
class Rehoming:
    """A GPU type and split that was left because its pods found no node there.

    ``at`` is when replicas last left it, in POSIX seconds; ``reason`` is the scheduler's obstacle in one word.
    """

    gpu_type: str
    split: Split
    at: float
    reason: str = ""

    @property
    def place(self) -> tuple[str, Split]:
        """What is not gone back to."""
        return self.gpu_type, self.split


@dataclass(frozen=True, slots=True)
class Departure:
    """The same in the pass that decides it: a plan knows no time."""

    gpu_type: str
    split: Split
    reason: str = ""

    @property
    def place(self) -> tuple[str, Split]:
        """What is left."""
        return self.gpu_type, self.split


def of_last_hour(rehomings: Iterable[Rehoming], now: float) -> tuple[Rehoming, ...]:
    """What still counts. An entry from the future (a clock that was set back) counts from now on."""
    kept = (
        each if each.at <= now else Rehoming(each.gpu_type, each.split, now, each.reason)
        for each in rehomings
        if now - each.at < REMEMBERED_SECONDS
    )
    return tuple(sorted(kept, key=lambda each: (each.at, *each.place)))


def remembered(earlier: Iterable[Rehoming], departures: Sequence[Departure], now: float) -> tuple[Rehoming, ...]:
    """What to write down: one entry for each place, with the time when replicas last left it."""
    latest = {each.place: each for each in of_last_hour(earlier, now)}
    for each in departures:
        latest[each.place] = Rehoming(each.gpu_type, each.split, now, each.reason)
    return tuple(sorted(latest.values(), key=lambda each: (each.at, *each.place)))[-MOST_REMEMBERED:]


def is_spent(left: Sequence[Rehoming | Departure], leaving: tuple[str, Split]) -> bool:
    """Whether leaving one more place would be one too many.

    Replicas that follow others out of a place are no further re-homing: nothing goes back there within the hour, so
    each of them leaves it once.
    """
    places = {each.place for each in left}
    return leaving not in places and len(places) >= MAX_REHOMINGS_PER_HOUR


def is_closed(places: Iterable[tuple[str, Split]], gpu_type: str, split: Split) -> bool:
    """Whether a place is not gone back to. Larger replicas on the same GPUs find a node no sooner."""
    return any(kind == gpu_type and left.gpus <= split.gpus for kind, left in places)
