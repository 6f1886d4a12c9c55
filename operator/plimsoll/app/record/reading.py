"""Reads the usable part of a status: it is our own record, but anyone with the right to write it may have changed it.

It is read once for each version of an object, entry by entry. An invalid entry is left out and named; the other entries
need no further check. Fields that a later release added are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from plimsoll.api.v1alpha1.base import LARGEST_BOUND, ApiModel
from plimsoll.api.v1alpha1.status import (
    Condition,
    DecisionStatus,
    EstimateStatus,
    InferenceDeploymentStatus,
    ModelStatus,
    ObservationStatus,
    PlacementStatus,
    PoolStatus,
    ProposalStatus,
    RebalancingStatus,
    RehomingStatus,
    RejectionStatus,
    RemedyStatus,
    SizeStatus,
    SuggestionStatus,
    TooSmallStatus,
)
from plimsoll.app.record.doubts import doubt
from plimsoll.app.record.values import history_of, pool_of, rehoming_of, seen_of
from plimsoll.domain.observations import Seen
from plimsoll.placement.pools import Pool
from plimsoll.placement.rehoming import Rehoming
from plimsoll.rebalance.history import ChangeHistory

RECORD = "record"
"""The key under which the store keeps the record, next to the status itself. It is never written anywhere."""

Body = Mapping[str, Any]
Entry = TypeVar("Entry", bound=ApiModel)


@dataclass(frozen=True, slots=True)
class Record:
    """The usable part of a status.

    ``pools``, ``rehomings``, ``observations`` and ``history`` are made from the entries of ``status`` of these names;
    observations only from those of this release. There is a complaint for each part that was left out. ``lost_pools``
    means that an entry of ``status.pools`` was left out, so there may be pools that the status does not list.
    """

    status: InferenceDeploymentStatus = field(default_factory=InferenceDeploymentStatus)
    pools: tuple[Pool, ...] = ()
    rehomings: tuple[Rehoming, ...] = ()
    observations: tuple[Seen, ...] = ()
    history: ChangeHistory = field(default_factory=ChangeHistory)
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
    pools, rehomings = reader.entries("pools", PoolStatus), reader.entries("rehomings", RehomingStatus)
    observations = reader.entries("observations", ObservationStatus)
    rebalancing = reader.part("rebalancing", RebalancingStatus)
    status = InferenceDeploymentStatus.model_construct(
        conditions=reader.entries("conditions", Condition),
        observed_generation=reader.number("observedGeneration"),
        replicas=reader.number("replicas"),
        ready_replicas=reader.number("readyReplicas"),
        replicas_summary=reader.text("replicasSummary"),
        selector=reader.text("selector"),
        url=reader.text("url"),
        model=reader.part("model", ModelStatus),
        estimate=reader.part("estimate", EstimateStatus),
        placement=reader.part("placement", PlacementStatus),
        size=reader.part("size", SizeStatus),
        pools=pools,
        rejections=reader.entries("rejections", RejectionStatus),
        rejections_omitted=reader.number("rejectionsOmitted"),
        remedies=reader.entries("remedies", RemedyStatus),
        suggestions=reader.entries("suggestions", SuggestionStatus),
        too_small=reader.entries("tooSmall", TooSmallStatus),
        observations=observations,
        rehomings=rehomings,
        proposals=reader.entries("proposals", ProposalStatus),
        decisions=reader.entries("decisions", DecisionStatus),
        rebalancing=rebalancing,
    )
    return Record(
        status,
        pools=tuple(map(pool_of, pools)),
        rehomings=tuple(place for entry in rehomings if (place := rehoming_of(entry)) is not None),
        observations=tuple(seen for entry in observations if (seen := seen_of(entry)) is not None),
        history=history_of(rebalancing),
        complaints=tuple(reader.complaints),
        lost_pools=isinstance(raw.get("pools"), list) and len(pools) < len(raw["pools"]),
    )


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
    numbers = (value for _, value in read if isinstance(value, int))
    if any(abs(number) > LARGEST_BOUND for number in numbers):
        return f"a number is beyond {LARGEST_BOUND}"
    return doubt(read) or read
