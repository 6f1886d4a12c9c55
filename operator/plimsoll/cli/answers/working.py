"""Every formula of an estimate with its numbers as a table: ``plimsoll estimate --why``."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from plimsoll.cli.answers.steps import steps
from plimsoll.domain.units import GIB
from plimsoll.placement.options.sizing import Sized


def print_working(console: Console, answer: Sized) -> None:
    """Print one row for each step."""
    table = Table("TERM", "HOW", "GiB", box=None, show_lines=False)
    table.columns[2].justify = "right"
    for step in steps(answer):
        size = "" if step.size_bytes is None else f"{step.size_bytes / GIB:.3f}"
        table.add_row(step.label, step.formula, size, style="bold" if step.is_total else None)
    console.print(table)
