"""A command that starts a server, as somebody writes it: in words, as one text, or wrapped in a shell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plimsoll.cli.starts.shell_words import commands_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.base import StartCommandReader
from plimsoll.engines.registry import engine_of

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})
_WITH_SCRIPT = re.compile(r"-[a-z]*c[a-z]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
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
        gpus: the GPUs that the container gets; None where nothing says it.
        resource: the field that says it.
        labels: the labels of nodes on which it may run, one set for each choice.
        spread: whether further containers run parts of the same replica.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    where: str
    image: str = ""
    taken: str = ""
    gpus: int | None = None
    resource: str = ""
    labels: tuple[Mapping[str, str], ...] = field(default=())
    spread: bool = False


def reader() -> StartCommandReader:
    """Return the reader of the default engine's commands."""
    found = engine_of().start_commands
    if found is None:
        raise InvalidInput("COMMAND", engine_of().title, "Nothing is known of the commands of this engine.")
    return found


def command_in(words: Sequence[str]) -> Written | None:
    """Return the command in the words of a command line, or in the one text among them; None where they hold none."""
    found = server_in(words, {}) if len(words) > 1 else _in_script(" ".join(words), {}, 0)
    return None if found is None else Written(*found, where="the command")


def server_in(
    words: Sequence[str], environment: Mapping[str, str], depth: int = 0
) -> tuple[tuple[str, ...], Mapping[str, str]] | None:
    """Return the arguments of a server and the variables of its process; None where these words start none."""
    arguments = reader().arguments(words)
    if arguments is not None:
        before = words[: len(words) - len(arguments)]
        return arguments, {**environment, **dict(_assigned(before))}
    script = _script_of(words)
    return None if script is None else _in_script(script, environment, depth)


def _assigned(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the variables that words such as ``env NAME=value`` set."""
    found = (_ASSIGNMENT.fullmatch(word) for word in words)
    return [(each[1], each[2]) for each in found if each is not None]


def _script_of(words: Sequence[str]) -> str | None:
    """Return the script of ``sh -c SCRIPT``; None where no shell gets one."""
    for index, word in enumerate(words):
        if word.rpartition("/")[2] in _SHELLS:
            given = [at for at in range(index + 1, len(words) - 1) if _WITH_SCRIPT.fullmatch(words[at])]
            return words[given[0] + 1] if given else None
    return None


def _in_script(
    script: str, environment: Mapping[str, str], depth: int
) -> tuple[tuple[str, ...], Mapping[str, str]] | None:
    """Return the first server that a script starts."""
    if depth > _MOST_SHELLS:
        return None
    for command in commands_of(script, environment):
        found = server_in(command.words, command.variables, depth + 1)
        if found is not None:
            return found
    return None
