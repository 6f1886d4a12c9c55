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
    """The method that drafts tokens."""

    NGRAM = "ngram"
    """From the prompt itself; no weights."""
    MTP = "mtp"
    """By the model's own multi-token-prediction layers."""
    EAGLE = "eagle"
    """By a head that reads the model's last hidden state."""
    EAGLE3 = "eagle3"
    """By a head that reads hidden states of several of the model's layers."""
    DRAFT_MODEL = "draft_model"
    """By a small separate model."""


HeadMethod = Literal[DraftMethod.EAGLE, DraftMethod.EAGLE3]


@dataclass(frozen=True, slots=True)
class Drafting:
    """The engine's option for speculative decoding: ``tokens`` are drafted per step (``num_speculative_tokens``)."""

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
"""How weights that are not on the GPU are kept in host memory."""


@dataclass(frozen=True, slots=True)
class MediaUse:
    """The images and videos that an engine serves, and how its tensor-parallel ranks share a vision tower.

    ``text_only`` does not load the tower (``--language-model-only``). ``copies_encoder`` gives every rank a whole tower
    and distributes the images over the ranks (``--mm-encoder-tp-mode data``). ``images`` and ``videos`` are the most
    that one request may contain (``--limit-mm-per-prompt``); None means no limit.
    """

    text_only: bool = False
    copies_encoder: bool = False
    images: int | None = None
    videos: int | None = None


ALL_MEDIA = MediaUse()
"""The engine's default: all media that the model supports, and one tower that the ranks share."""


class KvKeeper(StrEnum):
    """The part of the engine that keeps KV cache in host memory."""

    NATIVE = "native"
    """The engine's own offloading: page-locked buffers in older releases, a file in ``/dev/shm`` in newer ones."""
    TIERS = "tiers"
    """The engine's own offloading with further tiers: always in ``/dev/shm``."""
    LMCACHE = "lmcache"
    """LMCache: in the engine's process in older releases, a server outside the pod in newer ones."""
    BUFFERS = "buffers"
    """Page-locked buffers in every release."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """The host memory that the user's own arguments make an engine take.

    ``kv_bytes`` is KV cache of all ranks together, kept by ``kv_keeper``. ``media_bytes`` is a cache of processed media
    in ``/dev/shm``. ``places_tables`` means that the user decides where tables of n-grams are kept, which are in host
    memory otherwise. ``reads_whole_files`` means that every rank reads a checkpoint file as a whole while it loads.
    """

    kv_bytes: int = 0
    kv_keeper: KvKeeper = KvKeeper.NATIVE
    media_bytes: int = 0
    reads_whole_files: bool = False
    places_tables: bool = False


NO_HOST_USE = HostUse()
"""Without such arguments."""
