"""Whether the operator is at work: when it last looked at all objects, as its Lease says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.app.election.leadership import LAST_PASS_ANNOTATION
from plimsoll.console.views.words import age, clock
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.times import from_rfc3339

SILENT_SECONDS = 150.0
"""An operator makes a pass once a minute at least. Two that are missing, and the time that a long one takes."""


@dataclass(frozen=True, slots=True)
class OperatorSign:
    """The operator's last sign of life.

    Attributes:
        lease: the Lease that was read.
        read_at: when, in POSIX seconds.
        exists: whether there is such a Lease.
        last_pass: when its holder last made a pass, in POSIX seconds; None where the Lease does not say it.
    """

    lease: ObjectKey
    read_at: float
    exists: bool
    last_pass: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the last pass was too long ago when the Lease was read. What was not read since is not known."""
        return self.last_pass is not None and self.read_at - self.last_pass > SILENT_SECONDS

    def complaint(self, now: float) -> str:
        """Return what is wrong with the operator at this time (POSIX seconds), and what to do; empty for nothing."""
        if not self.exists:
            return (
                f"There is no sign of an operator: no Lease {self.lease} exists. Nothing is placed and no status "
                "changes until one runs. If it runs under another name, give the console --operator NAMESPACE/NAME."
            )
        if self.last_pass is None or not self.is_silent:
            return ""
        return (
            f"The operator is silent. Its last pass was {age(now - self.last_pass)} ago, {clock(self.last_pass)}, and "
            "decisions and statuses are from then. Engines that run go on without it. Look at its pods: "
            f"kubectl get pods -n {self.lease.namespace}"
        )


def sign_of(lease: ObjectKey, body: Mapping[str, Any] | None, now: float) -> OperatorSign:
    """Return the sign in a Lease; ``body`` is None where there is none.

    An operator that does not mark its passes yet counts by the time at which it renewed the Lease.
    """
    if body is None:
        return OperatorSign(lease, now, exists=False)
    marks = body["metadata"].get("annotations") or {}
    renewed = (body.get("spec") or {}).get("renewTime")
    return OperatorSign(
        lease, now, exists=True, last_pass=from_rfc3339(str(marks.get(LAST_PASS_ANNOTATION) or renewed))
    )
