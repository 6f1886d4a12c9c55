"""The past use of pods, in columns: the values that a map is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from plimsoll.domain.keys import ObjectKey


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


class Past(NamedTuple):
    """The use of pods in a time that ended at ``until``, in POSIX seconds."""

    until: float
    span: Span
    pods: Mapping[ObjectKey, PodPast] = MappingProxyType({})

    def column_of(self, at: float) -> int | None:
        """Return the number of the column that ends at a time, 0 for the oldest; None outside of the time."""
        column = self.span.columns - 1 - round((self.until - at) / self.span.step)
        return column if 0 <= column < self.span.columns else None

    def start_of(self, column: int) -> float:
        """Return the POSIX time at which a column begins."""
        return self.until - (self.span.columns - column) * self.span.step
