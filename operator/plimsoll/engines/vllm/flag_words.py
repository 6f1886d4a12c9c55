"""The words of a command line, as vLLM's own parser reads them: the options that they set, and what is wrong.

vLLM's parser (``utils/argparse_utils.py``, 0.32) is one of ``argparse``. Besides, it accepts ``_`` for ``-``, takes
``--flag.key value`` for one key of a JSON value, and ``-O3`` for ``--optimization-level 3``. The last of several equal
flags counts, and keys are merged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from plimsoll.engines.vllm.flag_table import FlagTable, Given, Option, Unreadable, as_words
from plimsoll.engines.vllm.flag_values import lack_of

SEPARATE = "write each flag and each value as an entry of its own, or as --flag=value."


class Fault(Enum):
    """The kinds of problems."""

    UNKNOWN = auto()
    """A flag that the table does not have."""
    STRAY = auto()
    """A value that no flag takes."""
    VALUE = auto()
    """A flag without its value, or with one that it does not take."""


class Problem(NamedTuple):
    """A word that the parser refuses: its position, what to write, the kind, and the option that it is about."""

    position: int
    fix: str
    fault: Fault
    option: Option | None = None


class Setting(NamedTuple):
    """The last words that set an option.

    ``position`` is that of the flag or its value. ``is_on`` is whether the option is neither off nor set to nothing.
    """

    option: Option
    position: int
    value: str
    is_on: bool


@dataclass(slots=True)
class Reading:
    """A command line after it was read: the settings by the first name of their options, and the problems in order."""

    settings: dict[str, Setting] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def on(self, name: str) -> Setting | None:
        """The setting of an option, unless it is switched off or set to nothing."""
        found = self.settings.get(name)
        return found if found is not None and found.is_on else None


def read_words(arguments: Sequence[str], table: FlagTable) -> Reading:
    """Read the arguments of a server. Nothing is raised: what cannot be read is among the problems."""
    words = _Words(arguments, table)
    words.take_all()
    return words.reading


class _Words:
    """The words that are still to be read, and what was read so far."""

    def __init__(self, arguments: Sequence[str], table: FlagTable) -> None:
        self._words = as_words(arguments)
        self._table = table
        self.reading = Reading()

    def take_all(self) -> None:
        self._take_keys()
        # The parser appends what it made of keys to the command line, so it counts before JSON of the same flag.
        of_keys = dict(self.reading.settings)
        while self._words:
            position, word = self._words.pop(0)
            read = self._table.read(word)
            if read is None:
                self._problem(position, _stray(word), Fault.STRAY)
            elif isinstance(read, Unreadable):
                self._problem(position, read.fix, Fault.UNKNOWN)
            else:
                self._take(position, read)
        self.reading.settings |= of_keys

    def _problem(self, position: int, fix: str, fault: Fault, option: Option | None = None) -> None:
        self.reading.problems.append(Problem(position, fix, fault, option))

    def _set(self, option: Option, position: int, value: str, *, is_on: bool) -> None:
        self.reading.settings[option.names[0]] = Setting(option, position, value, is_on)

    def _take_keys(self) -> None:
        """Take the words for one key of a JSON value, as the parser does before all others."""
        left: list[tuple[int, str]] = []
        while self._words:
            position, word = self._words.pop(0)
            name, equals, value = word.partition("=")
            flag, dot, key = name.partition(".")
            read = self._table.read(flag) if dot and flag.startswith("-") else None
            if not isinstance(read, Given):
                left.append((position, word))
            elif not equals and not self._words:
                self._problem(position, _missing(name), Fault.VALUE, read.option)
            else:
                self._take_key(position, read, key, value if equals else self._words.pop(0)[1])
        self._words = left

    def _take_key(self, position: int, read: Given, key: str, value: str) -> None:
        """Take one key. Keys of the same option are merged."""
        if read.option.is_switch:
            self._take(position, read._replace(value=value))
            return
        known = self.reading.settings.get(read.option.names[0])
        merged = _merged(None if known is None else _as_json(known.value), key.split("."), value)
        self._check(position, read, json.dumps(merged))

    def _take(self, position: int, given: Given) -> None:
        option, name, value = given
        if option.takes == "help":
            self._problem(position, "The engine prints its help and ends: remove it.", Fault.VALUE, option)
        elif option.is_switch:
            self._set(option, position, "", is_on=not option.is_negative(name))
            if value is not None:
                fix = f"{name} takes no value: write {' or '.join(option.names[:2])}."
                self._problem(position, fix, Fault.VALUE, option)
        elif value is not None:
            self._check(position, given, value)
        else:
            self._take_values(position, given)

    def _take_values(self, position: int, given: Given) -> None:
        """Take the following words that are values: one, or all that come where the option takes several."""
        takes = given.option.takes
        count = 0
        while self._words and (not count or takes.endswith("+")) and self._table.read(self._words[0][1]) is None:
            at, value = self._words.pop(0)
            count += 1
            self._check(at, given, value)
        if not count and not takes.endswith("?"):
            self._problem(position, _missing(given.name), Fault.VALUE, given.option)

    def _check(self, position: int, given: Given, value: str) -> None:
        option, name, _ = given
        self._set(option, position, value, is_on=value not in ("", "None"))
        inner = next(self._table.names_in(value), None) if option.kind.endswith(("text", "whole", "number")) else None
        lack = lack_of(option, name, value)
        if inner is not None:
            self._problem(position, f"It holds the flag {inner}, too: {SEPARATE}", Fault.VALUE, option)
        elif lack is not None:
            self._problem(position, lack, Fault.VALUE, option)


def _merged(into: object, keys: Sequence[str], value: str) -> dict[str, Any]:
    """Return an object with one more value below keys of keys; the parser takes a value as JSON where it is JSON."""
    first, *rest = keys
    found: dict[str, Any] = dict(into) if isinstance(into, dict) else {}
    found[first] = _merged(found.get(first), rest, value) if rest else _as_json(value)
    return found


def _as_json(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _missing(name: str) -> str:
    return f"{name} takes a value: write it as the next entry, or as {name}=VALUE."


def _stray(word: str) -> str:
    if word.startswith("-") and " " in word:
        return f"The engine reads this as one word: {SEPARATE}"
    return f"No flag takes this value: {SEPARATE}"
