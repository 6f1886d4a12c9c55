"""What one measured start of the engine is: the flags as stated, and what the engine printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How the start ended."""

    OK = "ok"
    INSUFFICIENT_KV = "insufficient-kv"
    """The engine's own refusal: no room for the KV cache of one longest request, or for any."""
    OOM = "oom"
    """The GPU ran out of memory, while loading, profiling, capturing graphs or serving."""
    FAILED = "failed"
    """Another cause than memory, or none stated."""

    @property
    def is_memory_failure(self) -> bool:
        """Whether the start failed for want of memory."""
        return self in (Outcome.INSUFFICIENT_KV, Outcome.OOM)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the engine printed, of one GPU; None where it did not."""

    outcome: Outcome
    weights_gib: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    concurrency: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One record, as stated: None for every flag that the record leaves out.

    ``dataset`` is the file's kind (``runs`` or ``logs``); ``complete`` tells that flags the record leaves out were
    left to the engine, so that a default is no guess. ``suspect`` says why a record contradicts itself, which leaves
    it out of the table.
    """

    id: str
    dataset: str
    model: str | None
    measured: Measured
    source: str | None = None
    complete: bool = False
    gpu: str | None = None
    total_gib: float | None = None
    version: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: bool = False
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool | None = None
    other_flags: Mapping[str, Any] = field(default_factory=dict)
    suspect: str | None = None


@dataclass(frozen=True, slots=True)
class OracleRow:
    """Weights of one rank as the engine's own modules count them for one configuration, without a GPU.

    ``quantized`` False means that the modules were made without the configuration's quantization. ``buffers`` says
    whether ``bytes`` count the modules' buffers (rotary tables above all); None where the row does not say it.
    """

    id: str
    config: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: bool = False
    quantized: bool | None = None
    bytes: int | None = None
    parameters: int | None = None
    buffers: bool | None = None


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read, or not be mapped to inputs: its name and the reason."""

    name: str
    reason: str
