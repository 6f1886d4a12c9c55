"""The operator with shorter waits: ``python -m tests.support.hurried_operator``.

A missed promise counts as out of reach after five minutes, and a cheaper place is looked for once in five minutes. Both
are seconds here. Everything else is as it is.
"""

from __future__ import annotations

from plimsoll.cli.main import main
from plimsoll.rebalance import diagnose, elsewhere

MISSED_SECONDS = 3.0
LOOK_SECONDS = 3


def hurry() -> None:
    """Shorten the waits of this process."""
    vars(diagnose)["MISSED_SECONDS"] = MISSED_SECONDS
    vars(elsewhere)["LOOK_SECONDS"] = LOOK_SECONDS


if __name__ == "__main__":
    hurry()
    main()
