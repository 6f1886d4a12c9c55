"""Reads the usable part of a status: it is our own record, but anyone with the right to write it may have changed it.

It is read once for each version of an object, entry by entry. An invalid entry is left out and named; the other entries
need no further check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from plimsoll.api.v1alpha1.base import LARGEST_BOUND, ApiModel
from plimsoll.api.v1alpha1.status import (
    CeilingStatus,
    Condition,
    ObservationStatus,
    PoolStatus,
    RebalancingStatus,
    RehomingStatus,
    RejectionStatus,
    RemedyStatus,
    TooSmallStatus,
)
from plimsoll.domain.outcomes import Split, Target
from plimsoll.domain.times import from_rfc3339
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource
from plimsoll.placement.pools import pool_name

READ_STATUS = "readStatus"
"""The key under which the store keeps the read status, next to the status itself. It is never written anywhere."""

MOST_REPLICAS = 1000
"""The most replicas of one pool: we never decide on more."""

MOST_GPUS = 64
"""The limit for the GPUs of one replica: it is more than any node has."""

Body = Mapping[str, Any]
Doubt = Callable[[Body], str]
"""Returns what is wrong with an entry that has the right types; empty if nothing is wrong."""


@dataclass(frozen=True, slots=True)
class ReadStatus:
    """The usable part of a status, and a complaint for each part that was left out.

    ``lost_pools`` means that an entry of ``status.pools`` was left out, so there may be pools that the status does not
    list.
    """

    status: Body = field(default_factory=dict)
    complaints: tuple[str, ...] = ()
    lost_pools: bool = False


def status_of(body: Body) -> ReadStatus:
    """Return the status that was read when the object came in, or read it now."""
    known = body.get(READ_STATUS)
    return known if isinstance(known, ReadStatus) else read_status(body.get("status"))


def with_status(body: Body, status: Mapping[str, Any]) -> Body:
    """Return the object as it is after this status is written."""
    return {**body, "status": status, READ_STATUS: read_status(status)}


def read_status(raw: Any) -> ReadStatus:
    """Read any JSON as a status."""
    if raw is None:
        return ReadStatus()
    if not isinstance(raw, Mapping):
        return ReadStatus({}, ("status is ignored: it is no mapping",))
    complaints: list[str] = []
    usable: dict[str, Any] = {name: value for name, value in raw.items() if _is_plain(name, value)}
    for name, model, doubt in _LISTS:
        if raw.get(name) is not None:
            usable[name] = _entries(name, raw[name], model, doubt, complaints)
    if raw.get("rebalancing") is not None:
        usable |= _rebalancing(raw["rebalancing"], complaints)
    pools = usable.get("pools", [])
    lost = isinstance(raw.get("pools"), list) and len(pools) < len(raw["pools"])
    return ReadStatus(usable, tuple(complaints), lost)


def split_of(entry: Body) -> Split:
    """The split in an entry of a status or in a workload's record. One stage if it names none."""
    return Split(entry["tensorParallel"], entry.get("pipelineParallel", 1))


def target_of(entry: Body) -> Target:
    """The target that an entry of a status, or a workload's record, names. Both were checked when they were read."""
    ((key, value),) = entry["nodeSelector"].items()
    return Target(entry["gpuType"], split_of(entry), (key, value), entry["resource"])


def split_doubt(entry: Body) -> str:
    """The error in the split of an entry or record; empty if there is none."""
    parts = {name: entry.get(name, 1) for name in ("tensorParallel", "pipelineParallel")}
    for name, value in parts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return f"{name} {value!r} is no number of GPUs"
    gpus = parts["tensorParallel"] * parts["pipelineParallel"]
    return f"a replica of {gpus} GPUs is larger than any node" if gpus > MOST_GPUS else ""


def place_doubt(entry: Body) -> str:
    """The error in the place of a pool: in its split, its selector or its resource; empty if there is none."""
    selector, resource = entry.get("nodeSelector"), entry.get("resource")
    if (
        not isinstance(selector, Mapping)
        or len(selector) != 1
        or not all(map(_is_word, (*selector, *selector.values())))
    ):
        return f"nodeSelector {selector!r} is not one label"
    if not isinstance(resource, str) or not is_gpu_resource(resource):
        return f"resource {resource!r} is none of GPUs"
    return split_doubt(entry)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _pool_doubt(entry: Body) -> str:
    if not 0 <= entry["replicas"] <= MOST_REPLICAS:
        return f"replicas {entry['replicas']} is not between 0 and {MOST_REPLICAS}"
    if entry["generation"] < 0:
        return f"generation {entry['generation']} is negative"
    if entry.get("batchedTokens") is not None and entry["batchedTokens"] < 1:
        return f"batchedTokens {entry['batchedTokens']} is less than 1"
    doubt = place_doubt(entry)
    if doubt:
        return doubt
    name = pool_name(entry["gpuType"], split_of(entry))
    return "" if entry["name"] == name else f"its name is not {name}, which GPU type and split give"


def _observation_doubt(entry: Body) -> str:
    if entry["batchedTokens"] < 1 or entry["maxSequences"] < 1:
        return "batchedTokens and maxSequences must be 1 at least"
    return split_doubt(entry)


def _rehoming_doubt(entry: Body) -> str:
    return split_doubt(entry) or ("" if from_rfc3339(entry["at"]) is not None else f"at {entry['at']!r} is no time")


def _no_doubt(_: Body) -> str:
    return ""


_LISTS: tuple[tuple[str, type[ApiModel], Doubt], ...] = (
    ("conditions", Condition, _no_doubt),
    ("pools", PoolStatus, _pool_doubt),
    ("tooSmall", TooSmallStatus, split_doubt),
    ("observations", ObservationStatus, _observation_doubt),
    ("rehomings", RehomingStatus, _rehoming_doubt),
    ("rejections", RejectionStatus, _no_doubt),
    ("remedies", RemedyStatus, _no_doubt),
)

_MAPPINGS = ("model", "estimate", "placement")
_NUMBERS = ("observedGeneration", "replicas", "readyReplicas", "rejectionsOmitted")
_TEXTS = ("replicasSummary", "selector", "url")


def _is_plain(name: str, value: Any) -> bool:
    """Whether a field is a single value of the right type. These fields are shown or copied, not used to decide."""
    if name in _NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool)
    return (name in _TEXTS and isinstance(value, str)) or (name in _MAPPINGS and isinstance(value, Mapping))


def _entries(name: str, raw: Any, model: type[ApiModel], doubt: Doubt, complaints: list[str]) -> list[Body]:
    if not isinstance(raw, list):
        complaints.append(f"status.{name} is ignored: it is no list")
        return []
    kept: list[Body] = []
    taken: set[str] = set()
    for index, entry in enumerate(raw):
        why = _why_not(entry, model) or doubt(entry)
        if not why and name == "pools" and entry["name"] in taken:
            why = "another entry has the same name"
        if why:
            complaints.append(f"status.{name}[{index}] is ignored: {why}")
            continue
        taken.add(str(entry.get("name")))
        kept.append(entry)
    return kept


def _rebalancing(raw: Any, complaints: list[str]) -> dict[str, Body]:
    why = _why_not(raw, RebalancingStatus) or _replicas_doubt(raw)
    if why:
        complaints.append(f"status.rebalancing is ignored: {why}")
        return {}
    return {"rebalancing": raw}


def _replicas_doubt(raw: Body) -> str:
    for name in ("baseReplicas", "targetReplicas"):
        if not 0 <= (raw.get(name) or 0) <= MOST_REPLICAS:
            return f"{name} {raw[name]} is not between 0 and {MOST_REPLICAS}"
    return ""


def _why_not(entry: Any, model: type[ApiModel]) -> str:
    """The reason why an entry does not match the API; fields that a later release may have added are ignored."""
    if not isinstance(entry, Mapping):
        return "it is no mapping"
    known = _known(entry, model)
    if model is RebalancingStatus and isinstance(known.get("ceiling"), Mapping):
        known["ceiling"] = _known(known["ceiling"], CeilingStatus)
    try:
        model.model_validate(known, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    except RecursionError:
        return "it is nested too deeply"
    return "" if _is_bounded(known.values()) else f"a number is beyond {LARGEST_BOUND}"


def _known(entry: Body, model: type[ApiModel]) -> dict[str, Any]:
    names = {each.alias or name for name, each in model.model_fields.items()}
    return {name: value for name, value in entry.items() if name in names}


def _is_bounded(values: Sequence[Any] | Any) -> bool:
    return all(abs(value) <= LARGEST_BOUND for value in values if isinstance(value, int))
