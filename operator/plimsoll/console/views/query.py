"""Parameters of a URL."""

from __future__ import annotations

from collections.abc import Mapping


def first_of(query: Mapping[str, tuple[str, ...]], name: str) -> str:
    """Return the first value of a parameter without surrounding blanks; empty where there is none."""
    values = query.get(name) or ("",)
    return values[0].strip()
