"""Where tables are printed."""

from __future__ import annotations

import sys

from rich.console import Console

_COLUMNS = 160
"""Of a pipe or a file, which have no width of their own."""


def screen() -> Console:
    """The terminal, or a wide page where the output goes elsewhere."""
    return Console(width=None if sys.stdout.isatty() else _COLUMNS)
