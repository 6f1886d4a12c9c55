"""Convert the user's options for images and videos to the planner's, and refuse contradictions."""

from __future__ import annotations

from plimsoll.api.v1alpha1 import EncoderParallelism, EngineSpec, MultimodalSpec
from plimsoll.domain.engine_options import MediaUse
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.versions import EngineVersion
from plimsoll.memory.served import COPIES_ENCODER_SINCE

FIELD = "spec.engine.multimodal"
TEXT_ONLY_SINCE = EngineVersion(0, 17)
"""The first release with ``--language-model-only``."""

_LIMITS_SINCE = EngineVersion(0, 9)
"""The first release that reads ``--limit-mm-per-prompt`` as JSON."""


def check_media(engine: EngineSpec, version: EngineVersion) -> None:
    """Refuse options that contradict each other or the release, for any model.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    wanted = engine.multimodal
    if engine.text_only and version < TEXT_ONLY_SINCE:
        raise InvalidInput("spec.engine.textOnly", "true", f"vLLM {version} cannot; use {TEXT_ONLY_SINCE} or newer.")
    if wanted is None:
        return
    if engine.text_only:
        raise InvalidInput("spec.engine.textOnly", "true", "It leaves the tower out: remove it, or multimodal.")
    if (wanted.images_per_prompt, wanted.videos_per_prompt) == (0, 0):
        raise InvalidInput(f"{FIELD}.videosPerPrompt", 0, "Nothing is left for the tower: write textOnly instead.")
    if version < _LIMITS_SINCE:
        raise InvalidInput(FIELD, version, f"Use vLLM {_LIMITS_SINCE} or newer.")


def to_media(engine: EngineSpec, model: ModelFacts, version: EngineVersion) -> MediaUse:
    """Return the planner's options for images and videos.

    Args:
        engine: the user's options, already checked by :func:`check_media`.
        model: the model that is served.
        version: the engine's release.

    Raises:
        InvalidInput: the model has no tower, or the release cannot run the tower with these options.
    """
    wanted = engine.multimodal
    if wanted is None:
        return MediaUse(text_only=engine.text_only)
    if model.encoder is None:
        raise InvalidInput(FIELD, model.architecture, "This model class has no vision tower: remove multimodal.")
    if wanted.images_per_prompt == 0 and model.encoder.video is None:
        raise InvalidInput(f"{FIELD}.imagesPerPrompt", 0, "Nothing is left for the tower: write textOnly instead.")
    return MediaUse(
        copies_encoder=_copies_encoder(wanted, model, version),
        images=wanted.images_per_prompt,
        videos=wanted.videos_per_prompt,
    )


def _copies_encoder(wanted: MultimodalSpec, model: ModelFacts, version: EngineVersion) -> bool:
    if wanted.encoder_parallelism is EncoderParallelism.TENSOR:
        return False
    since = COPIES_ENCODER_SINCE.get(model.architecture)
    if since is None or version < since:
        advice = "write Tensor." if since is None else f"write Tensor, or use vLLM {since} or newer."
        raise InvalidInput(
            f"{FIELD}.encoderParallelism",
            wanted.encoder_parallelism.value,
            f"vLLM {version} cannot copy the tower of {model.architecture}: {advice}",
        )
    return True
