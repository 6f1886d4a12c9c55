"""Everything that one person may see of a cluster at one moment. It never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from plimsoll.console.views.gaps import Gap, GapKind
from plimsoll.console.views.operator_sign import OperatorSign
from plimsoll.console.views.pods import PodRow
from plimsoll.console.views.rows import Row
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """A person's view of a cluster.

    Attributes:
        revision: grows with every change.
        heard: when the API server last answered, in POSIX seconds; 0 before its first answer.
        rows: the InferenceDeployments in short.
        pods: pods that hold GPUs, and our own.
        fleet: the GPU nodes; None where the person may not list nodes, or where they have not been read yet.
        proposals: the PlacementProposals.
        gaps: what is missing or old.
        namespaces: the namespaces that are shown; empty for all.
        operator: the operator's last sign of life; None where the person may not read its Lease.
    """

    revision: int = 0
    heard: float = 0.0
    rows: Mapping[ObjectKey, Row] = field(default_factory=lambda: MappingProxyType({}))
    pods: tuple[PodRow, ...] = ()
    fleet: Fleet | None = None
    proposals: tuple[Body, ...] = ()
    gaps: tuple[Gap, ...] = ()
    namespaces: tuple[str, ...] = ()
    operator: OperatorSign | None = None

    @property
    def is_loading(self) -> bool:
        """Whether something is read for the first time."""
        return any(gap.reason is GapKind.LOADING for gap in self.gaps)

    @property
    def is_stale(self) -> bool:
        """Whether the API server does not answer for some kind."""
        return any(gap.reason is GapKind.UNREACHABLE for gap in self.gaps)

    def gap_of(self, kind: str) -> Gap | None:
        """Return the first gap of a kind of objects, by its plural."""
        return next((gap for gap in self.gaps if gap.kind == kind), None)
