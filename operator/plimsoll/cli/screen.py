"""The console that tables are printed on."""

from __future__ import annotations

import sys

from rich.console import Console

_COLUMNS = 160
"""The width for a pipe or a file, which have no width."""


def screen() -> Console:
    """The terminal, or a wide page if the output goes elsewhere."""
    return Console(width=None if sys.stdout.isatty() else _COLUMNS)
