"""Options of a spec: speculative decoding, images and videos, maintenance windows and scheduled minima."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import (
    MODEL_NAME,
    NAME_OR_ADDRESS,
    PATH_OR_ADDRESS,
    ApiModel,
    no_addresses,
    optional,
    rule,
)
from plimsoll.api.v1alpha1.values import FreeForm
from plimsoll.domain.engines.engine_choice import SpeculationMethod


class DraftModelSpec(ApiModel):
    """The draft: a head or a small model. Read with the token of the model."""

    cel_rules = no_addresses("speculation.draftModel")

    name: str = Field(
        min_length=1,
        max_length=200,
        pattern=MODEL_NAME,
        json_schema_extra=NAME_OR_ADDRESS,
        description="Hugging Face id, e.g. yuhuili/EAGLE3-LLaMA3.1-Instruct-8B; any name where config is inline.",
    )
    revision: str | None = optional("Commit, tag or branch.", min_length=1, max_length=128)
    config: FreeForm | None = optional("The draft's config.json, inline, for drafts that are on no hub.")
    path: str | None = optional(
        "Directory in the pod that holds the draft's weights.",
        min_length=1,
        max_length=1024,
        pattern=r"^/",
        json_schema_extra=PATH_OR_ADDRESS,
    )


class SpeculationSpec(ApiModel):
    """Speculative decoding (--speculative-config)."""

    cel_rules = (
        rule(
            "has(self.draftModel) || !(self.method in ['Eagle', 'Draft'])",
            "speculation.method Eagle and Draft need speculation.draftModel: name the head or the small model",
        ),
        rule(
            "!has(self.draftModel) || self.method in ['Eagle', 'Draft']",
            "speculation.draftModel is for the methods Eagle and Draft: remove it, or change the method",
        ),
    )
    method: SpeculationMethod = Field(
        description="Ngram: from the prompt. Mtp: the model's own prediction layers. Eagle: a head. Draft: a small "
        "model of the same vocabulary."
    )
    tokens: Annotated[int, Field(ge=1, le=32)] = Field(description="Tokens that are guessed in a step.")
    draft_model: DraftModelSpec | None = optional("The head of method Eagle, or the model of method Draft.")


class EncoderParallelism(StrEnum):
    """The part of the vision tower that each GPU of a replica holds (--mm-encoder-tp-mode)."""

    TENSOR = "Tensor"
    """A share of its matrices; some towers cannot be cut and are copied."""
    DATA = "Data"
    """A copy: faster, as GPUs read different images, for more memory."""


class MultimodalSpec(ApiModel):
    """Images and videos of a model with a vision tower."""

    cel_rules = (
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
    images_per_prompt: Annotated[int, Field(ge=0, le=1000)] | None = optional(
        "--limit-mm-per-prompt: most images of one request. 0: images are refused."
    )
    videos_per_prompt: Annotated[int, Field(ge=0, le=1000)] | None = optional(
        "--limit-mm-per-prompt: most videos of one request. 0 saves the memory of the longest video."
    )


SCHEDULE = r"^[0-9*/,-]+( +[0-9*/,-]+){2} +[0-9A-Za-z*/,-]+ +([0-9*/,-]|[A-Za-z]{3})+$"
"""Five fields of cron. Which numbers and names they may hold is checked when the spec is read."""

DURATION = r"^([1-9][0-9]{0,2}h([0-9]{1,2}m)?|[1-9][0-9]{0,3}m)$"
TIME_ZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,2}$"
"""A name of the time zone database. It cannot be a path: it has no dot and begins with a letter."""

MOST_WINDOWS = 8
MOST_SCHEDULED = 32


class MaintenanceWindowSpec(ApiModel):
    """Times at which engines may be moved and restarted."""

    schedule: Annotated[str, Field(min_length=9, max_length=100, pattern=SCHEDULE)] = Field(
        description="When the window opens, as a cron schedule of five fields, e.g. 0 2 * * sat."
    )
    duration: Annotated[str, Field(min_length=2, max_length=8, pattern=DURATION)] = Field(
        description="How long it stays open, in hours and minutes, e.g. 90m, 4h or 4h30m."
    )
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] = Field(
        default="UTC", description="Time zone of the schedule, as the time zone database names it, e.g. Europe/Berlin."
    )


class ScheduledMinimumSpec(ApiModel):
    """Times at which a number of replicas must be ready, whatever the load is."""

    cel_rules = (
        rule(
            "has(self.duration) != has(self.until)",
            "rebalancing.schedule: write exactly one of duration (how long the minimum counts) and until (the cron "
            "schedule at which it ends)",
        ),
    )

    cron: Annotated[str, Field(min_length=9, max_length=100, pattern=SCHEDULE)] = Field(
        description="When the replicas must be ready, as a cron schedule of five fields, e.g. 0 8 * * mon-fri. They "
        "are started earlier by the learned start-up."
    )
    duration: Annotated[str, Field(min_length=2, max_length=8, pattern=DURATION)] | None = optional(
        "How long the minimum counts, in hours and minutes, e.g. 90m, 4h or 4h30m. Or write until."
    )
    until: Annotated[str, Field(min_length=9, max_length=100, pattern=SCHEDULE)] | None = optional(
        "When the minimum ends: the next time of this cron schedule, e.g. 0 18 * * mon-fri. Or write duration."
    )
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=TIME_ZONE)] = Field(
        default="UTC", description="Time zone of both, as the time zone database names it, e.g. Europe/Berlin."
    )
    min_replicas: Annotated[int, Field(ge=1, le=1000)] = Field(
        description="Fewest ready replicas in this time. Of entries that overlap, the largest number counts."
    )
