"""The memory that engines reported at their start, and the corrections that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import OWN, Teacher
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, NO_LIMITS, EngineVersion, StepLimits
from plimsoll.domain.models.precision import KvPrecision, Precision


class Witness(StrEnum):
    """The source of an observation."""

    METRICS = "Metrics"
    """The metrics of a running engine: exact to one block."""
    START_LOG = "StartLog"
    """The figures that an engine logs when it has started."""
    START_FAILURE = "StartFailure"
    """The error of an engine that did not start, with the figures it gives."""
    OUT_OF_MEMORY = "OutOfMemory"
    """An engine ran out of memory while it started: how much was missing is not known."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A kind of engine: all engines of a kind need the same memory, so an observation of one applies to all.

    ``engine`` is its name. ``options`` is a digest of the model's facts and of the options that change its memory.
    ``image`` is the user's own image; empty for the operator's image of the release.
    """

    model: str
    precision: Precision
    kv_precision: KvPrecision
    gpu_type: str
    version: EngineVersion
    split: Split
    options: str = ""
    engine: str = DEFAULT_ENGINE
    image: str = ""


class MeasuredSpeed(NamedTuple):
    """The measured time of a token over the estimated one, for the engines of a kind."""

    kind: EngineKind
    factor: float


@dataclass(frozen=True, slots=True)
class Observation:
    """One start of one engine: bytes of one GPU, predicted without any correction and observed.

    ``available_kv_bytes`` is what was left for the KV cache; None if the engine stopped before that. Terms that the
    engine reported separately have their own field; a term that it did not report is None. (Since 0.27, logs add the
    charge for graphs to the peak of activations; ``activations_bytes`` does not include it.) ``limits`` are those of
    the engine's step.
    """

    kind: EngineKind
    witness: Witness
    predicted_kv_bytes: int
    available_kv_bytes: int | None
    limits: StepLimits = NO_LIMITS
    predicted_weights_bytes: int = 0
    weights_bytes: int | None = None
    predicted_activations_bytes: int = 0
    activations_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation, and a digest of the spec's memory-related parts at that time."""

    observation: Observation
    spec: str


@dataclass(frozen=True, slots=True)
class Correction:
    """Signed bytes to add to the terms of an engine kind. ``rest_bytes`` is the part that no term explains.

    Some engines of the kind took up to ``above_bytes`` more and ``below_bytes`` less. ``exact`` means that all this was
    measured, with steps of these ``limits``. Otherwise it is only known that an engine ran out of
    memory. ``taught_by`` says whose engines these were.
    """

    kind: EngineKind
    weights_bytes: int = 0
    activations_bytes: int = 0
    rest_bytes: int = 0
    above_bytes: int = 0
    below_bytes: int = 0
    limits: StepLimits = NO_LIMITS
    exact: bool = True
    taught_by: Teacher = OWN

    @property
    def total_bytes(self) -> int:
        """The bytes that the engine takes more than the law predicts; negative if it takes less."""
        return self.weights_bytes + self.activations_bytes + self.rest_bytes
