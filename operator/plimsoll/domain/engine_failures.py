"""Why an engine did not start: a closed set of reasons, and the engine's own sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
    HOST_MEMORY = "ContainerOutOfMemory"
    IMAGE = "ImageNotAvailable"
    CONFIGURATION = "ContainerNotConfigured"
    UNKNOWN = "EngineCrashed"


ABOUT_MEMORY = (
    StartFailure.WEIGHTS_TOO_LARGE,
    StartFailure.KV_CACHE_TOO_SMALL,
    StartFailure.NO_KV_CACHE,
    StartFailure.MAMBA_BLOCKS,
    StartFailure.OUT_OF_MEMORY,
)
"""Failures that another GPU, or a split over more GPUs, may cure."""


OF_NODE = (StartFailure.MEMORY_HELD_BY_OTHERS, StartFailure.DRIVER_TOO_OLD, StartFailure.GPU_UNUSABLE)
"""Failures of the node where the engine started: another node of the same type may work."""

OF_PLACE = (StartFailure.UNSUPPORTED_GPU, StartFailure.GPU_TOO_OLD, StartFailure.WRONG_PLATFORM)
"""Failures of every node of the type: another type may work."""


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """A failed start: the reason, and the engine's own sentence, so that users can check the reason.

    ``available_kv_bytes`` is the memory that the engine reports as left for its cache; None where it reports none.
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
