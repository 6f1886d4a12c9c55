"""How fast a GPU type computes, reads and sends: facts of the card, and the shares of them that engines reach."""

from __future__ import annotations

from dataclasses import dataclass, field

Curve = tuple[tuple[int, float], ...]
"""Seconds of a collective by bytes of its buffer, ascending in both."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Dense teraflops of matrix products by the type that is multiplied; None where the card does not have the type."""

    bf16: float
    fp8: float | None = None
    fp4: float | None = None
    int8: float | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """The measured collectives of the GPUs of one node, and the link that they were measured on.

    ``gb_per_second`` is what one GPU of this card sends in one direction, and ``pair_gb_per_second`` the same with only
    two GPUs. ``measured_gb_per_second`` is that of the card behind the curves. ``all_reduce`` and ``all_to_all`` have
    one curve for each number of GPUs.
    """

    gb_per_second: float
    pair_gb_per_second: float
    measured_gb_per_second: float
    all_reduce: tuple[tuple[int, Curve], ...]
    all_to_all: tuple[tuple[int, Curve], ...]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The shares of the peaks that an engine's kernels reach, and the time that it spends on anything else.

    Reads of weights have a share of the memory bandwidth by the bits of a weight; ``read_nvfp4`` is that of 4-bit
    weights that are multiplied as they are, ``read_4bit`` that of all others. Matrix products have a share of the peak
    by the bits of what is multiplied. Routed experts are read at ``expert_read`` in every format, because they have
    kernels of their own; ``expert_product`` multiplies the share of their products. ``expert_spread`` is the share of
    a step's further tokens that choose experts as if at random; the rest follow others. ``kv_read`` and
    ``kv_read_8bit`` are the shares of reads of caches, ``attention`` that of long prefills. ``communication``
    multiplies the measured times of collectives. Times are seconds: of the gaps between the kernels of a layer, what
    experts, quantized activations and a step too large for a CUDA graph (``eager``) add to them, of the host's work
    for a step and for one sequence in it (scheduling, sampling, streaming), and of a request outside its steps.
    """

    read_16bit: float
    read_8bit: float
    read_4bit: float
    read_nvfp4: float
    kv_read: float
    kv_read_8bit: float
    product_16bit: float
    product_8bit: float
    product_4bit: float
    attention: float
    communication: float
    expert_read: float
    expert_product: float
    expert_spread: float
    layer_seconds: float
    expert_layer_seconds: float
    quantized_layer_seconds: float
    eager_layer_seconds: float
    step_seconds: float
    sequence_seconds: float
    request_seconds: float


@dataclass(frozen=True, slots=True)
class Trust:
    """How well figures of a class of GPUs are known: the class, and the factors from the estimate to its band's edges.

    ``is_validated`` means that the class's constants were tested on cards that they were not fitted on.
    """

    name: str
    is_validated: bool
    tpot: tuple[float, float]
    ttft: tuple[float, float]


@dataclass(frozen=True, slots=True)
class GpuSpeed:
    """Everything that the time of a step needs of a GPU type besides its bandwidths.

    ``family`` names the generation whose constants hold. ``links`` is None where an engine has one GPU only.
    """

    family: str
    peaks: Peaks
    efficiency: Efficiency
    trust: Trust
    links: Links | None = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the hash once, from few fields: GPU types are keys of caches."""
        object.__setattr__(self, "_hash", hash((self.family, self.peaks, self.efficiency)))

    def __hash__(self) -> int:
        """Return the stored hash. Equality still compares all fields."""
        return self._hash
