"""Images and videos: how many a request may bring, and how GPUs share the tower that reads them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.config import JsonDict

from plimsoll.api.v1alpha1.base import ApiModel, rule


class EncoderParallelism(StrEnum):
    """The part of the vision tower that each GPU of a replica holds (--mm-encoder-tp-mode)."""

    TENSOR = "Tensor"
    """A share of its matrices; some towers cannot be cut and are copied."""
    DATA = "Data"
    """A copy: faster, as GPUs read different images, for more memory."""


class MultimodalSpec(ApiModel):
    """Images and videos of a model with a vision tower."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = (
        rule(
            "!has(self.imagesPerPrompt) || !has(self.videosPerPrompt) || "
            "self.imagesPerPrompt + self.videosPerPrompt > 0",
            "engine.multimodal takes neither images nor videos: write engine.textOnly instead",
        ),
    )
    encoder_parallelism: EncoderParallelism = Field(
        default=EncoderParallelism.TENSOR,
        description="--mm-encoder-tp-mode. Tensor: the GPUs share the tower. Data: each GPU holds the whole tower.",
    )
    images_per_prompt: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None, description="--limit-mm-per-prompt: most images of one request. 0: images are refused."
    )
    videos_per_prompt: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None,
        description="--limit-mm-per-prompt: most videos of one request. 0 saves the memory of the longest video.",
    )
