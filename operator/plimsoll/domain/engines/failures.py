"""Why an engine did not start: a closed set of reasons, and the engine's own sentence.

Pods that a kubelet has rejected: they have a node, and end there before their engine starts.

A ReplicaSet makes the next pod at once, so a node with a lost GPU ends a pod a second. After a few such pods no other
is made for a while, and the pause grows. They are read from the ended pods themselves, so another process knows of
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from plimsoll.domain.units import counted

MESSAGE_LIMIT = 600
"""Most characters of the engine's sentence in a condition; the whole log stays with the pod."""


class StartFailure(StrEnum):
    """Why an engine did not start. The values are public: conditions use them as reasons."""

    WEIGHTS_TOO_LARGE = "WeightsDoNotFit"
    KV_CACHE_TOO_SMALL = "KvCacheDoesNotFit"
    NO_KV_CACHE = "NoMemoryForKvCache"
    MEMORY_HELD_BY_OTHERS = "GpuMemoryHeldByOthers"
    MAMBA_BLOCKS = "TooManySequences"
    OUT_OF_MEMORY = "EngineOutOfMemory"
    OPTIONS_REFUSED = "EngineOptionsRefused"
    HEADS_NOT_DIVISIBLE = "HeadsNotDivisible"
    UNSUPPORTED_GPU = "PrecisionNotSupported"
    GPU_TOO_OLD = "GpuNotSupported"
    WRONG_PLATFORM = "ImageForOtherPlatform"
    DRIVER_TOO_OLD = "DriverTooOld"
    GPU_UNUSABLE = "GpuUnusable"
    GPU_NOT_IN_CONTAINER = "GpuNotInContainer"
    HOST_MEMORY = "ContainerOutOfMemory"
    MODEL = "ModelNotAvailable"
    DISK_FULL = "DiskFull"
    NOT_WRITABLE = "FileNotWritable"
    IMAGE = "ImageNotAvailable"
    CONFIGURATION = "ContainerNotConfigured"
    OTHER_CONTAINER = "OtherContainerFailed"
    UNKNOWN = "EngineCrashed"


ABOUT_MEMORY = (
    StartFailure.WEIGHTS_TOO_LARGE,
    StartFailure.KV_CACHE_TOO_SMALL,
    StartFailure.NO_KV_CACHE,
    StartFailure.MAMBA_BLOCKS,
    StartFailure.OUT_OF_MEMORY,
)
"""Failures that another GPU, or a split over more GPUs, may cure."""


OF_NODE = (
    StartFailure.MEMORY_HELD_BY_OTHERS,
    StartFailure.DRIVER_TOO_OLD,
    StartFailure.GPU_UNUSABLE,
    StartFailure.GPU_NOT_IN_CONTAINER,
)
"""Failures of the node where the engine started: another node of the same type may work."""

OF_PLACE = (StartFailure.UNSUPPORTED_GPU, StartFailure.GPU_TOO_OLD, StartFailure.WRONG_PLATFORM)
"""Failures of every node of the type: another type may work."""


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """A failed start: the reason, and the engine's own sentence, so that users can check the reason.

    ``available_kv_bytes`` is the memory that the engine reports as left for its cache; None if it reports none.
    """

    reason: StartFailure
    message: str
    available_kv_bytes: int | None = None

    @property
    def is_about_memory(self) -> bool:
        """Whether the engine needed more memory than its GPU has: another GPU, or another split, may work."""
        return self.reason in ABOUT_MEMORY

    @property
    def is_of_place(self) -> bool:
        """Whether the engine may start elsewhere with the same settings."""
        return self.reason in (*OF_NODE, *OF_PLACE)

    @staticmethod
    def of_container(reason: str, message: str) -> EngineFailure:
        """Return the failure of a container that never ran: ``reason`` is the kubelet's (``ImagePullBackOff``, ...)."""
        kind = StartFailure.CONFIGURATION if reason == "CreateContainerConfigError" else StartFailure.IMAGE
        return EngineFailure(kind, f"{reason}: {message}"[:MESSAGE_LIMIT])


REMEMBERED_SECONDS = 3600.0
"""How long a rejection counts. What a node has lost rarely comes back sooner."""

FREE_REJECTIONS = 3
"""Rejections of a single replica from which on they count: a kubelet that has just started may reject a pod whose GPU
it does not know yet. Of several replicas each may end once more: a node that shuts down ends all its pods."""

FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 600.0
"""The pause doubles with every try, from the first to the longest. A try that fails ends several pods, until no more
are made: those with less than the first pause between them are one try."""

ACCEPTED_SECONDS = 10.0
"""How long a pod has a node until its kubelet counts as having accepted it. A rejection takes about a second."""

MOST_REMEMBERED = 1000
"""The most rejections of a pool that are read: the last ones. A try of many replicas ends many pods."""

LONGEST_WORDS = 300
"""Characters of a kubelet's message that are kept."""


@dataclass(frozen=True, slots=True, order=True)
class PodRejection:
    """One rejected pod: when it was made (POSIX seconds), by which node, and the kubelet's reason and message."""

    at: float
    node: str
    reason: str
    message: str


def last_of(rejections: Iterable[PodRejection], now: float) -> tuple[PodRejection, ...]:
    """Return the rejections of the last hour, the oldest first."""
    kept = sorted(each for each in rejections if now - each.at < REMEMBERED_SECONDS)
    return tuple(kept[-MOST_REMEMBERED:])


def is_rejecting(rejections: Sequence[PodRejection], replicas: int) -> bool:
    """Whether so many pods of so many replicas were rejected that the next one probably is, too."""
    return len(rejections) >= FREE_REJECTIONS - 1 + max(1, replicas)


def tries_again_at(rejections: Sequence[PodRejection]) -> float:
    """Return when the next pod may be made, in POSIX seconds; minus infinity if none was rejected."""
    if not rejections:
        return float("-inf")
    tries_before = sum(later.at - earlier.at >= FIRST_PAUSE_SECONDS for earlier, later in pairwise(rejections))
    return rejections[-1].at + min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * math.pow(2.0, tries_before))


def rejection_words(rejections: Sequence[PodRejection]) -> str:
    """Return who rejects how many pods, and the kubelet's last words."""
    last = rejections[-1]
    count = sum(1 for each in rejections if each.node == last.node)
    said = f"{last.reason}: {last.message}" if last.message else last.reason
    return f"the kubelet of {last.node} has rejected {counted(count, 'pod')} within the last hour ({said.rstrip('.')})"
