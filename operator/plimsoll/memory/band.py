"""The error band of an estimate."""

from __future__ import annotations

from typing import NamedTuple


class Band(NamedTuple):
    """Signed bytes around the estimate: from ``low_bytes`` (negative) to ``high_bytes`` (positive)."""

    low_bytes: int
    high_bytes: int
