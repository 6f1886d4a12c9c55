"""Reads the usable part of a status: it is our own record, but anyone with the right to write it may have changed it.

It is read once for each version of an object, entry by entry. An invalid entry is left out and named; the other entries
need no further check. Fields that a later release added are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from plimsoll.api.v1alpha1.base import LARGEST_BOUND, ApiModel
from plimsoll.api.v1alpha1.status import (
    Condition,
    DecisionStatus,
    EstimateStatus,
    FailedMoveStatus,
    ImagePlatformsStatus,
    InferenceDeploymentStatus,
    ModelStatus,
    MoveStatus,
    ObservationStatus,
    PlacementStatus,
    PoolStatus,
    ProposalStatus,
    RebalancingStatus,
    RehomingStatus,
    RejectionStatus,
    RemedyStatus,
    RetuneStatus,
    SizeStatus,
    SuggestionStatus,
    TooSmallStatus,
)
from plimsoll.domain.observations import Seen
from plimsoll.placement.failed_moves import FailedMove
from plimsoll.placement.move_clock import MoveClock
from plimsoll.placement.pools import Pool
from plimsoll.placement.rehoming import Rehoming
from plimsoll.placement.retune_clock import RetuneClock
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.memory import Learned
from plimsoll.status.doubts import doubt
from plimsoll.status.values import (
    failed_of,
    history_of,
    learned_of,
    move_of,
    pool_of,
    rehoming_of,
    retune_of,
    seen_of,
)

RECORD = "plimsoll.dev/record"
"""The key under which the store keeps the record, next to the status itself. It is never written anywhere."""

Body = Mapping[str, Any]
Entry = TypeVar("Entry", bound=ApiModel)


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
    reader = _Reader(raw, [])
    parts = {name: read_part(reader) for name, read_part in _PARTS.items()}
    placement: PlacementStatus | None = parts["placement"]
    failed = tuple(each for entry in parts["failed_moves"] if (each := failed_of(entry)) is not None)
    return Record(
        raw,
        InferenceDeploymentStatus.model_construct(**{name: parts[name] for name in _DECIDED_FROM}),
        pools=tuple(map(pool_of, parts["pools"])),
        rehomings=tuple(place for entry in parts["rehomings"] if (place := rehoming_of(entry)) is not None),
        observations=tuple(seen for entry in parts["observations"] if (seen := seen_of(entry)) is not None),
        move=move_of(parts["move"]),
        retune=retune_of(parts["retune"]),
        failed_moves=failed,
        history=history_of(parts["rebalancing"], failed),
        learned=learned_of(parts["rebalancing"]),
        max_sequences=None if placement is None else placement.engine.max_num_seqs,
        complaints=tuple(reader.complaints),
        lost_pools=isinstance(raw.get("pools"), list) and len(parts["pools"]) < len(raw["pools"]),
    )


def shown_parts(record: Record, names: Iterable[str] = tuple(InferenceDeploymentStatus.model_fields)) -> dict[str, Any]:
    """Return the usable parts of the status with these names (of the model's fields), read anew."""
    reader = _Reader(record.raw, [])
    return {name: _PARTS[name](reader) for name in names}


def whole_status(record: Record) -> InferenceDeploymentStatus:
    """Return every usable part of the status."""
    return InferenceDeploymentStatus.model_construct(**shown_parts(record))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one part after the other. Numbers and texts are shown, not used to decide: a wrong one is just left out."""

    raw: Body
    complaints: list[str]

    def number(self, name: str) -> int | None:
        value = self.raw.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, name: str) -> str | None:
        value = self.raw.get(name)
        return value if isinstance(value, str) else None

    def part(self, name: str, model: type[Entry]) -> Entry | None:
        if self.raw.get(name) is None:
            return None
        read = _read(self.raw[name], model)
        if isinstance(read, str):
            self.complaints.append(f"status.{name} is ignored: {read}")
            return None
        return read

    def entries(self, name: str, model: type[Entry]) -> list[Entry]:
        raw = self.raw.get(name)
        if raw is not None and not isinstance(raw, list):
            self.complaints.append(f"status.{name} is ignored: it is no list")
            return []
        kept: list[Entry] = []
        for index, entry in enumerate(raw or ()):
            read = _read(entry, model)
            if not isinstance(read, str) and isinstance(read, PoolStatus) and _is_taken(read, kept):
                read = "another entry has the same name"
            if isinstance(read, str):
                self.complaints.append(f"status.{name}[{index}] is ignored: {read}")
            else:
                kept.append(read)
        return kept


def _is_taken(pool: PoolStatus, kept: Iterable[ApiModel]) -> bool:
    return any(isinstance(each, PoolStatus) and each.name == pool.name for each in kept)


def _read(entry: Any, model: type[Entry]) -> Entry | str:
    """The entry, or the reason why it is unusable; fields that a later release may have added are ignored."""
    if not isinstance(entry, Mapping):
        return "it is no mapping"
    try:
        read = model.model_validate(entry, strict=True, extra="ignore", by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    numbers = (value for value in vars(read).values() if isinstance(value, int))
    if any(abs(number) > LARGEST_BOUND for number in numbers):
        return f"a number is beyond {LARGEST_BOUND}"
    return doubt(read) or read


_PARTS: Mapping[str, Callable[[_Reader], Any]] = {
    "conditions": lambda reader: reader.entries("conditions", Condition),
    "observed_generation": lambda reader: reader.number("observedGeneration"),
    "replicas": lambda reader: reader.number("replicas"),
    "ready_replicas": lambda reader: reader.number("readyReplicas"),
    "replicas_summary": lambda reader: reader.text("replicasSummary"),
    "selector": lambda reader: reader.text("selector"),
    "url": lambda reader: reader.text("url"),
    "model": lambda reader: reader.part("model", ModelStatus),
    "estimate": lambda reader: reader.part("estimate", EstimateStatus),
    "placement": lambda reader: reader.part("placement", PlacementStatus),
    "image_platforms": lambda reader: reader.part("imagePlatforms", ImagePlatformsStatus),
    "size": lambda reader: reader.part("size", SizeStatus),
    "pools": lambda reader: reader.entries("pools", PoolStatus),
    "rejections": lambda reader: reader.entries("rejections", RejectionStatus),
    "rejections_omitted": lambda reader: reader.number("rejectionsOmitted"),
    "remedies": lambda reader: reader.entries("remedies", RemedyStatus),
    "suggestions": lambda reader: reader.entries("suggestions", SuggestionStatus),
    "too_small": lambda reader: reader.entries("tooSmall", TooSmallStatus),
    "observations": lambda reader: reader.entries("observations", ObservationStatus),
    "rehomings": lambda reader: reader.entries("rehomings", RehomingStatus),
    "move": lambda reader: reader.part("move", MoveStatus),
    "retune": lambda reader: reader.part("retune", RetuneStatus),
    "failed_moves": lambda reader: reader.entries("failedMoves", FailedMoveStatus),
    "proposals": lambda reader: reader.entries("proposals", ProposalStatus),
    "decisions": lambda reader: reader.entries("decisions", DecisionStatus),
    "rebalancing": lambda reader: reader.part("rebalancing", RebalancingStatus),
}
"""How each field of the status is read, in the order of the complaints."""

_DECIDED_FROM = (
    "conditions",
    "observed_generation",
    "ready_replicas",
    "replicas",
    "image_platforms",
    "size",
    "pools",
    "too_small",
    "decisions",
    "rebalancing",
)
"""The parts that a pass reads for every object."""
