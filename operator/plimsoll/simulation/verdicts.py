"""Verdicts on a run: which requests were served as promised, and how often the wish for replicas turned round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Protocol

from plimsoll.simulation.values import AnsweredRequest, Fate

FLIP_SECONDS = 1800.0
"""A change in the other direction counts as a flip up to this long after the change before it."""


class Promise(Protocol):
    """The promised times of a run, in seconds."""

    @property
    def ttft_seconds(self) -> float:
        """To the first token."""

    @property
    def tpot_seconds(self) -> float:
        """Of each later token, as the mean of a request."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the number of replicas that is wanted."""

    at: float
    before: int
    after: int


def keeps(answered: AnsweredRequest, promise: Promise) -> bool:
    """Whether a request was served with both promises kept. An answer of one token has no time per token."""
    return (
        answered.fate is Fate.SERVED
        and answered.ttft_seconds is not None
        and answered.ttft_seconds <= promise.ttft_seconds
        and (answered.tpot_seconds is None or answered.tpot_seconds <= promise.tpot_seconds)
    )


def real_changes(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that change something, in the order of time."""
    return sorted((each for each in changes if each.before != each.after), key=attrgetter("at"))


def flips(changes: Sequence[Change]) -> int:
    """Return how often the wish turned round within half an hour.

    A flip is a change in the other direction than the change just before it, at most 1,800 s after that one. 2, 5, 2
    is one flip, 2, 3, 2, 3 are two. A staircase up and then down is one: only its top turns round. It need not go all
    the way back, because a policy that takes back one of three replicas changed its mind too.
    """
    return sum(
        _direction(before) != _direction(after) and after.at - before.at <= FLIP_SECONDS
        for before, after in pairwise(real_changes(changes))
    )


def _direction(change: Change) -> bool:
    return change.after > change.before
