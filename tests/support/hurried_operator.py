"""The operator with shorter waits: ``python -m tests.support.hurried_operator``.

``HURRIED`` names the waits that last seconds here. Everything else is as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType, ModuleType

from plimsoll.app import planner, season_watch
from plimsoll.cli.main import main
from plimsoll.rebalance import diagnose, elsewhere, judging, load

MODULE = "tests.support.hurried_operator"
_ROOT = Path(__file__).resolve().parents[2]
_VARIABLE = "HURRIED"


class Wait(StrEnum):
    """What the operator waits for."""

    PROMISE = "promise"
    """A missed promise counts as out of reach after five minutes."""
    CHEAPER_PLACE = "cheaper-place"
    """A cheaper place is looked for once in five minutes."""
    DAYS = "days"
    """One day before after the other is asked for, each 15 s."""
    SILENCE = "silence"
    """A pod without a new sample counts as silent after a minute."""
    SERVICE = "service"
    """A queue alone counts when all replicas have served for 45 s."""
    REST = "rest"
    """A pass is made once a minute where nothing happens."""


_SHORT: Mapping[Wait, tuple[ModuleType, str, float]] = MappingProxyType(
    {
        Wait.PROMISE: (diagnose, "MISSED_SECONDS", 3.0),
        Wait.CHEAPER_PLACE: (elsewhere, "LOOK_SECONDS", 3),
        Wait.DAYS: (season_watch, "FILLING_SECONDS", 2.0),
        Wait.SILENCE: (load, "OLDEST_SAMPLE_SECONDS", 20.0),
        Wait.SERVICE: (judging, "SETTLED_SECONDS", 15.0),
        Wait.REST: (planner, "RESTING_SECONDS", 3.0),
    }
)


def environment(*waits: Wait) -> dict[str, str]:
    """Return the environment of such a process: what it hurries, and the path of this module."""
    return {"PYTHONPATH": f"{_ROOT}:{_ROOT / 'operator'}", _VARIABLE: ",".join(waits)}


def hurry() -> None:
    """Shorten the waits of this process."""
    for wait in os.environ[_VARIABLE].split(","):
        module, name, seconds = _SHORT[Wait(wait)]
        vars(module)[name] = seconds


if __name__ == "__main__":
    hurry()
    main()
