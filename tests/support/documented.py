"""The commands that the documentation tells people to type, as the program gets them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import click

from plimsoll.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]

STAND_INS: Mapping[str, str] = MappingProxyType(
    {
        "MODEL": "Qwen/Qwen3-8B",
        "TYPE": "l4-24gb",
        "N": "2",
        "fleet.yaml": "examples/fleet.yaml",
        "deploy/": "examples/05-rebalancing/deployment.yaml",
        "requests.csv": "examples/05-rebalancing/requests.csv",
    }
)
"""What is meant by the words of a command line that stand for the reader's own."""

MANIFESTS = ("examples/01-minimal/deployment.yaml", "examples/05-rebalancing/deployment.yaml")
"""What a command gets that reads manifests from a pipe. Two, so that a programme is solved."""

NEEDS_NOTHING = frozenset({"estimate", "gpus", "models", "prices", "simulate"})
"""Commands that need no cluster, no file of the reader's, and no network for a model of the catalogue."""

_PROMPT = re.compile(r"^\s*(?:\w*\$ )?")
_NAME = re.compile(r"(?:^|\| *)(?:\.venv/bin/)?plimsoll(?= |$)")
_INDENTED = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_OPERATORS = frozenset({"|", ">", ">>", "<", "&&", ";", "&"})


@dataclass(frozen=True, slots=True)
class Written:
    """A call of ``plimsoll`` on a page."""

    page: str
    words: tuple[str, ...]
    """What follows the program's name."""

    is_whole: bool
    """Whether a reader can type it as it is: it stands in a block. Text between backticks may only name it."""

    def __str__(self) -> str:
        return f"{self.page}: plimsoll {shlex.join(self.words)}"


def written(page: str) -> list[Written]:
    """Every call of ``plimsoll`` on a page, in blocks and between backticks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fenced, outside = parts(text)
    inside = "\n".join([fenced, *_INDENTED.findall(outside)])
    found = [Written(page, words, is_whole=True) for line in commands(inside) for words in _calls(line)]
    spans = (" ".join(span.split()) for span in _SPAN.findall(outside))
    return found + [Written(page, words, is_whole=False) for span in spans for words in _calls(span)]


def parts(text: str) -> tuple[str, str]:
    """A page's fenced blocks, and what is around them."""
    blocks = re.split(r"^ *```.*\n", text, flags=re.MULTILINE)
    return "\n".join(blocks[1::2]), "\n".join(blocks[::2])


def commands(blocks: str) -> Iterator[str]:
    """The lines of blocks without prompts, with continued lines joined."""
    for line in re.sub(r"\\\n\s*", "", blocks).splitlines():
        yield _PROMPT.sub("", line)


def _calls(line: str) -> Iterator[tuple[str, ...]]:
    if not _NAME.search(line):
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    current: list[str] = []
    for token in [*lexer, ";"]:
        if token not in _OPERATORS:
            current.append(token)
            continue
        if current and current[0].removeprefix(".venv/bin/") == "plimsoll":
            yield from [tuple(current[1:])] * (len(current) > 1)
        current = []


def understood(call: Written) -> click.Context:
    """Let the program parse a call.

    Raises:
        click.UsageError: it does not understand it.
    """
    command: click.Command = cli
    words = [STAND_INS.get(word, word) for word in call.words]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        inner = command.get_command(click.Context(command), name)
        if inner is None:
            raise click.UsageError(f"no such command: {name}")
        command = inner
    try:
        return command.make_context(command.name, words)
    except (click.MissingParameter, click.BadOptionUsage):
        if call.is_whole:  # a name between backticks may lack what a call needs; an unknown option is another exception
            raise
    except click.exceptions.Exit:  # of --help and --version
        pass
    return click.Context(command)


@dataclass(frozen=True, slots=True)
class Runnable:
    """A call that needs no cluster, with the reader's own words replaced."""

    words: tuple[str, ...]
    stdin: tuple[str, ...] = ()
    """The files that it gets through a pipe."""

    forms: tuple[str, ...] = ()
    """What ``-o`` may be."""

    def form(self) -> str:
        """What it prints: the word after ``-o``, else the first that there is."""
        return self.words[self.words.index("-o") + 1] if "-o" in self.words else next(iter(self.forms), "table")

    @property
    def asks_about_a_command(self) -> bool:
        """Whether it is about the command line of a server, which becomes no manifest."""
        return any(word == "--" or " " in word for word in self.words)

    def in_form(self, form: str) -> Runnable:
        """The same call with another ``-o``."""
        words = list(self.words)
        if "-o" in words:
            del words[(at := words.index("-o")) : at + 2]
        return replace(self, words=(*words, "-o", form))


def in_every_form(calls: Sequence[Runnable]) -> list[Runnable]:
    """Each of these calls as it stands, and the last one of each command in every form that it has."""
    last = {call.words[0]: call for call in calls}
    more = [call.in_form(form) for call in last.values() for form in call.forms if form not in {"manifest", "table"}]
    more += [call.in_form("manifest") for call in calls if "manifest" in call.forms and not call.asks_about_a_command]
    return list({(call.words, call.form()): call for call in [*calls, *more]}.values())


def runnable(*pages: str) -> list[Runnable]:
    """The calls of pages that need no cluster, each once."""
    found: dict[tuple[str, ...], Runnable] = {}
    for call in (call for page in pages for call in written(page)):
        name = call.words[0] if call.words else ""
        context = understood(call)
        needs_nothing = name in NEEDS_NOTHING and "--from-prometheus" not in call.words
        is_whole = needs_nothing and (call.is_whole or len(call.words) > 1 or not _arguments(context))
        if is_whole or (call.is_whole and "--fleet" in call.words):
            words = tuple(STAND_INS.get(word, word) for word in call.words)
            found[words] = Runnable(words, MANIFESTS if "-" in words else (), _forms(context.command))
    return list(found.values())


def _arguments(context: click.Context) -> list[str]:
    return [str(each.name) for each in context.command.params if isinstance(each, click.Argument)]


def _forms(command: click.Command) -> tuple[str, ...]:
    choices = [each.type for each in command.params if "-o" in each.opts]
    return tuple(choice for each in choices if isinstance(each, click.Choice) for choice in each.choices)
