"""Options of an engine that cost or save memory: adapters, drafting, media, and weights that stay in host memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class SpeculationMethod(StrEnum):
    """Who guesses the tokens."""

    NGRAM = "Ngram"
    """The prompt itself: no weights."""
    MTP = "Mtp"
    """The model's own multi-token-prediction layers."""
    EAGLE = "Eagle"
    """A head that reads the model's hidden states; EAGLE or EAGLE-3, as its configuration says."""
    DRAFT = "Draft"
    """A small model of the same vocabulary."""


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


@dataclass(frozen=True, slots=True)
class MediaUse:
    """What an engine serves of images and videos, and how its tensor-parallel ranks share a vision tower.

    ``text_only`` leaves the tower out (``--language-model-only``). ``copies_encoder`` gives every rank a whole tower
    and deals the images out (``--mm-encoder-tp-mode data``). ``images`` and ``videos`` bound how many one request may
    bring (``--limit-mm-per-prompt``), None not at all.
    """

    text_only: bool = False
    copies_encoder: bool = False
    images: int | None = None
    videos: int | None = None


ALL_MEDIA = MediaUse()
"""What the engine does untold: everything that the model can, and a tower that the ranks share."""
