"""The kinds of models, cards and splits by which starts of an engine are compared: what was measured together."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.caches import LatentCache, StateCache
from plimsoll.domain.models.model import ModelFacts

_STREAM_MAPS = ("hc_attn_fn", "attn_hyper_connection.input_mix_weight_down")
"""Weights that read all streams of a layer at once."""

_WIDE = 8
"""GPUs of one tensor-parallel engine from which on few cards are joined as closely as two or four."""

_SHARED_PERCENT = 17
"""The part of a memory that GPU and host share which is not free before the engine starts: 101 to 102 GiB of 121.6 were
free on GB10 kits in use."""


class Layers(StrEnum):
    """The part of a model that decides its memory next to the weights. The first of several counts."""

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


def pair_words(pair: tuple[str, str]) -> str:
    """Return a pair as a part of a sentence, e.g. ``experts on Ada cards``."""
    first, second = pair
    if isinstance(second, Card):
        return f"{first} on {second}"
    return f"{first} in {second}" if isinstance(second, Ways) else f"{first} under {second}"


def layers_of(model: ModelFacts) -> Layers:
    """Return the layers that decide the memory of a model."""
    if residual_streams(model) > 1:
        return Layers.HYPER
    if is_recurrent(model):
        return Layers.RECURRENT
    if any(isinstance(cache, LatentCache) for cache in model.caches()):
        return Layers.LATENT
    return Layers.DENSE if model.experts is None else Layers.EXPERTS


def card_of(gpu: GpuType) -> Card:
    """Return the kind of a card."""
    if gpu.vendor is Vendor.AMD:
        return Card.RDNA if is_rdna(gpu) else Card.CDNA
    if gpu.unified_memory:
        return Card.SHARED
    return Card.OTHER if gpu.compute_capability is None else _BY_CAPABILITY.get(gpu.compute_capability, Card.OTHER)


def ways_of(split: Split) -> Ways:
    """Return the kind of the engines of a replica."""
    if split.data_parallel > 1 or split.expert_parallel:
        return Ways.ENGINES
    if split.pipeline_parallel > 1:
        return Ways.STAGES
    if split.tensor_parallel >= _WIDE:
        return Ways.WIDE
    return Ways.ONE if split.tensor_parallel == 1 else Ways.TENSOR


def is_recurrent(model: ModelFacts) -> bool:
    """Whether any layer keeps a state of constant size (Mamba, gated delta net)."""
    return any(isinstance(cache, StateCache) for cache in model.caches())


@lru_cache(maxsize=256)
def residual_streams(model: ModelFacts) -> int:
    """Return how many copies of the hidden state hyper-connections pass between layers; 1 without them."""
    maps = (weight for kind in model.kinds for weight in kind.weights if weight.name in _STREAM_MAPS)
    return next((weight.inputs // model.hidden for weight in maps), 1)


def is_rdna(gpu: GpuType) -> bool:
    """Whether this is one of AMD's graphics cards (gfx10 to gfx12) and no Instinct."""
    return gpu.vendor is Vendor.AMD and (gpu.gfx or "").startswith(("gfx10", "gfx11", "gfx12"))


def either(words: Sequence[str]) -> str:
    """Return a list of alternatives: ``a, b or c``."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def shared_bytes(gpu: GpuType) -> int:
    """Return what the host's system and its other processes hold of a memory that the GPU shares with them."""
    return gpu.usable_bytes * _SHARED_PERCENT // 100 if gpu.unified_memory else 0
