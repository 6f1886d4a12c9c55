"""Speculative decoding: who guesses tokens ahead, and how many."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.config import JsonDict

from plimsoll.api.v1alpha1.base import MODEL_NAME, NAME_OR_ADDRESS, PATH_OR_ADDRESS, ApiModel, no_addresses, rule
from plimsoll.api.v1alpha1.values import FreeForm
from plimsoll.domain.engine_options import SpeculationMethod


class DraftModelSpec(ApiModel):
    """The draft: a head or a small model. Read with the token of the model."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = no_addresses("speculation.draftModel")

    name: str = Field(
        min_length=1,
        max_length=200,
        pattern=MODEL_NAME,
        json_schema_extra=NAME_OR_ADDRESS,
        description="Hugging Face id, e.g. yuhuili/EAGLE3-LLaMA3.1-Instruct-8B; any name where config is inline.",
    )
    revision: str | None = Field(default=None, min_length=1, max_length=128, description="Commit, tag or branch.")
    config: FreeForm | None = Field(
        default=None, description="The draft's config.json, inline, for drafts that are on no hub."
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        pattern=r"^/",
        json_schema_extra=PATH_OR_ADDRESS,
        description="Directory in the pod that holds the draft's weights.",
    )


class SpeculationSpec(ApiModel):
    """Speculative decoding (--speculative-config)."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = (
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
    draft_model: DraftModelSpec | None = Field(
        default=None, description="The head of method Eagle, or the model of method Draft."
    )
