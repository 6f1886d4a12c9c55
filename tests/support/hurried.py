"""A command of ours with shorter waits: ``python -m tests.support.hurried run``.

``HURRIED`` names the waits that last seconds here. Everything else is as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from plimsoll.cli.main import main

MODULE = "tests.support.hurried"
_ROOT = Path(__file__).resolve().parents[2]
_VARIABLE = "HURRIED"


class Wait(StrEnum):
    """What the operator and the console wait for."""

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
    SLOWNESS = "slowness"
    """A replica is slow for two minutes before anything is done about it."""
    MINUTE_EARLY = "minute-early"
    """The replicas of a schedule are started a minute earlier than their start-up alone asks for."""
    PROOF = "proof"
    """A new replica serves for a minute before the one that it replaces ends."""
    PAUSE = "pause"
    """After additions in vain the next one is tried after half an hour."""
    TRY = "try"
    """One replica that does not serve goes on for half an hour."""
    PATIENCE = "patience"
    """A replica of which nothing is said may start for a quarter of an hour."""
    REST = "rest"
    """A pass is made once a minute where nothing happens."""
    FIGURE = "figure"
    """A figure on a page of the console counts as stale after a minute."""
    NEIGHBOUR = "neighbour"
    """A neighbour that does not answer is left alone for half a minute."""
    HEARTBEAT = "pulse"
    """The console reads the operator's sign of life each 15 s."""


SHORT: Mapping[Wait, tuple[str, str, float]] = MappingProxyType(
    {
        Wait.PROMISE: ("plimsoll.rebalance.diagnosis.diagnose", "MISSED_SECONDS", 3.0),
        Wait.CHEAPER_PLACE: ("plimsoll.rebalance.places.elsewhere", "LOOK_SECONDS", 3),
        Wait.DAYS: ("plimsoll.app.live.season_watch", "FILLING_SECONDS", 2.0),
        Wait.SILENCE: ("plimsoll.rebalance.signals.load", "OLDEST_SAMPLE_SECONDS", 20.0),
        Wait.SERVICE: ("plimsoll.rebalance.diagnosis.judging", "SETTLED_SECONDS", 15.0),
        Wait.SLOWNESS: ("plimsoll.rebalance.diagnosis.replicas", "SLOW_SECONDS", 15.0),
        Wait.MINUTE_EARLY: ("plimsoll.rebalance.state.policy", "READY_EARLY_SECONDS", 30.0),
        Wait.PROOF: ("plimsoll.rebalance.state.replacement", "PROVEN_SECONDS", 10.0),
        Wait.PAUSE: ("plimsoll.rebalance.state.additions", "FIRST_PAUSE_SECONDS", 60.0),
        Wait.TRY: ("plimsoll.rebalance.state.additions", "TRY_SECONDS", 30.0),
        Wait.PATIENCE: ("plimsoll.rebalance.state.additions", "PATIENT_SECONDS", 120.0),
        Wait.REST: ("plimsoll.app.planner", "RESTING_SECONDS", 3.0),
        Wait.FIGURE: ("plimsoll.console.views.load.live_use", "STALE_SECONDS", 12.0),
        Wait.NEIGHBOUR: ("plimsoll.adapters.hub.circuit_breaker", "FIRST_PAUSE_SECONDS", 3.0),
        Wait.HEARTBEAT: ("plimsoll.console.sources.reader", "PAUSE_SECONDS", 2.0),
    }
)

CONSOLE = (Wait.FIGURE, Wait.NEIGHBOUR, Wait.HEARTBEAT)
"""What the console waits for."""


def environment(*waits: Wait) -> dict[str, str]:
    """Return the environment of such a process: what it hurries, and the path of this module."""
    return {"PYTHONPATH": f"{_ROOT}:{_ROOT / 'operator'}", _VARIABLE: ",".join(waits)}


def hurry() -> None:
    """Shorten the waits of this process."""
    for wait in os.environ[_VARIABLE].split(","):
        module, name, seconds = SHORT[Wait(wait)]
        found = vars(import_module(module))
        if name not in found:
            raise AttributeError(f"{module} has no {name} any more")
        found[name] = seconds


if __name__ == "__main__":
    hurry()
    main()
