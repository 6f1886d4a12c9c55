"""What engines said of their memory when they started, and what that corrects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.versions import EngineVersion


class Witness(StrEnum):
    """Where an observation is from."""

    METRICS = "Metrics"
    """``vllm:cache_config_info`` of a running engine: exact to one block."""
    START_LOG = "StartLog"
    """The figures an engine logs when it has started."""
    START_FAILURE = "StartFailure"
    """The error of an engine that did not start, with the figures it gives."""
    OUT_OF_MEMORY = "OutOfMemory"
    """An engine ran out of memory while it started: how much was missing is not known."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """Engines whose memory is alike: what an observation of one says of all."""

    model: str
    precision: Precision
    kv_precision: KvPrecision
    gpu_type: str
    version: EngineVersion
    split: Split


@dataclass(frozen=True, slots=True)
class Observation:
    """One start of one engine: bytes of one GPU, predicted without any correction and observed.

    ``available_kv_bytes`` is what was left for the KV cache; None where the engine did not get so far. Terms that the
    engine told apart are given beside it, those it did not are None.
    """

    kind: EngineKind
    witness: Witness
    predicted_kv_bytes: int
    available_kv_bytes: int | None
    predicted_weights_bytes: int = 0
    weights_bytes: int | None = None
    predicted_activations_bytes: int = 0
    activations_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Correction:
    """Signed bytes to add to the terms of an engine kind; ``spread_bytes`` is how far its observations lie apart.

    ``exact`` tells that the sum is measured, so that only the spread and the engine's own rounding are left uncertain.
    """

    kind: EngineKind
    weights_bytes: int = 0
    activations_bytes: int = 0
    overhead_bytes: int = 0
    spread_bytes: int = 0
    exact: bool = True

    @property
    def total_bytes(self) -> int:
        """What the engine takes more than the law says; negative where it takes less."""
        return self.weights_bytes + self.activations_bytes + self.overhead_bytes
