"""The error in an entry of a status whose fields all have the right types; empty if there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from plimsoll.api.bounds import MOST_CONCURRENCY
from plimsoll.api.v1alpha1.base import LARGEST_BOUND, ApiModel
from plimsoll.api.v1alpha1.status import (
    FailedMoveStatus,
    MoveStatus,
    ObservationStatus,
    PoolStatus,
    RebalancingStatus,
    RehomingStatus,
    RetuneStatus,
    SizeStatus,
    TooSmallStatus,
)
from plimsoll.domain.times import from_rfc3339
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource
from plimsoll.placement.failed_moves import MOST_TIMES, pause_seconds
from plimsoll.placement.move_clock import LONGEST_SECONDS, MOST_EXTENSIONS
from plimsoll.placement.pools import pool_name
from plimsoll.placement.rehoming import MOST_AVOIDED
from plimsoll.render.names import CAPACITY_WORDS
from plimsoll.status.values import Cut, split_of

MOST_REPLICAS = 1000
"""The most replicas of one pool: we never decide on more."""

MOST_DRAIN_SECONDS = 3600
"""The longest drain of a pool that is believed. It is more than this release decides."""

MOST_GPUS = 64
"""The limit for the GPUs of one replica: it is more than any node has."""


def doubt(entry: ApiModel) -> str:
    """The error in an entry of any kind."""
    match entry:
        case SizeStatus():
            return _size_doubt(entry)
        case PoolStatus():
            return _pool_doubt(entry)
        case ObservationStatus():
            return _observation_doubt(entry)
        case RehomingStatus():
            return _split_doubt_of(entry) or (
                "" if from_rfc3339(entry.at) is not None else f"at {entry.at!r} is no time"
            )
        case TooSmallStatus():
            return _split_doubt_of(entry)
        case MoveStatus():
            return _span_doubt(("beganAt", entry.began_at), ("dueAt", entry.due_at), MOST_EXTENSIONS * LONGEST_SECONDS)
        case RetuneStatus():
            return _retune_doubt(entry)
        case FailedMoveStatus():
            return _split_doubt_of(entry) or _failed_move_doubt(entry)
        case RebalancingStatus():
            return _replicas_doubt(entry)
        case _:
            return ""


def split_doubt(tensor_parallel: object, pipeline_parallel: object, data_parallel: object = 1) -> str:
    """The error in a split."""
    gpus = 1
    parts = (("tensorParallel", tensor_parallel), ("pipelineParallel", pipeline_parallel))
    for name, value in (*parts, ("dataParallel", data_parallel)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return f"{name} {value!r} is no number of GPUs"
        gpus *= value
    return f"a replica of {gpus} GPUs is larger than any node" if gpus > MOST_GPUS else ""


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


def drain_doubt(seconds: object) -> str:
    """The error in the seconds that running requests may finish."""
    if isinstance(seconds, int) and not isinstance(seconds, bool) and 1 <= seconds <= MOST_DRAIN_SECONDS:
        return ""
    return f"drainSeconds {seconds!r} is not between 1 and {MOST_DRAIN_SECONDS}"


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_label(value: object) -> bool:
    return isinstance(value, str) and all(value.partition("="))


def _split_doubt_of(entry: Cut) -> str:
    stages, engines = entry.pipeline_parallel, entry.data_parallel
    return split_doubt(entry.tensor_parallel, 1 if stages is None else stages, 1 if engines is None else engines)


def _pool_doubt(entry: PoolStatus) -> str:
    if not 0 <= entry.replicas <= MOST_REPLICAS:
        return f"replicas {entry.replicas} is not between 0 and {MOST_REPLICAS}"
    if entry.generation < 0:
        return f"generation {entry.generation} is negative"
    settings = settings_doubt(entry)
    if settings:
        return settings
    wrong = place_doubt(
        entry.node_selector, entry.resource, entry.node_labels, entry.capacity_type, entry.avoided_nodes
    ) or _split_doubt_of(entry)
    if wrong:
        return wrong
    name = pool_name(entry.gpu_type, split_of(entry))
    return "" if entry.name == name else f"its name is not {name}, which GPU type and split give"


class Settings(Protocol):
    """An entry with the settings of a pool's engines. None: not known."""

    @property
    def max_sequences(self) -> int | None:
        """Requests at the same time of one engine."""

    @property
    def batched_tokens(self) -> int | None:
        """Tokens of one step."""

    @property
    def drain_seconds(self) -> int | None:
        """Seconds in which running requests may finish."""


def settings_doubt(entry: Settings) -> str:
    """The error in the settings of a pool's engines."""
    if entry.batched_tokens is not None and entry.batched_tokens < 1:
        return f"batchedTokens {entry.batched_tokens} is less than 1"
    if entry.max_sequences is not None and not 1 <= entry.max_sequences <= MOST_CONCURRENCY:
        return f"maxSequences {entry.max_sequences} is not between 1 and {MOST_CONCURRENCY}"
    return "" if entry.drain_seconds is None else drain_doubt(entry.drain_seconds)


def _retune_doubt(entry: RetuneStatus) -> str:
    if from_rfc3339(entry.began_at) is None:
        return f"beganAt {entry.began_at!r} is no time"
    if not 1 <= entry.replica_seconds <= LONGEST_SECONDS:
        return f"replicaSeconds {entry.replica_seconds} is not between 1 and {LONGEST_SECONDS:.0f}"
    if any((each.batched_tokens or 0) > LARGEST_BOUND for each in entry.pools):
        return f"a number is beyond {LARGEST_BOUND}"
    return next((wrong for each in entry.pools if (wrong := settings_doubt(each))), "")


def _size_doubt(entry: SizeStatus) -> str:
    if not 1 <= entry.replicas <= MOST_REPLICAS:
        return f"replicas {entry.replicas} is not between 1 and {MOST_REPLICAS}"
    if not 1 <= entry.concurrency <= MOST_CONCURRENCY:
        return f"concurrency {entry.concurrency} is not between 1 and {MOST_CONCURRENCY}"
    return ""


def _observation_doubt(entry: ObservationStatus) -> str:
    if entry.batched_tokens < 1 or entry.max_sequences < 1:
        return "batchedTokens and maxSequences must be 1 at least"
    return _split_doubt_of(entry)


def _failed_move_doubt(entry: FailedMoveStatus) -> str:
    if not 1 <= entry.times <= MOST_TIMES:
        return f"times {entry.times} is not between 1 and {MOST_TIMES}"
    if entry.max_sequences is not None and not 1 <= entry.max_sequences <= MOST_CONCURRENCY:
        return f"maxSequences {entry.max_sequences} is not between 1 and {MOST_CONCURRENCY}"
    if entry.batched_tokens is not None and not 1 <= entry.batched_tokens <= LARGEST_BOUND:
        return f"batchedTokens {entry.batched_tokens} is not between 1 and {LARGEST_BOUND}"
    if not entry.reason.isalnum():
        return f"reason {entry.reason!r} is not one word"
    return _span_doubt(("at", entry.at), ("until", entry.until), pause_seconds(entry.times))


def _span_doubt(first: tuple[str, str], last: tuple[str, str], longest: float) -> str:
    """The error in two times, each with its name. Times are written in whole seconds, so a second more is allowed."""
    times = []
    for name, text in (first, last):
        at = from_rfc3339(text)
        if at is None:
            return f"{name} {text!r} is no time"
        times.append(at)
    if not 0 <= times[1] - times[0] <= longest + 1:
        return f"{last[0]} {last[1]} is not within {longest:.0f} s after {first[0]} {first[1]}"
    return ""


def _replicas_doubt(entry: RebalancingStatus) -> str:
    for name, number in (("baseReplicas", entry.base_replicas), ("targetReplicas", entry.target_replicas)):
        if not 0 <= (number or 0) <= MOST_REPLICAS:
            return f"{name} {number} is not between 0 and {MOST_REPLICAS}"
    return ""
