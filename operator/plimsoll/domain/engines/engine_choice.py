"""The engine, its release and its options, as the user chooses them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, NamedTuple

from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.models.model import ModelFacts


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
    """The host memory that an engine takes by the user's own arguments, and its KV cache there by the spec.

    ``kv_bytes`` is KV cache of all ranks together, kept by ``kv_keeper``. ``by_spec`` means that the spec asks for it,
    so that the operator passes the flags; ``takes_spare`` that the planner is to choose its size, and has not yet.
    ``rank_bytes`` is KV cache that every rank keeps in its own process; ``has_file`` means that a file may name another
    size, ``fills_disk`` that the engine writes files and deletes none. ``media_bytes`` is a cache of processed media in
    ``/dev/shm``. ``places_tables`` means that the user decides where tables of n-grams are kept, which are in host
    memory otherwise. ``reads_whole_files`` means that every rank reads a checkpoint file as a whole while it loads.
    """

    kv_bytes: int = 0
    kv_keeper: KvKeeper = KvKeeper.NATIVE
    rank_bytes: int = 0
    has_file: bool = False
    fills_disk: bool = False
    media_bytes: int = 0
    reads_whole_files: bool = False
    places_tables: bool = False
    by_spec: bool = False
    takes_spare: bool = False


LEAST_HOST_CACHE_BYTES, MOST_HOST_CACHE_BYTES = 2**30, 2**50
"""The bounds of a KV cache in host memory that the spec asks for. Below, there may be no room for a single block of
every rank; no host has more."""

NO_HOST_USE = HostUse()
"""Without such arguments."""


class EngineVersion(NamedTuple):
    """A release of an engine. Releases are compared to choose the memory law that applies."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def of(cls, text: str) -> EngineVersion:
        """Return the release that ``1.2`` or ``1.2.3`` names. Raises ValueError or TypeError for any other text."""
        return cls(*(int(part) for part in text.split(".")))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


DEFAULT_ENGINE = "vllm"
"""The engine of a request that names none."""

ANY_ENGINE = "auto"
"""The word of ``spec.engine.name`` that leaves the choice of the engine to the planner."""


class EngineRefusal(NamedTuple):
    """Why an engine cannot run a spec: the field that it refuses, its value, and what to write."""

    engine: str
    field: str
    value: str
    fix: str


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding with ``tokens`` drafted tokens per step.

    ``draft`` is the draft model (an EAGLE head or a small separate model). None means the model's own multi-token
    predictor (MTP), or no weights if ``uses_predictor`` is false (n-gram). ``head`` is the method of a draft that is
    an EAGLE head.
    """

    tokens: int
    draft: ModelFacts | None = None
    uses_predictor: bool = False
    head: HeadMethod | None = None

    @property
    def drafting(self) -> Drafting:
        """The method and the number of tokens for the engine, without the name of the draft."""
        own = DraftMethod.MTP if self.uses_predictor else DraftMethod.NGRAM
        method = own if self.draft is None else self.head or DraftMethod.DRAFT_MODEL
        return Drafting(method, self.tokens)


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The limits of a step, which the live loop tunes and the record of a pool keeps.

    ``step_tokens`` are the most tokens of a step of one engine (``--max-num-batched-tokens``). ``sequences`` are the
    most requests at the same time (``--max-num-seqs``): of one engine, if nothing else is said. 0: not known, or
    left as it is.
    """

    step_tokens: int = 0
    sequences: int = 0

    def of_replica(self, engines: int) -> StepLimits:
        """Return the limits of a replica with so many such engines."""
        return StepLimits(self.step_tokens, engines * self.sequences)

    def over(self, usual: StepLimits) -> StepLimits:
        """Return the same with the usual limits instead of those that are 0."""
        return StepLimits(self.step_tokens or usual.step_tokens, self.sequences or usual.sequences)


NO_LIMITS = StepLimits()


@dataclass(frozen=True, slots=True)
class StaticShare:
    """The part of the memory that is free before an engine loads its weights, for weights and caches together.

    ``thousandths`` are of that free memory, not of the card. The caches divide what the weights leave: layers with a
    window get ``window_thousandths`` of a token for a thousand tokens of the others, and recurrent layers
    ``state_slots`` states; None leaves that to the engine. ``most_tokens`` caps the tokens of the cache.
    """

    thousandths: int
    window_thousandths: int | None = None
    state_slots: int | None = None
    most_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine, its release, and the options that the user may choose.

    ``gpu_memory_utilization_percent`` is a share of the usable memory. ``residency`` None keeps all weights on the GPU.
    ``unfollowed`` are further arguments that can change the memory and that no law covers. ``image`` is the user's own
    image (empty: the operator's), and ``image_vendor`` the GPU vendor of it. ``max_sequences`` is the most requests
    that run at the same time; None lets the planner raise the declared number to what the KV cache holds. ``host`` is
    the host memory that the user's arguments make the engine take. ``model_runner`` is the one of the engine's runners
    that it is made to use, 1 or 2; None leaves the choice to the engine. ``own_defaults`` means that somebody starts
    the engine without an operator: what is not named has the default of the engine and of the GPU, ``max_sequences`` is
    that of one engine, and nothing is adjusted to what fits. ``cache_bytes`` is the size of one GPU's KV cache that is
    fixed beforehand; None means what the share leaves. ``block_tokens`` are the tokens of a cache block, and
    ``cache_blocks`` the blocks of the whole cache, if they are fixed; None leaves both to the engine.
    ``trusts_code`` means that it may run code of the model's repository. ``casts_type`` means that nobody names the
    16-bit type, so the engine may take another one on a GPU that lacks the checkpoint's. ``prefix_caching`` says
    whether prefixes are kept; None leaves it to the engine. ``plans_ahead`` is false if it may not plan a step while
    another one runs. ``unconfirmed`` are options that need files of the model's repository, which are not known here.
    ``unchecked`` are options with which the engine starts only under conditions that nothing here checks.
    """

    version: EngineVersion
    gpu_memory_utilization_percent: int = 92
    max_batched_tokens: int | None = None
    max_sequences: int | None = None
    enforce_eager: bool = False
    residency: Residency | None = None
    lora: LoraSlots | None = None
    speculation: Speculation | None = None
    media: MediaUse = ALL_MEDIA
    unfollowed: tuple[str, ...] = ()
    image_vendor: Vendor | None = None
    name: str = DEFAULT_ENGINE
    host: HostUse = NO_HOST_USE
    image: str = ""
    model_runner: int | None = None
    own_defaults: bool = False
    cache_bytes: int | None = None
    block_tokens: int | None = None
    cache_blocks: int | None = None
    trusts_code: bool = False
    casts_type: bool = False
    prefix_caching: bool | None = None
    plans_ahead: bool = True
    unconfirmed: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def limits(self) -> StepLimits:
        """The limits that are fixed, with the requests of a replica."""
        return StepLimits(self.max_batched_tokens or 0, self.max_sequences or 0)

    def limited(self, limits: StepLimits) -> EngineChoice:
        """Return the choice with these limits fixed. Those that are 0 stay as they are."""
        fixed = limits.over(self.limits)
        return replace(self, max_batched_tokens=fixed.step_tokens or None, max_sequences=fixed.sequences or None)

    @property
    def fills_host_memory(self) -> bool:
        """Whether the engine keeps weights, KV cache or media in host memory."""
        kept = max(self.host.kv_bytes, self.host.rank_bytes, self.host.media_bytes) > 0
        return self.residency is not None or kept or self.host.takes_spare
