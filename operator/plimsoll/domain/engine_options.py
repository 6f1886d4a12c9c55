"""Options of an engine that cost or save memory: adapters, drafting, and weights that stay in host memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class DraftMethod(StrEnum):
    """How tokens are guessed ahead, in vLLM's words (``SpeculativeConfig.method``)."""

    NGRAM = "ngram"
    """From the prompt itself; no weights."""
    MTP = "mtp"
    """By the model's own multi-token-prediction layers."""
    EAGLE = "eagle"
    """By a head that reads the model's last hidden state."""
    EAGLE3 = "eagle3"
    """By a head that reads hidden states of several of the model's layers."""
    DRAFT_MODEL = "draft_model"
    """By a small model of its own."""


HeadMethod = Literal[DraftMethod.EAGLE, DraftMethod.EAGLE3]


@dataclass(frozen=True, slots=True)
class Drafting:
    """Speculative decoding as the engine is told: ``tokens`` guessed a step (``num_speculative_tokens``)."""

    method: DraftMethod
    tokens: int


@dataclass(frozen=True, slots=True)
class LoraSlots:
    """Adapters that the engine keeps on the GPU at once (``--max-loras``) and their largest rank."""

    adapters: int
    max_rank: int


@dataclass(frozen=True, slots=True)
class CpuOffload:
    """Weights of ``bytes_per_gpu`` stay in host memory and are read over PCIe in every step (``--cpu-offload-gb``)."""

    bytes_per_gpu: int


@dataclass(frozen=True, slots=True)
class WeightStreaming:
    """The last ``layers`` of every ``group`` decoder layers stay in host memory; ``prefetch`` of them are copied ahead.

    vLLM's ``--offload-group-size``, ``--offload-num-in-group`` and ``--offload-prefetch-step``.
    """

    group: int
    layers: int = 1
    prefetch: int = 1


Residency = CpuOffload | WeightStreaming
"""Where weights live that are not on the GPU."""
