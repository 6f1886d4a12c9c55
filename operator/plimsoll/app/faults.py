"""Exceptions by object: the step that raised, and the time of the next try.

A fault is a defect of ours, or invalid input that passed every check. The object is left unchanged and its status
reports the fault; all other objects continue in the same pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from plimsoll.app.backoff import Backoff
from plimsoll.decision.supervisor import PassStep, error_words, fault_problem
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.record.report import DeploymentProblem

logger = logging.getLogger("plimsoll.faults")


@dataclass(frozen=True, slots=True)
class ObjectFault:
    """The latest exception of one object."""

    step: PassStep
    generation: int
    error: str

    def problem(self) -> DeploymentProblem:
        """The problem that the object's conditions report."""
        return fault_problem(self.step, self.error)


@dataclass(slots=True)
class Faults:
    """Faults by object uid.

    Args:
        count: called with the step for every exception, for the metric.
    """

    count: Callable[[str], None]
    backoff: Backoff = field(default_factory=Backoff)
    _by_uid: dict[str, ObjectFault] = field(default_factory=dict)

    def standing(self, uid: str, generation: int) -> ObjectFault | None:
        """The fault that blocks an object now; None if there is none, or if a retry is due."""
        fault = self._by_uid.get(uid)
        if fault is None or fault.generation != generation or self.backoff.is_due(uid):
            return None
        return fault

    def latest(self, uid: str, generation: int) -> ObjectFault | None:
        """The fault of this generation, due or not, until a whole round succeeds."""
        fault = self._by_uid.get(uid)
        return fault if fault is not None and fault.generation == generation else None

    def note(self, key: ObjectKey, uid: str, generation: int, step: PassStep, error: BaseException) -> ObjectFault:
        """Remember an exception; the traceback goes into the log when it is new."""
        fault = ObjectFault(step, generation, error_words(error))
        is_new = self._by_uid.get(uid) != fault
        self._by_uid[uid] = fault
        pause = self.backoff.failed(uid)
        self.count(step.value)
        logger.error(
            "%s: %s (%s); again in %.0f s", key, step.value, fault.error, pause, exc_info=error if is_new else None
        )
        return fault

    def cleared(self, uid: str) -> None:
        """Forget the fault of an object after a whole round has succeeded."""
        if self._by_uid.pop(uid, None) is not None:
            self.backoff.succeeded(uid)

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Forget the faults of objects that no longer exist."""
        kept = set(uids)
        for uid in [uid for uid in self._by_uid if uid not in kept]:
            self.cleared(uid)

    def next_due_in_seconds(self) -> float | None:
        """Seconds until the next retry; None if there is none."""
        return self.backoff.next_due_in_seconds(self._by_uid)
