"""Contests: others keep changing the number of replicas of our Deployment. Who, how often, and when we change it back.

The first change is undone at once. Repeated changes (by an autoscaler or a script) are undone after growing pauses:
every change back costs the cluster pods that are created and deleted again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plimsoll.decision.deployment import Contest

FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 300.0
REMEMBERED_SECONDS = 600.0
"""A contest ends when the number has not been changed for this long."""

SAID_SECONDS = 30.0
"""How long the status reports a contest after its last sign. The pauses are remembered longer."""

NAMED_FROM = 2
"""From this number of changes the status names who makes them: a single change may be a mistake."""


@dataclass(slots=True)
class Contests:
    """Contests by the Deployment's uid. Those that have ended are forgotten after some time."""

    _by_uid: dict[str, Contest] = field(default_factory=dict)

    def noticed(self, live: Mapping[str, Any], theirs: int) -> Contest:
        """Note that a Deployment has another number than was last written. The result says when to change it back."""
        head, now = live["metadata"], time.monotonic()
        before = self._by_uid.get(head["uid"])
        if before is not None and before.answer_at > now:
            self._by_uid[head["uid"]] = replace(before, last_at=now, wanted_by_them=theirs)
            return before
        if before is not None and now - before.last_at > REMEMBERED_SECONDS:
            before = None
        count = 1 if before is None else before.count + 1
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (count - 1))
        contest = Contest(f"{head.get('namespace')}/{head['name']}", changed_by(live), count, theirs, now, now)
        self._by_uid[head["uid"]] = replace(contest, answer_at=now + pause)
        return contest

    def next_due_in_seconds(self) -> float | None:
        """Seconds until the next change back, or until a contest leaves the status; None if neither is to come."""
        now = time.monotonic()
        moments = [at for each in self._by_uid.values() for at in (each.answer_at, each.last_at + SAID_SECONDS + 0.1)]
        return min((at - now for at in moments if at > now), default=None)

    def of(self, uid: str) -> Contest | None:
        """The contest of a Deployment, if the status still reports it."""
        contest = self._by_uid.get(uid)
        if contest is None:
            return None
        silent = time.monotonic() - contest.last_at
        if silent > REMEMBERED_SECONDS:
            self._by_uid.pop(uid, None)
        return contest if silent <= SAID_SECONDS and contest.count >= NAMED_FROM else None


def changed_by(live: Mapping[str, Any]) -> str:
    """The field managers, other than ours, that own the number of replicas; see ``pruning.workload``."""
    managers = live.get(REPLICAS_MANAGERS) or ()
    return ", ".join(managers) if managers else "somebody"


REPLICAS_MANAGERS = "plimsollReplicasManagers"
"""Key under which the store keeps the names of a Deployment's managers of spec.replicas: managedFields are large."""
