"""Convert the user's options for images and videos to the planner's, and refuse contradictions."""

from __future__ import annotations

from plimsoll.api.features import check_feature
from plimsoll.api.v1alpha1 import EncoderParallelism, EngineSpec, MultimodalSpec
from plimsoll.domain.engine_options import MediaUse
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of

FIELD = "spec.engine.multimodal"


def check_media(engine: EngineSpec, version: EngineVersion) -> None:
    """Refuse options that contradict each other or the release, for any model.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    wanted = engine.multimodal
    if engine.text_only:
        check_feature(engine, Feature.TEXT_ONLY, "spec.engine.textOnly", "true")
    if wanted is None:
        return
    if engine.text_only:
        raise InvalidInput("spec.engine.textOnly", "true", "It leaves the tower out: remove it, or multimodal.")
    if (wanted.images_per_prompt, wanted.videos_per_prompt) == (0, 0):
        raise InvalidInput(f"{FIELD}.videosPerPrompt", 0, "Nothing is left for the tower: write textOnly instead.")
    check_feature(engine, Feature.MEDIA_LIMITS, FIELD, version)


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
        copies_encoder=_copies_encoder(engine, wanted, model, version),
        images=wanted.images_per_prompt,
        videos=wanted.videos_per_prompt,
    )


def _copies_encoder(spec: EngineSpec, wanted: MultimodalSpec, model: ModelFacts, version: EngineVersion) -> bool:
    if wanted.encoder_parallelism is EncoderParallelism.TENSOR:
        return False
    engine = engine_of(spec.engine_name)
    since = engine.copies_encoder_since.get(model.architecture)
    if since is None or version < since:
        advice = "write Tensor." if since is None else f"write Tensor, or use {engine.title} {since} or newer."
        raise InvalidInput(
            f"{FIELD}.encoderParallelism",
            wanted.encoder_parallelism.value,
            f"{engine.title} {version} cannot copy the tower of {model.architecture}: {advice}",
        )
    return True
