"""Reads the usable part of a status: it is our own record, but anyone with the right to write it may have changed it.

It is read once for each version of an object, entry by entry. An invalid entry is left out and named; the other entries
need no further check. Fields that a later release added are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from plimsoll import __version__
from plimsoll.api.v1alpha1.status import (
    Condition,
    InferenceDeploymentStatus,
)
from plimsoll.domain.decisions.observations import Seen
from plimsoll.placement.demands.clocks import MoveClock, RetuneClock
from plimsoll.placement.demands.failed_moves import FailedMove
from plimsoll.placement.demands.pools import Pool
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import Learned
from plimsoll.rebalance.state.replacement import Replacement
from plimsoll.rebalance.state.room import RoomOrder
from plimsoll.status.record.acknowledged import ACKNOWLEDGED
from plimsoll.status.record.decisions import SIZE
from plimsoll.status.record.forms import BEYOND, Form, Unusable, is_beyond
from plimsoll.status.record.loop import REBALANCING
from plimsoll.status.record.observations import SEEN
from plimsoll.status.record.places import FAILED_MOVE, MOVE, POOL, REHOMING, RETUNE, TOO_SMALL

RECORD = "plimsoll.dev/record"
"""The key under which the store keeps the record, next to the status itself. It is never written anywhere."""

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """The usable part of a status.

    ``status`` has the parts that decisions are made from. The other parts are only shown, and they are most of a
    status: :func:`shown_parts` reads them again when they are needed. ``pools``, ``rehomings``, ``move``,
    ``retune``, ``failed_moves``, ``observations`` and ``history`` are made from the entries of these names;
    observations only from those of this release.
    ``max_sequences`` is the engine's most requests at the same time, as the placement shows it. There is a complaint
    for each part that was left out. ``lost_pools`` means that an entry of ``status.pools`` was left out, so that there
    may be pools that the status does not list.
    """

    raw: Body = field(default_factory=dict, compare=False, repr=False)
    status: InferenceDeploymentStatus = field(default_factory=InferenceDeploymentStatus)
    pools: tuple[Pool, ...] = ()
    rehomings: tuple[Rehoming, ...] = ()
    move: MoveClock | None = None
    retune: RetuneClock | None = None
    failed_moves: tuple[FailedMove, ...] = ()
    observations: tuple[Seen, ...] = ()
    history: ChangeHistory = field(default_factory=ChangeHistory)
    learned: Learned | None = None
    replacing: Replacement | None = None
    room: RoomOrder | None = None
    max_sequences: int | None = None
    complaints: tuple[str, ...] = ()
    lost_pools: bool = False

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type."""
        return next((each for each in self.status.conditions or () if each.type == kind), None)


def record_of(body: Body) -> Record:
    """Return the record that was read when the object came in, or read it now."""
    known = body.get(RECORD)
    return known if isinstance(known, Record) else read(body.get("status"))


def with_status(body: Body, status: Body) -> Body:
    """Return the object as it is after this status is written."""
    return {**body, "status": status, RECORD: read(status)}


def read(raw: Any) -> Record:
    """Read any JSON as a status."""
    if raw is None:
        return Record()
    if not isinstance(raw, Mapping):
        return Record(complaints=("status is ignored: it is no mapping",))
    complaints: list[str] = []
    parts = {name: part.read(raw, complaints) for name, part in _PARTS.items()}
    values = {name: value for name, (_, value) in parts.items()}
    loop, placement, failed = values["rebalancing"], parts["placement"][0], values["failed_moves"]
    return Record(
        raw,
        InferenceDeploymentStatus.model_construct(**{name: parts[name][0] for name in _DECIDED_FROM}),
        **{name: values[name] for name in ("pools", "rehomings", "move", "retune", "failed_moves", "observations")},
        history=_history(() if loop is None else loop.changes, failed),
        learned=None if loop is None else loop.learned,
        replacing=None if loop is None else loop.replacing,
        room=None if loop is None else loop.room,
        max_sequences=None if placement is None else placement.engine.max_num_seqs,
        complaints=tuple(complaints),
        lost_pools=isinstance(raw.get("pools"), list) and len(values["pools"]) < len(raw["pools"]),
    )


def _history(changes: tuple[ChangeRecord, ...], failed: Iterable[FailedMove]) -> ChangeHistory:
    """The past changes of the live loop.

    A move is taken back even if the live loop has no turn. Such a change is added if it is newer than all others.
    """
    newer = (each for each in failed if all(each.at > mark.at for mark in changes))
    taken_back = [ChangeRecord(each.at, ChangeKind.ROLL_BACK, each.delay.reason) for each in newer]
    return ChangeHistory((*changes, *sorted(taken_back, key=lambda mark: mark.at)))


def shown_parts(record: Record, names: Iterable[str] = tuple(InferenceDeploymentStatus.model_fields)) -> dict[str, Any]:
    """Return the usable parts of the status with these names (of the model's fields).

    Those that no decision is made from are read anew.
    """
    return {
        name: getattr(record.status, name) if name in _DECIDED_FROM else _PARTS[name].read(record.raw, [])[0]
        for name in names
    }


def whole_status(record: Record) -> InferenceDeploymentStatus:
    """Return every usable part of the status."""
    return InferenceDeploymentStatus.model_construct(**shown_parts(record))


_FORMS: Mapping[str, Form[Any]] = {
    "size": SIZE,
    "pools": POOL,
    "too_small": TOO_SMALL,
    "observations": SEEN,
    "rehomings": REHOMING,
    "move": MOVE,
    "retune": RETUNE,
    "failed_moves": FAILED_MOVE,
    "rebalancing": REBALANCING,
    "acknowledged": ACKNOWLEDGED,
}
"""The parts that values are made of. All others are shown as they are. An observation of another release is shown only:
that release predicted with another memory law."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A field of the status: its name in JSON, its type or that of its entries, and what makes values of them."""

    name: str
    kind: type[Any]
    is_list: bool
    form: Form[Any] | None

    def read(self, status: Body, complaints: list[str]) -> tuple[Any, Any]:
        """The field as it is shown, and the value or the values that decisions are made from.

        Numbers and texts are shown, not used to decide: a wrong one is just left out.
        """
        raw = status.get(self.name)
        if self.kind in (int, str):
            return (raw if type(raw) is self.kind else None), None
        if self.is_list and raw is not None and not isinstance(raw, list):
            complaints.append(f"status.{self.name} is ignored: it is no list")
            raw = None
        if raw is None:
            return ([], ()) if self.is_list else (None, None)
        found: list[tuple[Any, Any]] = []
        for index, each in enumerate(raw if self.is_list else (raw,)):
            try:
                found.append(self._entry(each, found))
            except Unusable as error:
                place = f"{self.name}[{index}]" if self.is_list else self.name
                complaints.append(f"status.{place} is ignored: {error}")
        if not self.is_list:
            return found[0] if found else (None, None)
        return [entry for entry, _ in found], tuple(value for _, value in found if value is not None)

    def _entry(self, raw: Any, earlier: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
        """An entry after ``earlier`` ones, and its value. Fields that a later release may have added are ignored.

        Raises:
            Unusable: the reason why it is unusable.
        """
        if not isinstance(raw, Mapping):
            raise Unusable("it is no mapping")
        try:
            entry = self.kind.model_validate(raw, strict=True, extra="ignore", by_alias=True, by_name=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise Unusable(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error
        if is_beyond(entry):
            raise Unusable(BEYOND)
        is_foreign = self.form is SEEN and entry.release != __version__
        value = None if self.form is None or is_foreign else self.form.read(entry)
        if self.form is POOL and any(entry.name == other.name for other, _ in earlier):
            raise Unusable("another entry has the same name")
        return entry, value


def _part(name: str) -> _Part:
    described = InferenceDeploymentStatus.model_fields[name]
    (kind,) = (each for each in get_args(described.annotation) if each is not NoneType)
    is_list = get_origin(kind) is list
    return _Part(described.alias or name, get_args(kind)[0] if is_list else kind, is_list, _FORMS.get(name))


_PARTS: Mapping[str, _Part] = {name: _part(name) for name in InferenceDeploymentStatus.model_fields}
"""The fields of the status in the order of the complaints."""

_DECIDED_FROM = (
    "conditions",
    "observed_generation",
    "ready_replicas",
    "replicas",
    "image_platforms",
    "size",
    "engine",
    "pools",
    "too_small",
    "decisions",
    "rebalancing",
    "acknowledged",
)
"""The parts that a pass reads for every object."""
