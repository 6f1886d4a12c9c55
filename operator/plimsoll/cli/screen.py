"""The output of commands: tables and lines on a console, and remarks on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click
from rich.console import Console

_COLUMNS = 160
"""The width for a pipe or a file, which have no width."""


def screen() -> Console:
    """The terminal, or a wide page if the output goes elsewhere."""
    return Console(width=None if sys.stdout.isatty() else _COLUMNS)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines as they are, without colours for numbers and without marks."""
    for line in lines:
        console.print(line, highlight=False, markup=False)


def say(kind: str, lines: Iterable[str | None]) -> None:
    """Print each line that there is to standard error, as an error, a warning or a note."""
    for line in lines:
        if line is not None:
            click.echo(f"{kind}: {line}", err=True)
