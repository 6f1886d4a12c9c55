"""Typed reading of one JSON object, with errors that name the field as its author wrote it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.domain.errors import InvalidInput

_LARGEST = 10_000_000
"""Largest accepted number. Widths, head counts and expert counts are far smaller; a larger figure is a mistake."""

_LONGEST_SHOWN = 80


def shown(value: object) -> object:
    """Return a short form of a value for an error message. No value of an unknown file may make the message fail."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "..."
    if isinstance(value, bool | float) or value is None:
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"  # noqa: PLR2004
    return f"<{type(value).__name__}>"


def mapping_of(value: object) -> Mapping[str, object] | None:
    """The value as a JSON object, or None if it is anything else."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    return None


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object and its name in error messages, e.g. ``config.json``."""

    values: Mapping[str, object]
    origin: str = "config.json"

    def refuse(self, key: str, fix: str) -> InvalidInput:
        """The error for one field. The caller raises it."""
        return InvalidInput(f"{self.origin}: {key}", shown(self.values.get(key)), fix)

    def has(self, key: str) -> bool:
        """Whether the field is there and not null: checkpoints write null for "use the default"."""
        return self.values.get(key) is not None

    def first(self, keys: Sequence[str]) -> str | None:
        """The first of several spellings that is set."""
        return next((key for key in keys if self.has(key)), None)

    def integer(self, keys: Sequence[str], *, largest: int = _LARGEST, smallest: int = 1) -> int:
        """A required whole number under its first spelling that is set.

        Raises:
            InvalidInput: it is missing, not a whole number, or outside ``smallest`` to ``largest``.
        """
        key = self.first(keys)
        if key is None:
            raise self.refuse(keys[0], f"Give a whole number from {smallest} to {largest}.")
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
            raise self.refuse(key, f"Give a whole number from {smallest} to {largest}.")
        return value

    def optional_integer(self, keys: Sequence[str], *, largest: int = _LARGEST, smallest: int = 1) -> int | None:
        """The same, or None if no spelling is set."""
        return self.integer(keys, largest=largest, smallest=smallest) if self.first(keys) else None

    def number(self, key: str, *, default: float) -> float:
        """A finite positive number, or the default if it is not set.

        Raises:
            InvalidInput: it is not a number, not finite, or not above zero.
        """
        if not self.has(key):
            return default
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(key, "Give a number above 0.")
        if not 0 < value <= _LARGEST or not math.isfinite(value):
            raise self.refuse(key, "Give a finite number above 0.")
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """A boolean, or the default if it is not set.

        Raises:
            InvalidInput: it is something else.
        """
        if not self.has(key):
            return default
        value = self.values[key]
        if not isinstance(value, bool):
            raise self.refuse(key, "Write true or false.")
        return value

    def text(self, key: str) -> str | None:
        """A string, or None if it is not set.

        Raises:
            InvalidInput: it is something else.
        """
        if not self.has(key):
            return None
        value = self.values[key]
        if not isinstance(value, str):
            raise self.refuse(key, "Write a string.")
        return value

    def items(self, key: str) -> tuple[object, ...]:
        """The entries of a list, none if it is not set.

        Raises:
            InvalidInput: it is something else.
        """
        if not self.has(key):
            return ()
        value = self.values[key]
        if not isinstance(value, list | tuple):
            raise self.refuse(key, "Write a list.")
        return tuple(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings of a list, none if it is not set.

        Raises:
            InvalidInput: it is no list, or holds something else than strings.
        """
        entries = self.items(key)
        strings = tuple(entry for entry in entries if isinstance(entry, str))
        if len(strings) != len(entries):
            raise self.refuse(key, "Write a list of strings.")
        return strings

    def uniform_integer(self, keys: Sequence[str], *, largest: int = _LARGEST, smallest: int = 1) -> int:
        """A required whole number that some families list once for each layer: the largest of the list.

        Raises:
            InvalidInput: it is missing, or an entry is no whole number from ``smallest`` to ``largest``.
        """
        key = self.first(keys)
        entries = self.values[key] if key is not None else None
        if key is None or not isinstance(entries, list | tuple):
            return self.integer(keys, largest=largest, smallest=smallest)
        return max(self.integers(key, len(entries) or 1, largest=largest, smallest=smallest))

    def integers(
        self, key: str, count: int | None = None, *, largest: int = _LARGEST, smallest: int = 1
    ) -> tuple[int, ...]:
        """The first ``count`` entries of a list of whole numbers; all of them, or none if it is not set, by default.

        Raises:
            InvalidInput: the list is shorter, or an entry is no whole number from ``smallest`` to ``largest``.
        """
        entries = self.items(key)[:count]
        count = len(entries) if count is None else count
        numbers = tuple(entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool))
        if len(numbers) < count or not all(smallest <= number <= largest for number in numbers):
            raise self.refuse(key, f"List {count} whole numbers from {smallest} to {largest}.")
        return numbers

    def section(self, key: str) -> Fields | None:
        """A nested object, or None if it is not set.

        Raises:
            InvalidInput: it is something else.
        """
        if not self.has(key):
            return None
        nested = mapping_of(self.values[key])
        if nested is None:
            raise self.refuse(key, "Write an object.")
        return Fields(nested, f"{self.origin}: {key}")
