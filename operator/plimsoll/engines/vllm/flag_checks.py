"""The user's flags against vLLM's own parser: a start that must fail is refused before there is a pod.

vLLM's parser (``utils/argparse_utils.py``, 0.32 and 0.33) is one of ``argparse``. Besides, it accepts ``_`` for ``-``,
takes ``--flag.key value`` for one key of a JSON value, and ``-O3`` for ``--optimization-level 3``. What is refused
here, that parser refuses, or the server when it starts. Only the flags of recorded releases are known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.flags import Misuse
from plimsoll.engines.vllm.flag_table import FlagTable, Given, Unreadable, as_words, table_for
from plimsoll.engines.vllm.flag_values import lack_of, registered_lack

_SEPARATE = "write each flag and each value as an entry of its own, or as --flag=value."
_TOOLS, _TOOL_PARSER, _TOOL_PLUGIN = "--enable-auto-tool-choice", "--tool-call-parser", "--tool-parser-plugin"
_REASONING, _REASONING_PLUGIN = "--reasoning-parser", "--reasoning-parser-plugin"

_NEEDS = {_TOOLS: _TOOL_PARSER, "--enable-log-outputs": "--enable-log-requests"}
"""Switches, and the option without which the server does not start. Source: ``validate_parsed_serve_args`` in
``entrypoints/launchers/cli_args.py``, 0.32."""


class _Problem(NamedTuple):
    position: int
    fix: str


class _Setting(NamedTuple):
    """The last words that set an option: their position, the value, and whether it is neither off nor nothing."""

    position: int
    value: str
    is_on: bool


def misused_argument(arguments: Sequence[str], release: EngineVersion) -> Misuse | None:
    """Return the first argument that ends the start of a server; None without any.

    Args:
        arguments: what the user adds to the command line.
        release: the engine's release. Where its flags are not recorded, those of the nearest recorded one count (an
            earlier one where there is any), and the answer names that release.
    """
    table = table_for(release)
    problem = None if "--" in arguments else next(_Command(arguments, table).problems(), None)
    if problem is None:
        return None
    return Misuse(problem.position, arguments[problem.position], problem.fix, table.release)


class _Command:
    """A command line while it is read."""

    def __init__(self, arguments: Sequence[str], table: FlagTable) -> None:
        self._words = as_words(arguments)
        self._table = table
        self._settings: dict[str, _Setting] = {}

    def problems(self) -> Iterator[_Problem]:
        """Yield what is wrong: first single words in their order, then what they lack together."""
        yield from self._take_keys()
        while self._words:
            position, word = self._words.pop(0)
            read = self._table.read(word)
            if read is None:
                yield _Problem(position, _stray(word))
            elif isinstance(read, Unreadable):
                yield _Problem(position, read.fix)
            else:
                yield from self._take(position, read)
        yield from self._lacking()

    def _take_keys(self) -> Iterator[_Problem]:
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
                yield _Problem(position, _missing(name))
            else:
                value = value if equals else self._words.pop(0)[1]
                yield from self._take(position, read._replace(value=json.dumps({key: value})))
        self._words = left

    def _take(self, position: int, given: Given) -> Iterator[_Problem]:
        option, name, value = given
        if option.takes == "help":
            yield _Problem(position, "The engine prints its help and ends: remove it.")
        elif option.is_switch:
            self._settings[option.names[0]] = _Setting(position, "", is_on=not option.is_negative(name))
            if value is not None:
                yield _Problem(position, f"{name} takes no value: write {' or '.join(option.names[:2])}.")
        elif value is not None:
            yield from self._check(position, given, value)
        else:
            yield from self._take_values(position, given)

    def _take_values(self, position: int, given: Given) -> Iterator[_Problem]:
        """Take the following words that are values: one, or all that come where the option takes several."""
        takes = given.option.takes
        count = 0
        while self._words and (not count or takes.endswith("+")) and self._table.read(self._words[0][1]) is None:
            at, value = self._words.pop(0)
            count += 1
            yield from self._check(at, given, value)
        if not count and not takes.endswith("?"):
            yield _Problem(position, _missing(given.name))

    def _check(self, position: int, given: Given, value: str) -> Iterator[_Problem]:
        option, name, _ = given
        self._settings[option.names[0]] = _Setting(position, value, is_on=value not in ("", "None"))
        inner = next(self._table.names_in(value), None) if option.kind.endswith(("text", "whole", "number")) else None
        lack = lack_of(option, name, value)
        if inner is not None:
            yield _Problem(position, f"It holds the flag {inner}, too: {_SEPARATE}")
        elif lack is not None:
            yield _Problem(position, lack)

    def _lacking(self) -> Iterator[_Problem]:
        for switch, needed in _NEEDS.items():
            found = self._on(switch)
            if found is not None and self._on(needed) is None:
                yield _Problem(found.position, f"{switch} needs {needed}: add it, or remove {switch}.")
        yield from self._unregistered(_TOOL_PARSER, _TOOL_PLUGIN, is_read=self._on(_TOOLS) is not None)
        yield from self._unregistered(_REASONING, _REASONING_PLUGIN, is_read=True)

    def _on(self, name: str) -> _Setting | None:
        """The setting of an option, unless it is switched off or set to nothing."""
        found = self._settings.get(name)
        return found if found is not None and found.is_on else None

    def _unregistered(self, name: str, plugin: str, *, is_read: bool) -> Iterator[_Problem]:
        """Check a parser's name with those that come with the release, unless a plugin brings others."""
        found = self._on(name)
        if found is None or not is_read or self._on(plugin) is not None:
            return
        lack = registered_lack(self._table.options[name], name, found.value)
        if lack is not None:
            yield _Problem(found.position, lack)


def _missing(name: str) -> str:
    return f"{name} takes a value: write it as the next entry, or as {name}=VALUE."


def _stray(word: str) -> str:
    if word.startswith("-") and " " in word:
        return f"The engine reads this as one word: {_SEPARATE}"
    return f"No flag takes this value: {_SEPARATE}"
