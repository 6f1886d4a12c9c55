"""The result of one pass as one value that never changes: metrics, the command line and pages are made from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from plimsoll.app.plan.case import Case
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.proposals import Proposal
from plimsoll.placement.fleet_record import FleetRecord
from plimsoll.status.report import Report


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fleet that one pass saw and the decisions that it made.

    ``at`` is the time of the pass in POSIX seconds. ``reports`` has one report for each InferenceDeployment, also for
    those with a fault. ``proposals`` are changes that were found and not made, each with the object it is about.
    ``record`` is what the plan does for all of them together.
    """

    at: float
    fleet: Fleet
    reports: Mapping[ObjectKey, Report]
    proposals: tuple[tuple[ObjectKey, Proposal], ...] = ()
    record: FleetRecord = field(default_factory=FleetRecord)

    def says_the_same(self, other: Snapshot) -> bool:
        """Whether only the time and the record differ: after a decision the bill before it is another one."""
        return _content(self) == _content(other)


def _content(snapshot: Snapshot) -> tuple[object, ...]:
    return snapshot.fleet, snapshot.reports, snapshot.proposals


def snapshot_of(cases: Iterable[Case], fleet: Fleet, at: float, record: FleetRecord) -> Snapshot:
    """Return the snapshot of a pass whose cases are rendered. Later changes of the cases do not change it."""
    cases = list(cases)
    reports = {case.key: case.report for case in cases if case.report is not None}
    return Snapshot(at, fleet, MappingProxyType(reports), tuple(_proposals(cases)), record)


def _proposals(cases: Iterable[Case]) -> Iterator[tuple[ObjectKey, Proposal]]:
    for case in cases:
        yield from ((case.key, each) for each in case.proposals)
        if case.turn is not None and case.turn.proposal is not None and not case.turn.acted:
            yield case.key, case.turn.proposal
