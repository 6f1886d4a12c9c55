"""Pools, the places where replicas run, ran or could not run, and changes of both, as a status keeps them.

The record of a pool on its Deployment has the same fields, so what is wrong with them is said of any JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.api.bounds import MOST_CONCURRENCY
from plimsoll.api.v1alpha1.status import (
    EarlierSettingsStatus,
    EstimateStatus,
    FailedMoveStatus,
    MoveStatus,
    ObservationStatus,
    PlacementStatus,
    PoolStatus,
    RehomingStatus,
    RejectionStatus,
    RetuneStatus,
    TooSmallStatus,
)
from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, MOST_HOST_CACHE_BYTES, StepLimits
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import ObservedCapacity
from plimsoll.domain.units import to_rfc3339
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource
from plimsoll.placement.demands.clocks import LONGEST_SECONDS, MOST_EXTENSIONS, EarlierSettings, MoveClock, RetuneClock
from plimsoll.placement.demands.failed_moves import MOST_TIMES, Delay, FailedMove, pause_seconds
from plimsoll.placement.demands.pools import Pool, PoolState, is_at, pool_name
from plimsoll.placement.demands.rehoming import MOST_AVOIDED, Rehoming
from plimsoll.render.names import CAPACITY_WORDS
from plimsoll.status.record.forms import (
    Field,
    Fields,
    Form,
    Spread,
    Unusable,
    all_entries,
    listed,
    number,
    time,
    unless,
    word,
)

MOST_REPLICAS = 1000
"""The most replicas of one pool: we never decide on more."""

MOST_DRAIN_SECONDS = 3600
"""The longest drain of a pool that is believed. It is more than this release decides."""

MOST_GPUS = 64
"""The limit for the GPUs of one replica: it is more than any node has."""

Cut = (
    EstimateStatus
    | FailedMoveStatus
    | ObservationStatus
    | PlacementStatus
    | PoolStatus
    | RehomingStatus
    | RejectionStatus
    | TooSmallStatus
)
"""An entry that names a split."""


def split_of(entry: Cut) -> Split:
    """The split of an entry. One stage and one engine are left out there."""
    stages = 1 if entry.pipeline_parallel is None else entry.pipeline_parallel
    engines = 1 if entry.data_parallel is None else entry.data_parallel
    return Split(entry.tensor_parallel, stages, engines, expert_parallel=bool(entry.expert_parallel))


def split_fields(split: Split) -> Fields:
    """The fields of an entry that name a split."""
    return {
        "tensor_parallel": split.tensor_parallel,
        "pipeline_parallel": None if split.pipeline_parallel == 1 else split.pipeline_parallel,
        "expert_parallel": split.expert_parallel or None,
        "data_parallel": None if split.data_parallel == 1 else split.data_parallel,
    }


def split_doubt(tensor_parallel: object, pipeline_parallel: object, data_parallel: object) -> str:
    """The error in a split."""
    gpus = 1
    parts = (("tensorParallel", tensor_parallel), ("pipelineParallel", pipeline_parallel))
    for name, value in (*parts, ("dataParallel", data_parallel)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return f"{name} {value!r} is no number of GPUs"
        gpus *= value
    return f"a replica of {gpus} GPUs is larger than any node" if gpus > MOST_GPUS else ""


def _read_split(entry: Cut) -> Split:
    split = split_of(entry)
    if wrong := split_doubt(*split[:3]):
        raise Unusable(wrong)
    return split


SPLIT = Spread(tuple(split_fields(Split(1))), split_fields, _read_split)


def place_fields(target: Target) -> Fields:
    """The fields of an entry that name a GPU type, a split and nodes."""
    return {
        "gpu_type": target.gpu_type,
        **split_fields(target.split),
        "node_selector": dict((target.selector,)),
        "node_labels": ["=".join(label) for label in target.labels] if target.other_labels else None,
        "capacity_type": None if target.capacity is None else CAPACITY_WORDS[target.capacity],
        "avoided_nodes": list(target.avoids) or None,
    }


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
    """A target from the fields of a record, after :func:`place_doubt` accepted them."""
    (first,) = selector.items()
    others = {(key, value) for key, _, value in (label.partition("=") for label in labels or ())} - {first}
    types = {word: each for each, word in CAPACITY_WORDS.items()}
    return Target(
        gpu_type, split, first, resource, tuple(sorted(others)), types.get(capacity or ""), tuple(sorted(avoids or ()))
    )


def place_doubt(
    selector: object, resource: object, labels: object = None, capacity: object = None, avoids: object = None
) -> str:
    """The error in the label, the resource or the avoided nodes of a pool's GPUs."""
    if avoids is not None and not (
        isinstance(avoids, list) and len(avoids) <= MOST_AVOIDED and all(map(_is_word, avoids))
    ):
        return f"avoidedNodes {avoids!r} is no list of at most {MOST_AVOIDED} names"
    if (
        not isinstance(selector, Mapping)
        or len(selector) != 1
        or not all(map(_is_word, (*selector, *selector.values())))
    ):
        return f"nodeSelector {selector!r} is not one label"
    if labels is not None and not (isinstance(labels, list) and all(map(_is_label, labels))):
        return f"nodeLabels {labels!r} is no list of key=value"
    if capacity not in (None, *CAPACITY_WORDS.values()):
        return f"capacityType {capacity!r} is none of {', '.join(CAPACITY_WORDS.values())}"
    if not isinstance(resource, str) or not is_gpu_resource(resource):
        return f"resource {resource!r} is none of GPUs"
    return ""


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_label(value: object) -> bool:
    return isinstance(value, str) and all(value.partition("="))


def _target_fields(target: Target) -> Fields:
    return place_fields(target) | {"resource": target.resource}


def _read_target(entry: PoolStatus) -> Target:
    selector, resource = entry.node_selector, entry.resource
    labels, capacity, avoids = entry.node_labels, entry.capacity_type, entry.avoided_nodes
    if wrong := place_doubt(selector, resource, labels, capacity, avoids):
        raise Unusable(wrong)
    split = _read_split(entry)
    return target_from(entry.gpu_type, split, selector, resource, labels=labels, capacity=capacity, avoids=avoids)


def drain_doubt(seconds: object) -> str:
    """The error in the seconds that running requests may finish."""
    if isinstance(seconds, int) and not isinstance(seconds, bool) and 1 <= seconds <= MOST_DRAIN_SECONDS:
        return ""
    return f"drainSeconds {seconds!r} is not between 1 and {MOST_DRAIN_SECONDS}"


LIMITS = Form(
    StepLimits,
    sequences=number("max_sequences", 1, MOST_CONCURRENCY, absent=0),
    step_tokens=number("batched_tokens", 1, absent=0),
)
"""The limits of a pool's engines. One that is not known is left out."""

KNOWN_LIMITS = Form(StepLimits, sequences=Field("max_sequences"), step_tokens=Field("batched_tokens"))

_DRAIN = number("drain_seconds", 1, MOST_DRAIN_SECONDS)


def _pool_doubt(pool: Pool) -> str:
    if pool.generation < 0:
        return f"generation {pool.generation} is negative"
    if is_at(pool.name, pool.gpu_type, pool.split):
        return ""
    return f"its name is not {pool_name(pool.gpu_type, pool.split)}, which GPU type and split give"


_OF_PODS = (
    "bound", "ready", "stranded", "failing", "bad_nodes", "stuck", "exists", "too_large", "uncreated", "refused",
    "promise_over", "obstacle", "restarts", "delay", "earlier", "overdue", "claim", "gated",
)  # fmt: skip

POOL = Form(
    Pool,
    PoolStatus,
    unkept=_OF_PODS,
    beside=("ready_replicas", "kv_tokens_predicted", "kv_tokens_reported", "host_tokens_reported", "kv_tokens_note"),
    doubt=_pool_doubt,
    target=Spread(
        ("gpu_type", *SPLIT.names, "node_selector", "node_labels", "capacity_type", "avoided_nodes", "resource"),
        _target_fields,
        _read_target,
    ),
    state=word("state", PoolState),
    replicas=number("replicas", 0, MOST_REPLICAS),
    spec=unless("spec", ""),
    served=unless("served", usual=False),
    has_narrow_cache=Field("kv_precision", lambda is_so: KvPrecision.FP8.value if is_so else None, bool),
    host_cache_bytes=number("host_cache_bytes", 1, MOST_HOST_CACHE_BYTES, absent=0),
    limits=LIMITS,
    drain_seconds=_DRAIN,
    engine=unless("engine", DEFAULT_ENGINE),
)

REHOMING = Form(
    Rehoming,
    RehomingStatus,
    split=SPLIT,
    at=time("at"),
    node=unless("node", ""),
    used_again=unless("used_again", usual=False),
)

TOO_SMALL = Form(
    ObservedCapacity, TooSmallStatus, beside=("spec",), split=SPLIT, engine=unless("engine", DEFAULT_ENGINE)
)


def _span_doubt(first: tuple[str, float], last: tuple[str, float], longest: float) -> str:
    """The error in two times, each with its name. Times are written in whole seconds, so a second more is allowed."""
    if 0 <= last[1] - first[1] <= longest + 1:
        return ""
    begin, end = (f"{name} {to_rfc3339(at)}" for name, at in (first, last))
    return f"{end} is not within {longest:.0f} s after {begin}"


def _move_doubt(clock: MoveClock) -> str:
    return _span_doubt(("beganAt", clock.began), ("dueAt", clock.due), MOST_EXTENSIONS * LONGEST_SECONDS)


def _failed_doubt(failed: FailedMove) -> str:
    if not failed.delay.reason.isalnum():
        return f"reason {failed.delay.reason!r} is not one word"
    return _span_doubt(("at", failed.at), ("until", failed.until), pause_seconds(failed.times))


MOVE = Form(MoveClock, MoveStatus, pools=listed("pools"), began=time("began_at"), due=time("due_at"), doubt=_move_doubt)

FAILED_MOVE = Form(
    FailedMove,
    FailedMoveStatus,
    split=SPLIT,
    at=time("at"),
    until=time("until"),
    times=number("times", 1, MOST_TIMES),
    delay=Form(Delay),
    limits=LIMITS,
    engine=unless("engine", DEFAULT_ENGINE),
    doubt=_failed_doubt,
)

EARLIER = Form(
    EarlierSettings,
    EarlierSettingsStatus,
    pool=Field("name"),
    limits=LIMITS,
    drain_seconds=_DRAIN,
    inputs=unless("inputs", ""),
)

RETUNE = Form(
    RetuneClock,
    RetuneStatus,
    beside=("due_at",),
    before=all_entries("pools", EARLIER),
    began=time("began_at"),
    each=number("replica_seconds", 1, LONGEST_SECONDS),
)
