"""One strip for all GPUs of a type: those of deployments, those of others, and the free ones."""

from __future__ import annotations

from dataclasses import dataclass

STRIP_LENGTH = 420.0


@dataclass(frozen=True, slots=True)
class Strip:
    """Lengths in picture units, in the order of the drawing, and everything in words."""

    ours: float
    others: float
    free: float
    sentence: str


def strip_of(ours: int, others: int, free: int, most: int, sentence: str) -> Strip:
    """Return the strip on a scale on which ``most`` GPUs have the whole length."""

    def length(gpus: int) -> float:
        return round(gpus / most * STRIP_LENGTH, 2) if most else 0.0

    return Strip(length(ours), length(others), length(free), sentence)
