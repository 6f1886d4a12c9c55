"""The result of one pass as one value that never changes: metrics, the command line and pages are made from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from plimsoll.app.plan.rendered import Desired
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.fleet_record import FleetRecord
from plimsoll.status.record.report import Report
from plimsoll.status.severity import Judged


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fleet that one pass saw and the decisions that it made.

    ``at`` is the time of the pass in POSIX seconds. ``reports`` has one report for each InferenceDeployment, also for
    those with a fault, and ``states`` the state that its status shows. ``proposals`` are changes that were found and
    not made, each with the object it is about. ``record`` is what the plan does for all of them together.
    """

    at: float
    fleet: Fleet
    reports: Mapping[ObjectKey, Report]
    proposals: tuple[tuple[ObjectKey, Proposal], ...] = ()
    record: FleetRecord = field(default_factory=FleetRecord)
    states: Mapping[ObjectKey, Judged] = field(default_factory=lambda: MappingProxyType({}))

    def says_the_same(self, other: Snapshot) -> bool:
        """Whether only the time and the record differ: after a decision the bill before it is another one."""
        return replace(self, at=other.at, record=other.record) == other


def snapshot_of(desired: Iterable[Desired], fleet: Fleet, at: float, record: FleetRecord) -> Snapshot:
    """Return the snapshot of a pass."""
    desired = list(desired)
    reports = {each.key: each.report for each in desired if each.report is not None}
    proposals = (pair for each in desired for pair in _proposals(each.outcome))
    states = {each.key: each.judged for each in desired if each.judged is not None}
    return Snapshot(at, fleet, MappingProxyType(reports), tuple(proposals), record, states=MappingProxyType(states))


def _proposals(outcome: Outcome) -> Iterator[tuple[ObjectKey, Proposal]]:
    yield from ((outcome.key, each) for each in outcome.besides.proposals)
    turn = outcome.turn
    if turn is not None and turn.proposal is not None and not turn.acted:
        yield outcome.key, turn.proposal
