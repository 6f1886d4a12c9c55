"""The entries of a status as the values that decisions are made from. Every entry was checked when it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from plimsoll import __version__
from plimsoll.api.v1alpha1.status import (
    ChangeStatus,
    DecisionStatus,
    FailedMoveStatus,
    ImagePlatformsStatus,
    LearnedElsewhereStatus,
    LearnedStatus,
    MoveStatus,
    ObservationStatus,
    PoolStatus,
    RebalancingStatus,
    RehomingStatus,
    RejectedProposalStatus,
    RetuneStatus,
)
from plimsoll.domain.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.observations import EngineKind, Observation, Seen, Witness
from plimsoll.domain.outcomes import Split, Target
from plimsoll.domain.platforms import LINUX, ImagePlatforms, PlatformSource
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.times import from_rfc3339
from plimsoll.domain.versions import EngineVersion
from plimsoll.placement.failed_moves import Delay, FailedMove
from plimsoll.placement.move_clock import MoveClock
from plimsoll.placement.pools import Pool, PoolState
from plimsoll.placement.rehoming import Rehoming
from plimsoll.placement.retune_clock import EarlierSettings, RetuneClock
from plimsoll.rebalance.inbox import AnsweredProposals, Refusal
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, Mark
from plimsoll.rebalance.state.memory import MOST_WRONG, Learned
from plimsoll.render.names import CAPACITY_WORDS
from plimsoll.status.decisions import DecisionNote


class Cut(Protocol):
    """An entry that names a split. ``pipeline_parallel`` is None where there is one stage."""

    @property
    def tensor_parallel(self) -> int:
        """GPUs that share one copy of the weights."""

    @property
    def pipeline_parallel(self) -> int | None:
        """Stages."""

    @property
    def expert_parallel(self) -> bool | None:
        """Whether experts are whole on each rank; None where they are not."""

    @property
    def data_parallel(self) -> int | None:
        """Engines that share the requests; None where there is one."""


def split_of(entry: Cut) -> Split:
    """The split of an entry."""
    stages = 1 if entry.pipeline_parallel is None else entry.pipeline_parallel
    engines = 1 if entry.data_parallel is None else entry.data_parallel
    return Split(entry.tensor_parallel, stages, engines, expert_parallel=bool(entry.expert_parallel))


def pool_of(entry: PoolStatus) -> Pool:
    """A pool as it was decided, without its pods."""
    return Pool(
        name=entry.name,
        target=target_from(
            entry.gpu_type,
            split_of(entry),
            entry.node_selector,
            entry.resource,
            labels=entry.node_labels,
            capacity=entry.capacity_type,
            avoids=entry.avoided_nodes,
        ),
        state=PoolState(entry.state),
        generation=entry.generation,
        replicas=entry.replicas,
        batched_tokens=entry.batched_tokens,
        max_sequences=entry.max_sequences,
        spec=entry.spec or "",
        served=bool(entry.served),
        has_narrow_cache=entry.kv_precision == KvPrecision.FP8,
        drain_seconds=entry.drain_seconds,
    )


def target_from(
    gpu_type: str,
    split: Split,
    selector: Mapping[str, str],
    resource: str,
    *,
    labels: Sequence[str] | None,
    capacity: str | None,
    avoids: Sequence[str] | None,
) -> Target:
    """A target from the fields of a record, after :func:`~plimsoll.status.doubts.place_doubt` accepted them."""
    (first,) = selector.items()
    others = {(key, value) for key, _, value in (label.partition("=") for label in labels or ())} - {first}
    types = {word: each for each, word in CAPACITY_WORDS.items()}
    return Target(
        gpu_type, split, first, resource, tuple(sorted(others)), types.get(capacity or ""), tuple(sorted(avoids or ()))
    )


def recorded_platforms(entry: ImagePlatformsStatus | None, given: ImagePlatforms) -> ImagePlatforms | None:
    """The platforms that were found for the image that ``given`` names; None if they are another image's."""
    if entry is None or not given.image or entry.reference != given.image:
        return None
    architectures = tuple(each.removeprefix(LINUX) for each in entry.platforms or ())
    return ImagePlatforms(architectures, PlatformSource(entry.source), entry.reference, entry.unread or "")


def rehoming_of(entry: RehomingStatus) -> Rehoming | None:
    """A place that the object's replicas left; None if its time is unusable."""
    at = from_rfc3339(entry.at)
    return None if at is None else Rehoming(entry.gpu_type, split_of(entry), at, entry.reason, entry.node or "")


def move_of(entry: MoveStatus | None) -> MoveClock | None:
    """The move that is under way; None if there is none, or if its times are unusable."""
    if entry is None:
        return None
    began, due = from_rfc3339(entry.began_at), from_rfc3339(entry.due_at)
    return None if began is None or due is None else MoveClock(tuple(entry.pools), began, due, entry.spec)


def retune_of(entry: RetuneStatus | None) -> RetuneClock | None:
    """The change of settings that is under way; None if there is none, or if its time is unusable."""
    began = None if entry is None else from_rfc3339(entry.began_at)
    if entry is None or began is None:
        return None
    before = tuple(
        EarlierSettings(each.name, each.max_sequences, each.batched_tokens, each.drain_seconds, each.inputs or "")
        for each in entry.pools
    )
    return RetuneClock(before, began, entry.replica_seconds, entry.spec)


def failed_of(entry: FailedMoveStatus) -> FailedMove | None:
    """A place, or settings, that did not come up in time; None if its times are unusable."""
    at, until, delay = from_rfc3339(entry.at), from_rfc3339(entry.until), Delay(entry.reason, entry.message)
    if at is None or until is None:
        return None
    settings = entry.max_sequences, entry.batched_tokens
    return FailedMove(entry.gpu_type, split_of(entry), at, until, entry.times, delay, entry.spec, *settings)


def decision_of(entry: DecisionStatus) -> DecisionNote:
    """An earlier decision, as it was shown."""
    return DecisionNote(entry.id, entry.at, entry.placed, entry.replaced or "", entry.solver or "", entry.gap_permille)


def seen_of(entry: ObservationStatus) -> Seen | None:
    """An observation of an engine. None if another release wrote it: that release predicted with another memory law."""
    if entry.release != __version__:
        return None
    try:
        kind = EngineKind(
            model=entry.model,
            precision=Precision(entry.precision),
            kv_precision=KvPrecision(entry.kv_precision),
            gpu_type=entry.gpu_type,
            version=EngineVersion.of(entry.engine_version),
            split=split_of(entry),
            options=entry.options,
            engine=entry.engine or DEFAULT_ENGINE,
            image=entry.own_image or "",
        )
    except (TypeError, ValueError):
        return None  # a word or a number that this release does not know
    observation = Observation(
        kind,
        Witness(entry.witness),
        entry.predicted_kv_bytes,
        entry.available_kv_bytes,
        entry.batched_tokens,
        entry.max_sequences,
    )
    return Seen(observation, entry.spec)


def history_of(entry: RebalancingStatus | None, failed: Sequence[FailedMove] = ()) -> ChangeHistory:
    """The past changes of the live loop. Those without a usable time or with an unknown kind are left out.

    A move is taken back also where the live loop has no turn. Such a change is added if it is newer than all others.
    """
    changes = () if entry is None else entry.changes or ()
    marks = tuple(mark for change in changes if (mark := _mark_of(change)) is not None)
    newest = max((mark.at for mark in marks), default=0.0)
    taken_back = tuple(Mark(each.at, ChangeKind.ROLL_BACK, each.delay.reason) for each in failed if each.at > newest)
    return ChangeHistory((*marks, *sorted(taken_back, key=lambda mark: mark.at)))


def _mark_of(entry: ChangeStatus) -> Mark | None:
    at = from_rfc3339(entry.at)
    if at is None or entry.kind not in set(ChangeKind):
        return None
    return Mark(at, ChangeKind(entry.kind), entry.reason or "", entry.replicas)


def learned_of(entry: RebalancingStatus | None) -> Learned | None:
    """The figures that the live loop had learned when the status was written; None where nothing usable is there."""
    learned = None if entry is None else entry.learned
    if learned is None or learned.token_time_percent <= 0:
        return None
    startup = None if learned.startup_seconds is None else float(learned.startup_seconds)
    most = float(learned.most_work) if learned.most_work else None
    output = float(learned.output_tokens) if learned.output_tokens and learned.output_tokens > 0 else None
    others = tuple((each.pool, _slowness(each)) for each in learned.elsewhere or () if each.token_time_percent > 0)
    return Learned(learned.pool, _slowness(learned), startup, most, output, others)


def _slowness(entry: LearnedStatus | LearnedElsewhereStatus) -> float:
    """Return a slowness of the status, within what the live loop itself would learn."""
    return min(MOST_WRONG, max(1 / MOST_WRONG, entry.token_time_percent / 100))


def answered_of(entry: RebalancingStatus | None) -> AnsweredProposals:
    """People's answers to proposals; an entry whose time is none is left out."""
    if entry is None:
        return AnsweredProposals()
    return AnsweredProposals(
        tuple(found for each in entry.rejected or () if (found := _refusal_of(each)) is not None),
        tuple(entry.carried_out or ()),
    )


def _refusal_of(entry: RejectedProposalStatus) -> Refusal | None:
    until = from_rfc3339(entry.until)
    if until is None:
        return None
    return Refusal(entry.proposal, entry.by, entry.reason or "", until, entry.generation)
