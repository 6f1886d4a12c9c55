"""The console with shorter waits: ``python -m tests.support.hurried_console``.

A figure counts as stale after a minute, a Prometheus that does not answer is left alone for half a minute, and the
operator's sign of life is read each 15 s. All three are seconds here. Everything else is as it is.
"""

from __future__ import annotations

from plimsoll.adapters import circuit_breaker
from plimsoll.cli.main import main
from plimsoll.console.sources import pulse
from plimsoll.console.views import live_use

MODULE = "tests.support.hurried_console"
STALE_SECONDS = 12.0
FIRST_PAUSE_SECONDS = 3.0
PULSE_SECONDS = 2.0


def hurry() -> None:
    """Shorten the waits of this process."""
    vars(live_use)["STALE_SECONDS"] = STALE_SECONDS
    vars(circuit_breaker)["FIRST_PAUSE_SECONDS"] = FIRST_PAUSE_SECONDS
    vars(pulse)["PAUSE_SECONDS"] = PULSE_SECONDS


if __name__ == "__main__":
    hurry()
    main()
