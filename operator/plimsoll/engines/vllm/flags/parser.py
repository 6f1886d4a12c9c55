"""The words of a command line, as vLLM's own parser reads them: the options that they set, and what is wrong.

vLLM's parser (``utils/argparse_utils.py``, 0.32) is one of ``argparse``. Besides, it accepts ``_`` for ``-``, takes
``--flag.key value`` for one key of a JSON value, and ``-O3`` for ``--optimization-level 3``. The last of several equal
flags counts, and keys are merged.

The values that the kinds of vLLM's options take, by the converters of its parser (``argparse_utils.py``, 0.32).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum, auto
from typing import Any, NamedTuple

from plimsoll.engines.vllm.flags.table import FlagTable, Given, Option, Unreadable, as_words

_MAYBE = "maybe-"
"""Kinds that also take nothing and the word ``None``."""

_MOST_CHOICES = 24
_LONGEST = 80
"""Characters of a value that are compared."""

_HUMAN = re.compile(r"(\d+)([KMGT])|(\d+(?:\.\d+)?)([kmgt])")
_BINARY, _DECIMAL = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}, {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
"""Suffixes of whole numbers (``human_readable_int``)."""

_HUMAN_IN_JSON = re.compile(r'("(?:[^"\\]|\\.)*+"?)|\b\d+(?:\.\d+)?[kKmMgGtT]\b')


def lack_of(option: Option, name: str, value: str) -> str | None:
    """Return what an option takes instead of a value, as a sentence; None where it takes the value."""
    kind = option.kind
    if kind.startswith(_MAYBE):
        if value in ("", "None"):
            return None
        kind = kind.removeprefix(_MAYBE)
    takes, what = _KINDS[kind]
    if not takes(value):
        return f"{name} takes {what}."
    chosen = value.lower().replace("-", "_") if kind == "word" else value.strip() if kind == "whole" else value
    if option.choices and chosen not in option.choices:
        return _choose(name, chosen, option.choices)
    return None


def registered_lack(option: Option, name: str, value: str) -> str | None:
    """Return the names that a server knows when it starts, where it does not know this one."""
    return _choose(name, value, option.registered) if value not in option.registered else None


def _choose(name: str, value: str, choices: tuple[str, ...]) -> str:
    nearest = get_close_matches(value.lower()[:_LONGEST], choices, n=1)
    if nearest:
        return f"{name} has no such choice: the nearest is {nearest[0]}."
    more = f" or one of {len(choices) - _MOST_CHOICES} others" if len(choices) > _MOST_CHOICES else ""
    return f"{name} takes {', '.join(choices[:_MOST_CHOICES])}{more}."


def _takes(convert: Callable[[str], object]) -> Callable[[str], bool]:
    def takes(value: str) -> bool:
        try:
            convert(value)
        except RecursionError:
            return True
        except ValueError:
            return False
        return True

    return takes


def _is_size(value: str) -> bool:
    return size_in(value) is not None


def size_in(value: str) -> int | None:
    """Return the whole number of a text such as ``4096``, ``4K`` or ``25.6k``; None where it is none."""
    found = _HUMAN.fullmatch(value.strip())
    if found is None:
        return int(value) if _takes(int)(value) else None
    return int(found[1]) * _BINARY[found[2]] if found[1] else int(Decimal(found[3]) * _DECIMAL[found[4]])


def _is_object(value: str) -> bool:
    """Numbers outside of strings may have a suffix, e.g. ``80g``."""
    return _takes(json.loads)(_HUMAN_IN_JSON.sub(lambda found: found[1] or "0", value))


def _is_text_or_json(value: str) -> bool:
    return re.fullmatch(r"(?s)\s*\{.*\}\s*", value) is None or _takes(json.loads)(value)


def _is_adapter(value: str) -> bool:
    return value == "" or ("=" in value and "," not in value) or _takes(json.loads)(value)


_KINDS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "text": (lambda _: True, "a value"),
    "word": (lambda _: True, "a value"),
    "whole": (_takes(int), "a whole number"),
    "number": (_takes(float), "a number"),
    "size": (_is_size, "a whole number, e.g. 4096 or 4k"),
    "size-or-auto": (lambda value: value.strip().lower() == "auto" or _is_size(value), "a whole number, or auto"),
    "json": (_takes(json.loads), "JSON, e.g. '{\"key\": 1}'"),
    "object": (_is_object, "a JSON object, e.g. '{\"key\": 1}', or one key at a time behind a dot"),
    "text-or-json": (_is_text_or_json, "a text, or JSON"),
    "adapter": (_is_adapter, "NAME=PATH, or JSON"),
}
"""Whether a kind takes a value, and how to call it."""


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
