"""A command that starts a server, as somebody writes it: in words, as one text, or wrapped in a shell.

The simple commands of a shell script, with quotes and variables resolved as a POSIX shell does.

Nothing is run. What only a run can tell, such as ``$(nproc)``, stands in its word as an expression without a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from plimsoll.engines.base import StartCommandReader
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.starts import unresolved, unresolved_in

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BLANK, _ENDS = " \t\r", ";&|\n()"
_REDIRECTION = re.compile(r"\d*(?:>>|>&|<&|<<-?|<>|>\||&>>?|[<>])")
_ESCAPED_IN_QUOTES = '"\\$`\n'
_DEFAULTS = re.compile(r":?[-=](.*)", re.DOTALL)
_INSTEAD = re.compile(r":?\+(.*)", re.DOTALL)

_DECLARATIONS = (["export"], ["declare"], ["readonly"], ["local"])

LONGEST_SCRIPT = 1_000_000
"""Characters of a script that are read."""


class SimpleCommand(NamedTuple):
    """The words of a command, and the variables that are set where it runs."""

    words: tuple[str, ...]
    variables: Mapping[str, str]


def commands_of(script: str, variables: Mapping[str, str]) -> Iterator[SimpleCommand]:
    """Yield the commands of a script in order. Assignments count for the commands after them, on any branch.

    Args:
        script: the text, as after ``sh -c``.
        variables: the variables of the process.
    """
    yield from _Script(script[:LONGEST_SCRIPT], dict(variables)).commands()


@dataclass(slots=True)
class _Script:
    text: str
    variables: dict[str, str]
    place: int = 0
    words: list[str] = field(default_factory=list)

    def commands(self) -> Iterator[SimpleCommand]:
        while self.place < len(self.text):
            character = self.text[self.place]
            if character in _BLANK:
                self.place += 1
            elif self.text.startswith("\\\n", self.place):
                self.place += 2
            elif character == "#":
                self._skip_line()
            elif (redirection := _REDIRECTION.match(self.text, self.place)) is not None:
                self.place = redirection.end()
                self._skip_blanks()
                self.word()
            elif character in _ENDS:
                self.place += 1
                yield from self._command()
            else:
                self.words += self.word()
        yield from self._command()

    def _command(self) -> Iterator[SimpleCommand]:
        """Yield the command whose words were read. One of assignments alone sets variables."""
        words, self.words = self.words, []
        if words[:1] in _DECLARATIONS:
            words = [word for word in words[1:] if not word.startswith("-")]
            self.variables |= dict(_assignments(words))
            return
        set_here = list(_assignments(words))
        given, rest = dict(set_here), words[len(set_here) :]
        if rest:
            yield SimpleCommand(tuple(rest), {**self.variables, **given})
        else:
            self.variables |= given

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.place)
        self.place = len(self.text) if end < 0 else end

    def _skip_blanks(self) -> None:
        while self.place < len(self.text) and self.text[self.place] in _BLANK:
            self.place += 1

    def word(self) -> list[str]:
        """Read a word. Variables outside of quotes are divided at blanks, so it may become several, or none."""
        parts, quoted = [""], False
        while self.place < len(self.text):
            character = self.text[self.place]
            if character in _BLANK or character in _ENDS or character in "<>":
                break
            self.place += 1
            if character == "'":
                quoted, parts[-1] = True, parts[-1] + self._until("'")
            elif character == '"':
                quoted, parts[-1] = True, parts[-1] + self._in_quotes()
            elif character == "\\":
                parts[-1] += self._escaped()
            elif character in "$`":
                parts = _joined(parts, self._expansion(character), is_assignment=self._assigns(parts))
            else:
                parts[-1] += character
        return parts if quoted or any(parts) else []

    def _assigns(self, parts: list[str]) -> bool:
        """Whether a word is an assignment: in front of a command, or in one that declares variables."""
        if len(parts) != 1 or _ASSIGNMENT.fullmatch(parts[0]) is None:
            return False
        return self.words[:1] in _DECLARATIONS or all(_ASSIGNMENT.fullmatch(word) is not None for word in self.words)

    def _until(self, end: str) -> str:
        begin, found = self.place, self.text.find(end, self.place)
        stop = len(self.text) if found < 0 else found
        self.place = stop + 1
        return self.text[begin:stop]

    def _escaped(self) -> str:
        character = self.text[self.place : self.place + 1]
        self.place += 1
        return "" if character == "\n" else character

    def _in_quotes(self) -> str:
        found = ""
        while self.place < len(self.text):
            character = self.text[self.place]
            self.place += 1
            if character == '"':
                break
            if character == "\\":
                following = self.text[self.place : self.place + 1]
                found += self._escaped() if following in _ESCAPED_IN_QUOTES and following else "\\"
            elif character in "$`":
                found += self._expansion(character)
            else:
                found += character
        return found

    def _expansion(self, character: str) -> str:
        """Return the value of what begins with a dollar sign or a backtick, which has just been read."""
        if character == "`":
            return unresolved(f"`{self._until('`')}`")
        following = self.text[self.place : self.place + 1]
        if following == "(":
            return unresolved(f"$({self._nested('(', ')')})")
        if following == "{":
            return self._parameter(self._nested("{", "}"))
        name = _NAME.match(self.text, self.place)
        if name is not None:
            self.place = name.end()
            return self._value(name[0], f"${name[0]}")
        if following and following in "0123456789@*#?$!-":
            self.place += 1
            return unresolved(f"${following}")
        return "$"

    def _nested(self, opens: str, closes: str) -> str:
        """Read up to the bracket that closes the one at this place, and return what is between them."""
        begin, depth = self.place + 1, 0
        for place in range(self.place, len(self.text)):
            character = self.text[place]
            depth += (character == opens) - (character == closes)
            if depth == 0:
                self.place = place + 1
                return self.text[begin:place]
        self.place = len(self.text)
        return self.text[begin:]

    def _parameter(self, text: str) -> str:
        """Return the value of ``${NAME}``, with a default or another word if one is given."""
        name = _NAME.match(text)
        rest = "" if name is None else text[name.end() :]
        whole = f"${{{text}}}"
        if name is None:
            return unresolved(whole)
        if not rest:
            return self._value(name[0], whole)
        default, instead = _DEFAULTS.fullmatch(rest), _INSTEAD.fullmatch(rest)
        if default is not None:
            known = self.variables.get(name[0])
            return known if known is not None and (known or not rest.startswith(":")) else self._plain(default[1])
        if instead is not None:
            return self._plain(instead[1]) if self.variables.get(name[0]) else ""
        return self._value(name[0], whole) if rest.startswith(("?", ":?")) else unresolved(whole)

    def _plain(self, text: str) -> str:
        """Return the default of a variable. It may hold further variables, a few levels deep."""
        if "$" not in text and "`" not in text:
            return text.replace('"', "").replace("'", "")
        if text.count("${") > _MOST_LEVELS:
            return unresolved(text)
        return _Script(f'"{text.replace(chr(34), "")}"', self.variables).word()[0]

    def _value(self, name: str, written: str) -> str:
        return self.variables.get(name, unresolved(written))


_MOST_LEVELS = 8


def _joined(parts: list[str], value: str, *, is_assignment: bool) -> list[str]:
    """Add the value of a variable to a word. A shell divides it at blanks, except in an assignment."""
    if is_assignment or unresolved_in(value) is not None or not any(blank in value for blank in " \t\n"):
        return [*parts[:-1], parts[-1] + value]
    pieces = value.split()
    first, last = value[:1].isspace(), value[-1:].isspace()
    if first and parts[-1]:
        parts = [*parts, ""]
    joined = [*parts[:-1], parts[-1] + (pieces[0] if pieces else ""), *pieces[1:]]
    return [*joined, ""] if last and joined[-1] else joined


def _assignments(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that the words in front of a command set."""
    for word in words:
        found = _ASSIGNMENT.fullmatch(word)
        if found is None:
            return
        yield found[1], found[2]


_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})
_WITH_SCRIPT = re.compile(r"-[a-z]*c[a-z]*")
_MOST_SHELLS = 4
"""Shells within shells."""


@dataclass(frozen=True, slots=True)
class Written:
    """The arguments of a server, with what is around them.

    Attributes:
        arguments: the words after the program.
        environment: the variables of the process; a value that is not known is an expression.
        where: the place of the arguments, for messages.
        image: the image of the container; empty without one.
        taken: a sentence about which container was taken; empty without one.
        gpus: the GPUs that the container gets; None if nothing says it.
        resource: the field that says it.
        labels: the labels of nodes on which it may run, one set for each choice.
        spread: whether further containers run parts of the same replica.
    """

    engine: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    where: str
    image: str = ""
    taken: str = ""
    gpus: int | None = None
    resource: str = ""
    labels: tuple[Mapping[str, str], ...] = field(default=())
    spread: bool = False


def readers() -> Mapping[str, StartCommandReader]:
    """Return the readers of commands, by engine."""
    found = {name: each.start_commands for name, each in ENGINES.items()}
    return {name: each for name, each in found.items() if each is not None}


def reader_of(engine: str) -> StartCommandReader:
    """Return the reader of an engine's commands. Raises KeyError if nothing is known of them."""
    return readers()[engine]


def example() -> str:
    """Return a command that is read here, for messages."""
    return next(iter(readers().values())).example


class Server(NamedTuple):
    """A server that words start: its engine, its arguments, and the variables of its process."""

    engine: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def command_in(words: Sequence[str]) -> Written | None:
    """Return the command in the words of a command line, or in the one text among them; None if they hold none."""
    found = server_in(words, {}) if len(words) > 1 else _in_script(" ".join(words), {}, 0)
    return None if found is None else Written(*found, where="the command")


def server_in(words: Sequence[str], environment: Mapping[str, str], depth: int = 0) -> Server | None:
    """Return the server that these words start; None if they start none."""
    for engine, reader in readers().items():
        arguments = reader.arguments(words)
        if arguments is not None:
            before = words[: len(words) - len(arguments)]
            return Server(engine, arguments, {**environment, **dict(_assigned(before))})
    script = _script_of(words)
    return None if script is None else _in_script(script, environment, depth)


def _assigned(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the variables that words such as ``env NAME=value`` set."""
    found = (_ASSIGNMENT.fullmatch(word) for word in words)
    return [(each[1], each[2]) for each in found if each is not None]


def _script_of(words: Sequence[str]) -> str | None:
    """Return the script of ``sh -c SCRIPT``; None if no shell gets one."""
    for index, word in enumerate(words):
        if word.rpartition("/")[2] in _SHELLS:
            given = [at for at in range(index + 1, len(words) - 1) if _WITH_SCRIPT.fullmatch(words[at])]
            return words[given[0] + 1] if given else None
    return None


def _in_script(script: str, environment: Mapping[str, str], depth: int) -> Server | None:
    """Return the first server that a script starts."""
    if depth > _MOST_SHELLS:
        return None
    for command in commands_of(script, environment):
        found = server_in(command.words, command.variables, depth + 1)
        if found is not None:
            return found
    return None
