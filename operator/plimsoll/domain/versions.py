"""Engine releases."""

from __future__ import annotations

from typing import NamedTuple


class EngineVersion(NamedTuple):
    """A vLLM release; compared to pick the memory law that was true for it."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"
