"""What pods did over a time, in columns: the values that a map of the past is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Span(NamedTuple):
    """A time that a map shows: ``seconds`` back from now, in columns of ``step`` seconds."""

    seconds: int
    step: int

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.seconds // self.step


class PodPast(NamedTuple):
    """The highest values of one pod in each column, by the POSIX time of the column's end.

    ``kv`` is the share of its fullest KV cache. ``preemptions`` is how often requests lost their KV cache in the whole
    time; None where that is not known.
    """

    kv: Mapping[float, float]
    running: Mapping[float, float]
    waiting: Mapping[float, float]
    preemptions: float | None = None
