"""Exit statuses of the command."""

from __future__ import annotations

EXIT_PLACED = 0
EXIT_UNPLACED = 1
EXIT_BAD_INPUT = 2
