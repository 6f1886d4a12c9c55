"""The error band of an estimate."""

from __future__ import annotations

from typing import NamedTuple


class Band(NamedTuple):
    """Signed bytes around the estimate: from ``low_bytes`` (negative) to ``high_bytes`` (positive)."""

    low_bytes: int
    high_bytes: int

    @property
    def width_bytes(self) -> int:
        """The bytes between the lowest and the highest need."""
        return self.high_bytes - self.low_bytes
