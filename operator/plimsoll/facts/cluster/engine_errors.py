"""The reason why an engine crashed: vLLM's own error texts, found in the message of the crashed container."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.units import GIB


class StartFailure(StrEnum):
    """Why an engine did not start. The values are public: conditions use them as reasons."""

    WEIGHTS_TOO_LARGE = "WeightsDoNotFit"
    KV_CACHE_TOO_SMALL = "KvCacheDoesNotFit"
    NO_KV_CACHE = "NoMemoryForKvCache"
    MEMORY_HELD_BY_OTHERS = "GpuMemoryHeldByOthers"
    MAMBA_BLOCKS = "TooManySequences"
    OUT_OF_MEMORY = "EngineOutOfMemory"
    HEADS_NOT_DIVISIBLE = "HeadsNotDivisible"
    UNSUPPORTED_GPU = "PrecisionNotSupported"
    HOST_MEMORY = "ContainerOutOfMemory"
    IMAGE = "ImageNotAvailable"
    CONFIGURATION = "ContainerNotConfigured"
    UNKNOWN = "EngineCrashed"


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
        return self.reason in _ABOUT_MEMORY

    @staticmethod
    def of_container(reason: str, message: str) -> EngineFailure:
        """Return the failure of a container that never ran: ``reason`` is the kubelet's (``ImagePullBackOff``, ...)."""
        kind = StartFailure.CONFIGURATION if reason == "CreateContainerConfigError" else StartFailure.IMAGE
        return EngineFailure(kind, f"{reason}: {message}"[:_MESSAGE_LIMIT])


_PATTERNS: tuple[tuple[StartFailure, re.Pattern[str]], ...] = (
    (StartFailure.WEIGHTS_TOO_LARGE, re.compile(r"Failed to load model - not enough GPU memory[^\n]*")),
    (
        StartFailure.KV_CACHE_TOO_SMALL,
        re.compile(r"To serve at least one request with the models?'?s? max seq len[^\n]*"),
    ),
    (StartFailure.NO_KV_CACHE, re.compile(r"No available memory for the cache blocks[^\n]*")),
    (
        StartFailure.MEMORY_HELD_BY_OTHERS,
        re.compile(r"Free memory on device[^\n]*is less than (?:desired|the engine's budget)[^\n]*"),
    ),
    (StartFailure.MAMBA_BLOCKS, re.compile(r"max_num_seqs \(\d+\) exceeds available Mamba cache blocks[^\n]*")),
    (StartFailure.HEADS_NOT_DIVISIBLE, re.compile(r"Total number of attention heads[^\n]*must be divisible[^\n]*")),
    (
        StartFailure.UNSUPPORTED_GPU,
        re.compile(r"(?:The quantization method|Quantization scheme)[^\n]*not supported for the current GPU[^\n]*"),
    ),
    (StartFailure.UNSUPPORTED_GPU, re.compile(r"Bfloat16 is only supported on GPUs[^\n]*")),
    (
        StartFailure.OUT_OF_MEMORY,
        re.compile(r"CUDA out of memory[^\n]*|HIP out of memory[^\n]*|torch\.OutOfMemoryError[^\n]*"),
    ),
)
"""The most specific patterns come first: a crash log usually has the general CUDA text below the specific one.

The texts are from vLLM's sources, 0.8 to 0.32 (``v1/core/kv_cache_utils.py``, ``v1/worker/utils.py``,
``gpu_model_runner.py``).
"""

_ABOUT_MEMORY = (
    StartFailure.WEIGHTS_TOO_LARGE,
    StartFailure.KV_CACHE_TOO_SMALL,
    StartFailure.NO_KV_CACHE,
    StartFailure.MAMBA_BLOCKS,
    StartFailure.OUT_OF_MEMORY,
)

_AVAILABLE = re.compile(r"available KV cache memory \((-?\d{1,6}(?:\.\d{1,6})?) GiB\)")

_MESSAGE_LIMIT = 600
"""Most characters of the engine's sentence in a condition; the whole log stays with the pod."""


def read_failure(message: str, container_reason: str = "") -> EngineFailure:
    """Find the engine's own reason at the end of its log; ``container_reason`` is Kubernetes' (``OOMKilled``)."""
    for reason, pattern in _PATTERNS:
        found = pattern.search(message)
        if found:
            return EngineFailure(reason, found.group(0)[:_MESSAGE_LIMIT], _available_bytes(found.group(0)))
    if container_reason == "OOMKilled":
        text = "The container used more memory than its limit; raise spec.podTemplate.resources.limits.memory."
        return EngineFailure(StartFailure.HOST_MEMORY, text)
    last = next((line for line in reversed(message.splitlines()) if line.strip()), "The engine left no message.")
    return EngineFailure(StartFailure.UNKNOWN, last.strip()[:_MESSAGE_LIMIT])


def _available_bytes(sentence: str) -> int | None:
    """Return the size from "larger than the available KV cache memory (1.23 GiB)", in bytes."""
    found = _AVAILABLE.search(sentence)
    return None if found is None else int(float(found.group(1)) * GIB)
