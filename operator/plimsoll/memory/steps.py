"""One line of the working of an estimate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """The term, how it comes about, and its bytes where the line stands for bytes of its own.

    Lines that are no total add up to the total that follows them.
    """

    term: str
    formula: str
    size_bytes: int | None = None
    is_total: bool = False
