"""GPUs by type, as the operator's metrics have them: what is known of a fleet whose nodes a person may not list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.console.drawing.bar import Strip, strip_of
from plimsoll.console.views.words import count


@dataclass(frozen=True, slots=True)
class GpuTotal:
    """All GPUs of one type that deployments may use."""

    gpu_type: str
    free: int
    held: int

    @property
    def gpus(self) -> int:
        """Free and held ones."""
        return self.free + self.held


@dataclass(frozen=True, slots=True)
class FleetTotals:
    """The totals of all types, and the POSIX time of their oldest sample."""

    at: float
    types: tuple[GpuTotal, ...]


@dataclass(frozen=True, slots=True)
class TotalLine:
    """One type with its strip."""

    total: GpuTotal
    strip: Strip


def lines_of_totals(totals: Iterable[GpuTotal]) -> tuple[TotalLine, ...]:
    """Return the types by name, all strips on one scale."""
    found = sorted(totals, key=lambda each: each.gpu_type)
    most = max((each.gpus for each in found), default=0)
    return tuple(TotalLine(each, _strip(each, most)) for each in found)


def _strip(total: GpuTotal, most: int) -> Strip:
    words = f"{total.gpu_type}: {count(total.free)} of {count(total.gpus)} GPUs free, {count(total.held)} held"
    return strip_of(0, total.held, total.free, most, words)
