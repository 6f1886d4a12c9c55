"""The output of commands: tables and lines on a console, and remarks on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from plimsoll.cli.forms import text_of
from plimsoll.cli.listing import Listing, sentences

_COLUMNS = 160
"""The width for a pipe or a file, which have no width, unless ``COLUMNS`` says one."""


def screen() -> Console:
    """The terminal, or a wide page if the output goes elsewhere."""
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(width=None if has_width else _COLUMNS)


def print_lines(console: Console, lines: Iterable[str | Text], style: str = "") -> None:
    """Print lines as they are, without colours for numbers and without marks, wrapped between words alone."""
    for line in sentences(lines, console.width):
        console.print(line, style=style or None, no_wrap=True, overflow="ignore", crop=False)


def print_listing(console: Console, listing: Listing) -> None:
    """Print a table. Its lines are as long as its longest name, on whatever terminal."""
    console.print(listing, crop=False)


def print_heading(console: Console, title: str) -> None:
    """Print a title with a rule behind it, as far as there is room."""
    line = Text.assemble((title, "bold"), (f" {'─' * (console.width - len(title) - 1)}", "green"))
    console.print(line, no_wrap=True, overflow="ignore", crop=False)


def print_document(form: str, document: Mapping[str, Any]) -> None:
    """Print an answer as JSON, or as YAML if the form is not ``json``."""
    click.echo(text_of(form, document), nl=False)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on standard error what is done and since when, as long as it takes; only people at a terminal see it."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - for people

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        shown.add_task(what)
        yield


@contextmanager
def progressing(what: str) -> Iterator[Callable[[str, float], None]]:
    """Show on standard error how far each part of a long piece of work is, and a line for each part that is done.

    The function that is given is called with the name of a part, and how much of it is over, 0 to 1.
    """
    done = set[str]()
    if not sys.stderr.isatty():

        def note(part: str, share: float) -> None:
            if share >= 1 and part not in done:
                done.add(part)
                say("note", (f"{what}: {part} is done",))

        yield note
        return
    from rich.progress import Progress, TaskID  # noqa: PLC0415 - for people

    tasks = dict[str, TaskID]()
    with Progress(console=Console(stderr=True), transient=True) as shown:

        def update(part: str, share: float) -> None:
            if part not in tasks:
                tasks[part] = shown.add_task(f"{what}: {part}", total=1.0)
            shown.update(tasks[part], completed=share)

        yield update


def say(kind: str, lines: Iterable[str | None]) -> None:
    """Print each line that there is to standard error, as an error, a warning or a note."""
    for line in lines:
        if line is not None:
            click.echo(f"{kind}: {line}", err=True)
