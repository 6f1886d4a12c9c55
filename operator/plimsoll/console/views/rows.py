"""One InferenceDeployment in short: everything that lists and maps show of it, read once for each version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.api.v1alpha1.status import InferenceDeploymentStatus, ObservationStatus, PoolStatus
from plimsoll.console.views.figures import Figures, figures_of_status
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionType
from plimsoll.domain.units import from_rfc3339
from plimsoll.status.record.places import split_of
from plimsoll.status.record.reading import read, whole_status
from plimsoll.status.severity import Sign, Signs, diagnosis_words
from plimsoll.status.signs import signs_of

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """The replicas of one deployment on one GPU type with one split. Tokens are those of one replica."""

    name: str
    gpu_type: str
    split: Split
    replicas: int
    ready: int
    is_retiring: bool = False
    max_sequences: int | None = None
    kv_tokens_predicted: int | None = None
    kv_tokens_reported: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedRow:
    """Memory that an engine reported, and what was predicted of it, in bytes. No report: it ran out of memory."""

    model: str
    gpu_type: str
    split: Split
    engine_version: str
    predicted_kv_bytes: int
    available_kv_bytes: int | None


@dataclass(frozen=True, slots=True)
class ProvedTooSmall:
    """A placement whose engine got less KV cache than declared. Tokens are those of a replica, as reported."""

    gpu_type: str
    split: Split
    kv_tokens: int


@dataclass(frozen=True, slots=True)
class LiveRow:
    """The live loop's last word."""

    decision: str
    reason: str
    message: str
    diagnosis: str | None = None
    proposal: str | None = None
    proposal_id: str | None = None
    hints: tuple[str, ...] = ()

    @property
    def diagnosis_words(self) -> str:
        """The diagnosis for people; empty if there is none."""
        return "" if self.diagnosis is None else diagnosis_words(self.diagnosis)


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """A decision about the pools: when in POSIX seconds, and the pools from then on and before, in words."""

    at: float
    placed: str
    replaced: str


@dataclass(frozen=True, slots=True)
class MadeRow:
    """A change that the live loop made: when in POSIX seconds, its kind, and its reason."""

    at: float
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """An InferenceDeployment in short.

    ``figures`` are those of one GPU of the chosen place, which is that of ``gpu_type`` and ``split``; None if
    nothing was chosen. ``signs`` are what its state is judged from. ``is_behind`` means that the operator has not seen
    the last change of the spec. ``complaints`` name the parts of the status that cannot be read.
    """

    key: ObjectKey
    uid: str
    version: str
    model: str
    is_behind: bool
    created: float | None = None
    gpu_type: str | None = None
    split: Split | None = None
    figures: Figures | None = None
    hourly_price: str | None = None
    price_source: str | None = None
    billing: str | None = None
    summary: str = ""
    signs: Signs = field(default_factory=Signs)
    pools: tuple[PoolRow, ...] = ()
    warnings: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    live: LiveRow | None = None
    observed: tuple[ObservedRow, ...] = ()
    max_sequences: int | None = None
    too_small: tuple[ProvedTooSmall, ...] = ()
    complaints: tuple[str, ...] = ()
    decided: tuple[DecidedRow, ...] = ()
    made: tuple[MadeRow, ...] = ()

    @property
    def ready(self) -> Sign | None:
        """The condition ``Ready``."""
        return self.signs.of(ConditionType.READY)

    @property
    def is_placed(self) -> bool:
        """Whether the deployment has a place."""
        return self.gpu_type is not None


def key_of(body: Body) -> ObjectKey:
    """Return the key of an object; without a namespace if it has none."""
    head = body["metadata"]
    return ObjectKey(str(head.get("namespace") or ""), str(head["name"]))


def row_of(body: Body) -> DeploymentRow:
    """Return an object in short. Unusable parts of a status are left out and named."""
    record = read(body.get("status"))
    status, head = whole_status(record), body["metadata"]
    placement = status.placement
    return DeploymentRow(
        key=key_of(body),
        uid=str(head.get("uid") or ""),
        version=str(head.get("resourceVersion") or ""),
        model=_model_name(body),
        is_behind=status.observed_generation != head.get("generation"),
        created=from_rfc3339(str(head.get("creationTimestamp") or "")),
        gpu_type=None if placement is None else placement.gpu_type,
        split=None if placement is None else split_of(placement),
        figures=None if status.estimate is None else figures_of_status(status.estimate),
        hourly_price=None if placement is None else placement.hourly_price,
        price_source=None if placement is None else placement.price_source,
        billing=None if placement is None else placement.billing,
        summary=status.replicas_summary or "",
        signs=signs_of(status, head),
        pools=tuple(map(_pool, status.pools or ())),
        warnings=() if placement is None else tuple(placement.warnings or ()),
        remedies=tuple(each.message for each in status.remedies or ()),
        proposals=tuple(each.message for each in status.proposals or ()),
        live=_live(status),
        observed=tuple(map(_observed, status.observations or ())),
        max_sequences=None if placement is None else placement.max_num_seqs,
        too_small=tuple(
            ProvedTooSmall(each.gpu_type, split_of(each), each.kv_tokens) for each in status.too_small or ()
        ),
        complaints=record.complaints,
        decided=tuple(_decided(status)),
        made=tuple(_made(status)),
    )


def _decided(status: InferenceDeploymentStatus) -> Iterator[DecidedRow]:
    for each in status.decisions or ():
        at = from_rfc3339(each.at)
        if at is not None:
            yield DecidedRow(at, each.placed, each.replaced or "")


def _made(status: InferenceDeploymentStatus) -> Iterator[MadeRow]:
    for each in (() if status.rebalancing is None else status.rebalancing.changes) or ():
        at = from_rfc3339(each.at)
        if at is not None:
            yield MadeRow(at, each.kind, each.reason or "")


def _model_name(body: Body) -> str:
    model = (body.get("spec") or {}).get("model")
    return str(model.get("name") or "") if isinstance(model, Mapping) else ""


def _pool(pool: PoolStatus) -> PoolRow:
    return PoolRow(
        pool.name,
        pool.gpu_type,
        split_of(pool),
        pool.replicas,
        pool.ready_replicas,
        is_retiring=pool.state == "Retiring",
        max_sequences=pool.max_sequences,
        kv_tokens_predicted=pool.kv_tokens_predicted,
        kv_tokens_reported=pool.kv_tokens_reported,
    )


def _observed(seen: ObservationStatus) -> ObservedRow:
    return ObservedRow(
        seen.model, seen.gpu_type, split_of(seen), seen.engine_version, seen.predicted_kv_bytes, seen.available_kv_bytes
    )


def _live(status: InferenceDeploymentStatus) -> LiveRow | None:
    live = status.rebalancing
    if live is None:
        return None
    said = live.decision, live.reason, live.message, live.diagnosis, live.proposal, live.proposal_id
    return LiveRow(*said, hints=tuple(live.hints or ()))
