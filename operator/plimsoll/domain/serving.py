"""What the user asked for, resolved: the placement's input."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from plimsoll.domain.fleet import Toleration
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.precision import KvPrecision, Precision


class EngineVersion(NamedTuple):
    """A vLLM release; compared to pick the memory law that was true for it."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True)
class ServingShape:
    """The load one replica must carry.

    ``concurrency`` requests at the same time, each up to ``context_tokens`` long. With both expected lengths given,
    the KV cache is sized for those instead of for the guaranteed product.
    """

    context_tokens: int
    concurrency: int
    expected_prompt_tokens: int | None = None
    expected_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """How the engine is run, where the user may choose. ``gpu_memory_utilization_percent`` of the usable memory."""

    version: EngineVersion
    gpu_memory_utilization_percent: int = 92
    max_batched_tokens: int | None = None
    enforce_eager: bool = False


@dataclass(frozen=True, slots=True)
class GpuConstraints:
    """Which GPUs the user allows. Empty ``allow`` means every type."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_per_replica: int | None = None
    max_hourly_price: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """What an admin has decided over the planner's head. Consequences are shown in the outcome's warnings."""

    gpu_type: str | None = None
    tensor_parallel: int | None = None
    memory_per_gpu_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedCapacity:
    """KV tokens that the engine of a running replica really got, by its own word."""

    gpu_type: str
    tensor_parallel: int
    kv_tokens: int


@dataclass(frozen=True, slots=True)
class Request:
    """One InferenceDeployment, ready to be placed.

    ``created`` is the object's RFC 3339 creation time and orders requests that compete; ``replicas`` is how many are
    wanted now (the user's number, or the rebalancer's within the user's bounds).
    """

    key: ObjectKey
    model: ModelFacts
    precision: Precision
    kv_precision: KvPrecision
    shape: ServingShape
    engine: EngineChoice
    replicas: int = 1
    constraints: GpuConstraints = field(default_factory=GpuConstraints)
    overrides: Overrides = field(default_factory=Overrides)
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    created: str = ""
    observed: tuple[ObservedCapacity, ...] = ()
