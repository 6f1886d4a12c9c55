"""Parts of a cluster that a person cannot see now, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GapKind(StrEnum):
    """Why a kind of objects is missing."""

    FORBIDDEN = "Forbidden"
    """The person may not list it."""
    UNREACHABLE = "Unreachable"
    """The API server does not answer: the last state is shown with its age."""
    ABSENT = "Absent"
    """The cluster does not have the kind."""
    LOADING = "Loading"
    """It is read for the first time."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A kind that is missing or old. ``namespace`` is empty for the whole cluster. ``since`` is in POSIX seconds."""

    kind: str
    reason: GapKind
    since: float
    namespace: str = ""
    message: str = ""
    group: str = ""

    @property
    def sentence(self) -> str:
        """The gap in one sentence, with the missing right where one is missing."""
        where = f"in the namespace {self.namespace}" if self.namespace else "in all namespaces"
        resource = f"{self.kind}.{self.group}" if self.group else self.kind
        match self.reason:
            case GapKind.FORBIDDEN:
                return f"You may not list {resource} {where}. Ask for the verbs list and watch on {resource}."
            case GapKind.ABSENT:
                return f"The cluster has no {resource}. Install or upgrade Plimsoll's chart with its CRDs."
            case GapKind.LOADING:
                return f"The {resource} are being read."
            case GapKind.UNREACHABLE:
                return f"The API server does not answer for {resource}: this is their last state."
