"""The operator with another clock or another version: ``python -m tests.support.disguised``.

``DISGUISED_CLOCK`` names a file with the seconds by which the wall clock is wrong; it is read at every look at the
clock, so that a test lets the clock jump by writing it. ``DISGUISED_VERSION`` is the version it calls itself by.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from plimsoll.app import shell
from plimsoll.cli.main import main

CLOCK, VERSION = "DISGUISED_CLOCK", "DISGUISED_VERSION"
MODULE = "tests.support.disguised"


def environment(**disguise: str) -> dict[str, str]:
    """Return the environment of such a process: its disguise, and the path of this module."""
    return {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), **disguise}


def let_clock_jump(file: Path) -> None:
    """Put everything that asks for the time of day on the clock of a file."""
    right = time.time

    def wrong() -> float:
        return right() + float(file.read_text() or 0)

    vars(time)["time"] = wrong
    vars(time)["time_ns"] = lambda: int(wrong() * 1e9)


def disguise() -> None:
    """Put on what the environment says."""
    if file := os.environ.get(CLOCK):
        let_clock_jump(Path(file))
    if version := os.environ.get(VERSION):
        vars(shell)["__version__"] = version


if __name__ == "__main__":
    disguise()
    main()
