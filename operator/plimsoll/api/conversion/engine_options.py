"""Options of the engine: refused if its release does not have them, and converted to the planner's.

The user's own arguments and variables of an engine are read as those of any command line.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.api.conversion.precision import AUTO
from plimsoll.api.v1alpha1 import (
    EncoderParallelism,
    EngineSpec,
    InferenceDeploymentSpec,
    KvPrecisionChoice,
    MultimodalSpec,
    RunnerKind,
)
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import (
    LEAST_HOST_CACHE_BYTES,
    MOST_HOST_CACHE_BYTES,
    HostUse,
    LoraSlots,
    MediaUse,
)
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.models.precision import TURBOQUANT, Precision
from plimsoll.domain.units import parse_bytes
from plimsoll.engines.base import Feature
from plimsoll.engines.flags import owned_flag
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.starts import StartCommand, StartOptions
from plimsoll.facts.models.pooling import as_pooling

_VERSION = "spec.engine.version"


def check_feature(spec: EngineSpec, feature: Feature, field: str, value: object) -> None:
    """Refuse ``field`` with its ``value`` if the engine's release lacks the feature that the field needs.

    It is the version where the model needs the feature: no field less helps then.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    engine = spec.program
    since = engine.since.get(feature)
    if since is None:
        others = " or ".join(each.name for each in ENGINES.values() if feature in each.since and each is not engine)
        ways = ("" if field == _VERSION else "remove the field", f"set spec.engine.name to {others}" if others else "")
        raise InvalidInput(
            field, value, f"It is not supported with {engine.title}: {', or '.join(filter(None, ways))}."
        )
    if spec.release < since:
        raise InvalidInput(field, value, f"{engine.title} {spec.release} does not support it: use {since} or newer.")


def refuse(spec: EngineSpec, field: str, value: object, refusal: str | None) -> None:
    """Refuse a value with which the release's own image does not start. An image of the user's own may.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    if refusal is not None and spec.image is None:
        raise InvalidInput(field, value, refusal)


def check_release(spec: EngineSpec, model: ModelFacts, precision: Precision) -> None:
    """Refuse a release that cannot load the model. An image of the user's own may have more than its release.

    Raises:
        InvalidInput: with the model class or the method that the release lacks, and the releases to use.
    """
    refusal = spec.program.release_refusal(model, precision, spec.release)
    refuse(spec, "spec.engine.version", spec.release_name, refusal)


_FEATURES = {
    KvPrecisionChoice.NVFP4: Feature.KV_NVFP4,
    KvPrecisionChoice.INT8: Feature.KV_SCALES,
    KvPrecisionChoice.FP8_SCALED: Feature.KV_SCALES,
    KvPrecisionChoice.INT4: Feature.KV_INT4,
    **{choice: Feature.KV_TURBOQUANT for choice in KvPrecisionChoice if choice.value in TURBOQUANT},
}
"""Formats that not every release has."""


def check_kv_format(spec: InferenceDeploymentSpec) -> None:
    """Refuse the format that the user chose if the engine's release does not have it.

    Raises:
        InvalidInput: with the first release that has it.
    """
    choice = spec.kv_cache.precision
    if choice in _FEATURES:
        check_feature(spec.engine, _FEATURES[choice], "spec.kvCache.precision", choice.value)


HOST_FIELD = "spec.kvCache.hostMemory"


def check_host_cache(spec: InferenceDeploymentSpec) -> None:
    """Refuse a KV cache in host memory that the release cannot have, without a size, or asked for twice.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    asked, engine = spec.kv_cache.host_memory, spec.engine.program
    if asked is None:
        return
    check_feature(spec.engine, Feature.HOST_CACHE, HOST_FIELD, asked)
    if asked != AUTO and not LEAST_HOST_CACHE_BYTES <= parse_bytes(asked) <= MOST_HOST_CACHE_BYTES:
        fix = "It must be 1Gi or more, and no more than a host can have: write e.g. 200Gi or auto, or remove it."
        raise InvalidInput(HOST_FIELD, asked, fix)
    for index, argument in enumerate(spec.engine.extra_args or ()):
        if owned_flag(argument, engine.host_cache_flags) is not None:
            fix = f"{HOST_FIELD} sets the cache in host memory: remove the flag, or {HOST_FIELD}."
            raise InvalidInput(f"{_ARGUMENTS}[{index}]", argument, fix)


def to_host_use(spec: InferenceDeploymentSpec, model: ModelFacts, options: StartOptions) -> HostUse:
    """Return the host memory that the engine takes by the user's arguments and by the spec.

    Args:
        spec: the spec, already checked by :func:`check_host_cache`.
        model: the model that is served.
        options: what the user's arguments say.

    Raises:
        InvalidInput: an argument cannot be read, or the release keeps no cache of this model in host memory.
    """
    asked, engine = spec.kv_cache.host_memory, spec.engine.program
    given = engine.host_use(spec.engine.extra_args or (), environment_of(spec))
    if asked is None:
        return given
    refusal = engine.host_cache_refusal(model, spec.engine.release, options, environment_of(spec))
    refuse(spec.engine, HOST_FIELD, asked, refusal)
    if asked == AUTO:
        return replace(given, by_spec=True, takes_spare=True)
    return replace(given, by_spec=True, kv_bytes=parse_bytes(asked))


FIELD = "spec.engine.multimodal"


def check_media(engine: EngineSpec) -> None:
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
    check_feature(engine, Feature.MEDIA_LIMITS, FIELD, engine.release)


def to_media(engine: EngineSpec, model: ModelFacts) -> MediaUse:
    """Return the planner's options for images and videos.

    Args:
        engine: the user's options, already checked by :func:`check_media`.
        model: the model that is served.

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
        copies_encoder=_copies_encoder(engine, wanted, model),
        images=wanted.images_per_prompt,
        videos=wanted.videos_per_prompt,
    )


def _copies_encoder(spec: EngineSpec, wanted: MultimodalSpec, model: ModelFacts) -> bool:
    if wanted.encoder_parallelism is EncoderParallelism.TENSOR:
        return False
    engine = spec.program
    since = engine.copies_encoder_since.get(model.architecture)
    if since is None or spec.release < since:
        advice = "write Tensor." if since is None else f"write Tensor, or use {engine.title} {since} or newer."
        raise InvalidInput(
            f"{FIELD}.encoderParallelism",
            wanted.encoder_parallelism.value,
            f"{engine.title} {spec.release} cannot copy the tower of {model.architecture}: {advice}",
        )
    return True


RUNNER_FIELD = "spec.engine.runner"


def as_served(model: ModelFacts, engine: EngineSpec) -> ModelFacts:
    """Return the model with the task that its engine is started for.

    Raises:
        InvalidInput: the class does not generate, the release cannot pool, or an option is about generating.
    """
    if engine.runner is RunnerKind.GENERATE and model.task is Task.POOL:
        raise InvalidInput(RUNNER_FIELD, engine.runner.value, f"{model.architecture} does not generate: remove runner.")
    if engine.runner is RunnerKind.POOLING:
        model = as_pooling(model)
    if model.task is Task.POOL:
        _check_options(model, engine)
    return model


def _check_options(model: ModelFacts, engine: EngineSpec) -> None:
    check_feature(engine, Feature.POOLING, _VERSION, f"{engine.release_name} for {model.architecture}")
    if engine.speculation is not None:
        method = engine.speculation.method.value
        raise InvalidInput("spec.engine.speculation", method, "A model that pools drafts nothing: remove speculation.")
    if engine.lora is not None and not model.keeps_cache:
        raise InvalidInput("spec.engine.lora", model.architecture, "No law covers adapters of encoders; remove it.")


_ARGUMENTS = "spec.engine.extraArgs"


def environment_of(spec: InferenceDeploymentSpec) -> dict[str, str]:
    """Return the user's variables of the engine's container whose values are known."""
    return {each.name: each.value for each in spec.pods.env or () if each.value is not None}


def given_start(spec: InferenceDeploymentSpec) -> StartCommand:
    """Return what ``extraArgs`` and the variables of the pod say. An engine that is not known may run code.

    Raises:
        InvalidInput: the engine does not take a value. What an image of the user's own takes is not known.
    """
    engine, arguments = spec.engine.program, spec.engine.extra_args or ()
    reader = engine.start_commands
    if reader is None:
        return _start(engine.name, StartOptions(trusts_code=True))
    try:
        return reader.read(arguments, environment_of(spec), _ARGUMENTS, spec.engine.release)
    except InvalidInput:
        if spec.engine.image is None:
            raise
        return _start(engine.name, StartOptions(unfollowed=tuple(arguments), trusts_code=True))


def _start(engine: str, options: StartOptions) -> StartCommand:
    return StartCommand(engine=engine, model=None, revision=None, split=Split(1), options=options)


def check_start(spec: InferenceDeploymentSpec, start: StartCommand, model: ModelFacts, lora: LoraSlots | None) -> None:
    """Refuse arguments with which the engine's own image does not start for this model."""
    reader = spec.engine.program.start_commands
    if reader is None or spec.engine.image is not None:
        return
    options = replace(start.options, lora=lora, max_model_len=spec.context_length)
    found = reader.misfit(model, replace(start, options=options), spec.engine.release)
    if found is not None:
        raise InvalidInput(f"{_ARGUMENTS}: {found.flag}", found.value, found.fix)
