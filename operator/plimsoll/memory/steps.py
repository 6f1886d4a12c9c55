"""One line of the working of an estimate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """A term, its formula, and its bytes if the line counts in a sum.

    Lines that are not a total add up to the total that follows them.
    """

    term: str
    formula: str
    size_bytes: int | None = None
    is_total: bool = False
