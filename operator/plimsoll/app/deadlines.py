"""When does an object change by the clock alone? A pass is made then, and not every few seconds in case."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.app.case import Case

PASSING_SECONDS = 5.0
"""How soon a promise to pods that are refused is looked at again: it ends by the clock."""

_SLACK_SECONDS = 0.2
"""Just after the moment: at the moment itself "older than" is not yet true."""


def deadlines_of(case: Case, stranded_seconds: float, now: float) -> Iterator[float]:
    """Moments (POSIX seconds) at which this object is to be looked at again, past ones included."""
    if any(pool.refused and not pool.promise_over for pool in case.pools):
        yield now + PASSING_SECONDS
    for pods in case.around.pods.values():
        for pod in pods:
            if pod.unscheduled_since is not None:
                yield pod.unscheduled_since + stranded_seconds + _SLACK_SECONDS
