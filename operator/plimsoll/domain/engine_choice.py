"""The engine and its options, as the user chooses them."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.engine_options import (
    ALL_MEDIA,
    NO_HOST_USE,
    Drafting,
    DraftMethod,
    HeadMethod,
    HostUse,
    LoraSlots,
    MediaUse,
    Residency,
)
from plimsoll.domain.gpus import Vendor
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.versions import EngineVersion

DEFAULT_ENGINE = "vllm"
"""The engine of a request that names none."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding with ``tokens`` drafted tokens per step.

    ``draft`` is the draft model (an EAGLE head or a small separate model). None means the model's own multi-token
    predictor (MTP), or no weights where ``uses_predictor`` is false (n-gram). ``head`` is the method of a draft that is
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
    ``cache_blocks`` the blocks of the whole cache, where they are fixed; None leaves both to the engine.
    ``trusts_code`` means that it may run code of the model's repository. ``casts_type`` means that nobody names the
    16-bit type, so the engine may take another one on a GPU that lacks the checkpoint's. ``prefix_caching`` says
    whether prefixes are kept; None leaves it to the engine. ``plans_ahead`` is false where it may not plan a step while
    another one runs. ``unconfirmed`` are options that need files of the model's repository, which are not known here.
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

    @property
    def fills_host_memory(self) -> bool:
        """Whether the engine keeps weights, KV cache or media in host memory."""
        return self.residency is not None or self.host.kv_bytes > 0 or self.host.media_bytes > 0
