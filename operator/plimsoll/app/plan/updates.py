"""Replicas with another pod template: until when they must serve before the status says that they do not come up.

Kubernetes starts them one after another, and the earlier ones serve on. A change of the spec is never undone here.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.app.plan.case import Case, seconds_allowed
from plimsoll.app.reading.objects import is_updating
from plimsoll.placement.pools import PoolState


def read_updates(case: Case, now: float) -> None:
    """Read which pools have replicas that should serve by now with their new template. ``now`` is in POSIX seconds."""
    case.updates_due = tuple(_dues(case))
    case.late_updates = frozenset(pool for pool, due in case.updates_due if now >= due)


def _dues(case: Case) -> Iterator[tuple[str, float]]:
    """Yield each pool that is being updated, and by when the oldest of its replicas without service must serve."""
    for pool in case.pools:
        if pool.state is PoolState.ACTIVE and is_updating(case.around.workloads.get(pool.name)):
            since = case.around.starting_since(pool.name)
            if since is not None:
                yield pool.name, since + seconds_allowed(case)
