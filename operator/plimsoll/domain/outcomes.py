"""What a decision says: placed or not, always with the working."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.reasons import Reason, RemedyKind


class Split(NamedTuple):
    """How one replica is cut over GPUs."""

    tensor_parallel: int
    pipeline_parallel: int = 1

    @property
    def gpus(self) -> int:
        """GPUs one replica holds."""
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """VRAM that one rank needs, term by term, so that a reviewer can argue with a term.

    All in bytes of one GPU. ``usable_bytes`` is the framework-visible total, ``budget_bytes`` the part of it the engine
    may use (utilization), ``outside_bytes`` what CUDA and NCCL take beside that budget. ``kv_cache_bytes`` is the
    *needed* cache; ``kv_capacity_tokens`` is what would fit in the whole budget, ``kv_needed_tokens`` what the load
    needs. ``margin_bytes`` is kept free because the estimate has an error.
    """

    weights_bytes: int
    kv_cache_bytes: int
    activations_bytes: int
    cuda_graphs_bytes: int
    overhead_bytes: int
    margin_bytes: int
    outside_bytes: int
    usable_bytes: int
    budget_bytes: int
    kv_bytes_per_token: int
    kv_needed_tokens: int
    kv_capacity_tokens: int
    forced_bytes: int | None = None

    @property
    def computed_bytes(self) -> int:
        """What the memory law says one rank needs inside the engine's budget."""
        return (
            self.weights_bytes
            + self.kv_cache_bytes
            + self.activations_bytes
            + self.cuda_graphs_bytes
            + self.overhead_bytes
            + self.margin_bytes
        )

    @property
    def needed_bytes(self) -> int:
        """What placement goes by: the admin's figure if there is one, else the law's."""
        return self.computed_bytes if self.forced_bytes is None else self.forced_bytes

    @property
    def fits(self) -> bool:
        """Whether the need is within the engine's budget."""
        return self.needed_bytes <= self.budget_bytes


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine flags that the operator owns, decided with the placement.

    ``dtype`` and ``quantization`` are vLLM's spellings; None leaves the flag out (the checkpoint decides).
    """

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization_percent: int
    dtype: str
    quantization: str | None
    kv_cache_dtype: str
    enforce_eager: bool


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one candidate was not taken: a code and the numbers behind it. Prose is made in one place, from these."""

    gpu_type: str
    split: Split
    reason: Reason
    numbers: tuple[tuple[str, int | str], ...] = ()

    def number(self, name: str) -> int | str:
        """One of the numbers by name. Raises KeyError when the code does not carry it."""
        return dict(self.numbers)[name]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that would make the request placeable, with the figure to change to."""

    kind: RemedyKind
    numbers: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """A GPU type, a split and the engine settings: everything that shapes a replica."""

    gpu: GpuType
    selector: tuple[str, str]
    resource: str
    split: Split
    settings: EngineSettings
    estimate: MemoryEstimate
    hourly_price: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """The request fits: one choice for ``replicas`` replicas, and every other candidate with its reason."""

    choice: Choice
    replicas: int
    rejections: tuple[Rejection, ...] = ()
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Nothing fits: every candidate with its reason, and what would help, nearest first."""

    rejections: tuple[Rejection, ...]
    remedies: tuple[Remedy, ...] = ()


Outcome = Placed | Unplaceable
