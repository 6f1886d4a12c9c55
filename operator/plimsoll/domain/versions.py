"""Engine releases."""

from __future__ import annotations

from typing import NamedTuple


class EngineVersion(NamedTuple):
    """A release of an engine. Releases are compared to choose the memory law that applies."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def of(cls, text: str) -> EngineVersion:
        """Return the release that ``1.2`` or ``1.2.3`` names. Raises ValueError or TypeError for any other text."""
        return cls(*(int(part) for part in text.split(".")))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"
