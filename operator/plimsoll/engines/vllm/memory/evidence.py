"""The kinds of starts that estimates were compared with: by layers of the model, card, split and model runner.

An estimate is about one such kind. Its memory is decided by pairs: a card's kernels for the layers, a runner's way
with them, and the cost of a split on a card. So an estimate is outside the evidence where a pair was never seen
together in any measured start.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from plimsoll.domain.caches import LatentCache
from plimsoll.domain.gpus import GpuType, Vendor
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.engines.vllm.memory.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.forward import residual_streams
from plimsoll.engines.vllm.memory.rocm_attention import is_rdna
from plimsoll.engines.vllm.memory.runners import is_recurrent

_WIDE = 8
"""GPUs of one tensor-parallel engine from which on few cards are joined as closely as two or four."""


class Layers(StrEnum):
    """The part of a model that decides its memory besides the weights. The first of several counts."""

    HYPER = "hyper-connections"
    RECURRENT = "recurrent layers"
    LATENT = "latent attention"
    EXPERTS = "experts"
    DENSE = "plain layers"


class Card(StrEnum):
    """Cards whose kernels and links are alike."""

    VOLTA = "Volta cards"
    TURING = "Turing cards"
    A100 = "A100 and A30"
    AMPERE = "Ampere cards of compute capability 8.6"
    ADA = "Ada cards"
    HOPPER = "Hopper cards"
    BLACKWELL = "Blackwell cards of compute capability 10"
    BLACKWELL_WORKSTATION = "Blackwell cards of compute capability 12"
    CDNA = "AMD Instinct cards"
    RDNA = "AMD graphics cards"
    SHARED = "GPUs that share the host's memory"
    OTHER = "such cards"


class Ways(StrEnum):
    """The engines of a replica, by how it is divided."""

    ONE = "engines on one GPU"
    TENSOR = "engines with tensor parallelism"
    WIDE = "engines with tensor parallelism of 8 and more"
    STAGES = "engines with pipeline parallelism"
    ENGINES = "engines with data or expert parallelism"


_BY_CAPABILITY = {
    (7, 0): Card.VOLTA,
    (7, 5): Card.TURING,
    (8, 0): Card.A100,
    (8, 6): Card.AMPERE,
    (8, 9): Card.ADA,
    (9, 0): Card.HOPPER,
    (10, 0): Card.BLACKWELL,
    (10, 3): Card.BLACKWELL,
    (12, 0): Card.BLACKWELL_WORKSTATION,
}


class Region(NamedTuple):
    """One kind of start."""

    layers: Layers
    card: Card
    ways: Ways
    runner: int

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs that must have been seen together. What a runner does differs by the layers, not by the card."""
        runner = f"model runner V{self.runner}"
        return (self.layers, self.card), (self.card, self.ways), (self.layers, self.ways), (self.layers, runner)


def region_of(model: ModelFacts, gpu: GpuType, split: Split, law: EngineLaw) -> Region:
    """Return the kind of a start."""
    return Region(_layers(model), _card(gpu), _ways(split), 2 if law.runs_v2(model, gpu) else 1)


@lru_cache(maxsize=4096)
def unseen(model: ModelFacts, gpu: GpuType, split: Split, law: EngineLaw) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a start that no measured start had together; empty where the evidence covers it."""
    return tuple(pair for pair in region_of(model, gpu, split, law).pairs if pair not in _SEEN)


def pair_words(pair: tuple[str, str]) -> str:
    """Return a pair as a part of a sentence, e.g. ``experts on Ada cards``."""
    first, second = pair
    if isinstance(second, Card):
        return f"{first} on {second}"
    return f"{first} in {second}" if isinstance(second, Ways) else f"{first} under {second}"


def _layers(model: ModelFacts) -> Layers:
    if residual_streams(model) > 1:
        return Layers.HYPER
    if is_recurrent(model):
        return Layers.RECURRENT
    if any(isinstance(cache, LatentCache) for cache in model.caches()):
        return Layers.LATENT
    return Layers.DENSE if model.experts is None else Layers.EXPERTS


def _card(gpu: GpuType) -> Card:
    if gpu.vendor is Vendor.AMD:
        return Card.RDNA if is_rdna(gpu) else Card.CDNA
    if gpu.unified_memory:
        return Card.SHARED
    return Card.OTHER if gpu.compute_capability is None else _BY_CAPABILITY.get(gpu.compute_capability, Card.OTHER)


def _ways(split: Split) -> Ways:
    if split.data_parallel > 1 or split.expert_parallel:
        return Ways.ENGINES
    if split.pipeline_parallel > 1:
        return Ways.STAGES
    if split.tensor_parallel >= _WIDE:
        return Ways.WIDE
    return Ways.ONE if split.tensor_parallel == 1 else Ways.TENSOR


MEASURED = frozenset(
    (
        Region(Layers.HYPER, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.HYPER, Card.HOPPER, Ways.ENGINES, 1),
        Region(Layers.HYPER, Card.BLACKWELL, Ways.WIDE, 1),
        Region(Layers.HYPER, Card.SHARED, Ways.TENSOR, 1),
        Region(Layers.RECURRENT, Card.A100, Ways.TENSOR, 1),
        Region(Layers.RECURRENT, Card.AMPERE, Ways.TENSOR, 1),
        Region(Layers.RECURRENT, Card.HOPPER, Ways.ONE, 2),
        Region(Layers.RECURRENT, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.LATENT, Card.HOPPER, Ways.ONE, 1),
        Region(Layers.LATENT, Card.BLACKWELL, Ways.ENGINES, 1),
        Region(Layers.EXPERTS, Card.A100, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.A100, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.AMPERE, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.ADA, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.ADA, Ways.ENGINES, 1),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.ONE, 2),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.HOPPER, Ways.ENGINES, 1),
        Region(Layers.EXPERTS, Card.BLACKWELL_WORKSTATION, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.BLACKWELL_WORKSTATION, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.CDNA, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.RDNA, Ways.ONE, 1),
        Region(Layers.EXPERTS, Card.RDNA, Ways.TENSOR, 1),
        Region(Layers.EXPERTS, Card.SHARED, Ways.ONE, 1),
        Region(Layers.DENSE, Card.TURING, Ways.ONE, 1),
        Region(Layers.DENSE, Card.TURING, Ways.ONE, 2),
        Region(Layers.DENSE, Card.TURING, Ways.TENSOR, 2),
        Region(Layers.DENSE, Card.A100, Ways.ONE, 1),
        Region(Layers.DENSE, Card.A100, Ways.ONE, 2),
        Region(Layers.DENSE, Card.A100, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.AMPERE, Ways.ONE, 1),
        Region(Layers.DENSE, Card.AMPERE, Ways.ONE, 2),
        Region(Layers.DENSE, Card.AMPERE, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.ADA, Ways.ONE, 1),
        Region(Layers.DENSE, Card.ADA, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.HOPPER, Ways.ONE, 1),
        Region(Layers.DENSE, Card.HOPPER, Ways.ONE, 2),
        Region(Layers.DENSE, Card.HOPPER, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.HOPPER, Ways.STAGES, 1),
        Region(Layers.DENSE, Card.BLACKWELL_WORKSTATION, Ways.ONE, 1),
        Region(Layers.DENSE, Card.CDNA, Ways.ONE, 1),
        Region(Layers.DENSE, Card.CDNA, Ways.ONE, 2),
        Region(Layers.DENSE, Card.RDNA, Ways.ONE, 1),
        Region(Layers.DENSE, Card.RDNA, Ways.TENSOR, 1),
        Region(Layers.DENSE, Card.SHARED, Ways.ONE, 1),
    )
)
"""The kinds of the starts that ``make accuracy`` compares with estimates (``benchmarks/accuracy/data``)."""

CITED = frozenset(
    (
        Region(Layers.DENSE, Card.BLACKWELL, Ways.ONE, 2),
        Region(Layers.DENSE, Card.ADA, Ways.ONE, 2),
        Region(Layers.DENSE, Card.BLACKWELL_WORKSTATION, Ways.ONE, 2),
        Region(Layers.RECURRENT, Card.BLACKWELL_WORKSTATION, Ways.ONE, 1),
        Region(Layers.RECURRENT, Card.CDNA, Ways.ONE, 1),
        Region(Layers.HYPER, Card.BLACKWELL_WORKSTATION, Ways.ENGINES, 1),
    )
)
"""The kinds of further starts, each named where a law follows from it: Gemma 4 31B on B300 (0.26) and Qwen3-8B on an
RTX 4090 (0.27.1) in ``compiling.py``; RTX 5090 (0.26 to 0.28) and a hybrid of 64 layers on one in ``cuda_graphs.py``;
Qwen3.8-27B on an MI355X (0.20.2) in ``fp8_blocks.py``; DeepSeek-V4-Flash on four RTX PRO 6000 (0.25) in
``forward.py``."""

_SEEN = frozenset(chain.from_iterable(region.pairs for region in (*MEASURED, *CITED)))
