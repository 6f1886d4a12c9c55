"""How the user wants the engine to be run."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.engine_options import ALL_MEDIA, Drafting, DraftMethod, HeadMethod, LoraSlots, MediaUse, Residency
from plimsoll.domain.gpus import Vendor
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.versions import EngineVersion


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding with ``tokens`` a step.

    ``draft`` is the draft model (EAGLE head or a small model of its own); None takes the model's own multi-token
    predictor (MTP), or no weights at all where ``uses_predictor`` is false (n-gram). ``head`` is the method of a draft
    that is an EAGLE head.
    """

    tokens: int
    draft: ModelFacts | None = None
    uses_predictor: bool = False
    head: HeadMethod | None = None

    @property
    def drafting(self) -> Drafting:
        """What the engine is told of it, beside which draft to load."""
        own = DraftMethod.MTP if self.uses_predictor else DraftMethod.NGRAM
        method = own if self.draft is None else self.head or DraftMethod.DRAFT_MODEL
        return Drafting(method, self.tokens)


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """How the engine is run, where the user may choose.

    ``gpu_memory_utilization_percent`` is of the usable memory; ``residency`` None keeps all weights on the GPU.
    ``unfollowed`` are further arguments that can change the memory and that no law follows. ``image_vendor`` is whose
    GPUs the user's own image is made for; None where the image is chosen by the GPU.
    """

    version: EngineVersion
    gpu_memory_utilization_percent: int = 92
    max_batched_tokens: int | None = None
    enforce_eager: bool = False
    residency: Residency | None = None
    lora: LoraSlots | None = None
    speculation: Speculation | None = None
    media: MediaUse = ALL_MEDIA
    unfollowed: tuple[str, ...] = ()
    image_vendor: Vendor | None = None
