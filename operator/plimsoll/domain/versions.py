"""Engine releases."""

from __future__ import annotations

from typing import NamedTuple


class EngineVersion(NamedTuple):
    """A release of an engine. Releases are compared to choose the memory law that applies."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"
