"""The options of ``vllm serve`` of a release, and what its parser reads in one word of a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.releases.older_options import OLDER_OPTIONS
from plimsoll.engines.vllm.releases.serve_options import SERVE_OPTIONS

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""Words with a dash that are values (``argparse``)."""

_MOST_NAMES = 4
_ENABLE_DISABLE = ("--enable-", "--disable-")
_LEVEL = "--optimization-level"
_GONE = "!"


class Option(NamedTuple):
    """An option: its names, the kind of its values, its choices, and the names that a server knows when it starts."""

    names: tuple[str, ...]
    takes: str
    choices: tuple[str, ...]
    registered: tuple[str, ...]

    @classmethod
    def recorded(cls, answer: Mapping[str, Any]) -> Option:
        """Return an option as ``testbed/engine/parse_arguments.py`` describes it."""
        names, choices, registered = (tuple(answer[name]) for name in ("names", "choices", "registered"))
        return cls(names, answer["takes"], choices, registered)

    @property
    def kind(self) -> str:
        """The kind of one value."""
        return self.takes.rstrip("+?")

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.takes in ("switch", "help")

    def is_negative(self, name: str) -> bool:
        """Whether this name of a switch turns it off: ``--no-x``, or since 0.33 the opposite of the first name."""
        return name.startswith("--no-") or name == _opposite(self.names[0])


class Given(NamedTuple):
    """An option in a word, under the name that was written, with the value in the same word; None without any."""

    option: Option
    name: str
    value: str | None


class Unreadable(NamedTuple):
    """A word that begins as an option does and is none; ``fix`` says what to write."""

    fix: str


@dataclass(frozen=True, slots=True)
class FlagTable:
    """The options of one release, by name."""

    release: EngineVersion
    options: Mapping[str, Option]

    def read(self, word: str) -> Given | Unreadable | None:
        """Return the option in a word; None for a value."""
        if len(word) < len("-x") or not word.startswith("-"):
            return None
        name, equals, value = word.partition("=")
        spelled = normalised(name)
        if spelled in self.options:
            return Given(self.options[spelled], spelled, value if equals else None)
        meant = self._abbreviated(spelled, word)
        if len(meant) == 1:
            return meant[0]
        if meant:
            return Unreadable(f"It may mean {_one_of([each.name for each in meant])}: write one in full.")
        if _NEGATIVE_NUMBER.fullmatch(word) or " " in word:
            return None
        return Unreadable(f"vLLM {self.release} has no such flag: {self._nearest(spelled)}")

    def _abbreviated(self, spelled: str, word: str) -> list[Given]:
        """Every option that a beginning may mean. A value may follow a flag of one letter directly."""
        if spelled.startswith("--"):
            _, equals, value = word.partition("=")
            given = value if equals else None
            return [Given(each, name, given) for name, each in self.options.items() if name.startswith(spelled)]
        letter = [Given(self.options[word[:2]], word[:2], word[2:])] if word[:2] in self.options else []
        longer = [Given(each, name, None) for name, each in self.options.items() if name.startswith(word)]
        return letter + longer

    def _nearest(self, spelled: str) -> str:
        found = get_close_matches(spelled.lower()[:80], self.options, n=1, cutoff=0.7)
        return f"the nearest is {found[0]}." if found else "correct its name, or remove it."

    def names_in(self, text: str) -> Iterator[str]:
        """Yield the flags that a text holds between its words."""
        for found in re.finditer(r"\s(-{1,2}[A-Za-z][\w-]*)(?=[=\s]|$)", text):
            if normalised(found[1]) in self.options:
                yield found[1]


def table_for(release: EngineVersion) -> FlagTable:
    """Return the options of a release. Where it is not recorded, they are those of the last recorded one before it.

    Before the first recorded release, they are those of the first.
    """
    tables = _tables()
    return tables[max((each for each in tables if each <= release), default=min(tables))]


def _opposite(name: str) -> str | None:
    """Return ``--disable-x`` for ``--enable-x`` and the other way round; None for any other name."""
    for one, other in (_ENABLE_DISABLE, reversed(_ENABLE_DISABLE)):
        if name.startswith(one):
            return other + name.removeprefix(one)
    return None


@lru_cache(maxsize=1)
def table_with_older_flags() -> FlagTable:
    """Return the options of the first recorded release, and those that older releases have in addition."""
    first = _tables()[min(_tables())]
    older = [option for _, option in _rows(OLDER_OPTIONS) if option is not None]
    return FlagTable(first.release, {**_by_name(older), **first.options})


def normalised(name: str) -> str:
    """Return a name with dashes for underscores, as far as vLLM's parser replaces them: not in keys after a dot."""
    if not name.startswith("--"):
        return name
    flag, dot, key = name.partition(".")
    return flag.replace("_", "-") + dot + key


def as_words(arguments: Sequence[str]) -> list[tuple[int, str]]:
    """Return the words that the parser sees, with their positions: ``-O3`` is a short form of an option."""
    words: list[tuple[int, str]] = []
    for position, argument in enumerate(arguments):
        level = argument[2:].removeprefix("=")
        following = arguments[position + 1] if position + 1 < len(arguments) else ""
        if argument.startswith("-O") and level:
            words += [(position, _LEVEL), (position, level)]
        elif argument == "-O" and following in {"0", "1", "2", "3"}:
            words.append((position, _LEVEL))
        else:
            words.append((position, argument))
    return words


@lru_cache(maxsize=1)
def _tables() -> Mapping[EngineVersion, FlagTable]:
    """Return the options of each recorded release. The first has all of its own, each other what it changes."""
    found: dict[EngineVersion, FlagTable] = {}
    options: dict[str, Option] = {}
    for release, text in SERVE_OPTIONS.items():
        for name, option in _rows(text):
            options.pop(name, None)
            if option is not None:
                options[name] = option
        version = EngineVersion.of(release)
        found[version] = FlagTable(version, _by_name(options.values()))
    return found


def _by_name(options: Iterable[Option]) -> Mapping[str, Option]:
    return {name: option for option in options for name in option.names}


def _rows(text: str) -> Iterator[tuple[str, Option | None]]:
    """Yield each option by its first name; None for one that a release does not have any more."""
    for row in re.split(r"\n(?=[-!])", text.strip()):
        if row.startswith(_GONE):
            yield row.removeprefix(_GONE).strip(), None
            continue
        words, _, registered = row.partition(" ~ ")
        words, _, choices = words.partition(" = ")
        *names, takes = words.split()
        yield names[0], Option(tuple(names), takes, tuple(choices.split()), tuple(registered.split()))


def _one_of(names: Sequence[str]) -> str:
    shown = sorted(names)[:_MOST_NAMES]
    return ", ".join(shown) + (f" or {len(names) - _MOST_NAMES} others" if len(names) > _MOST_NAMES else "")
