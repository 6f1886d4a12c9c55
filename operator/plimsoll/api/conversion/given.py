"""The user's own arguments and variables of an engine: they are read as those of any command line."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion, LoraSlots
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import StartCommand, StartOptions

_ARGUMENTS = "spec.engine.extraArgs"


def environment_of(spec: InferenceDeploymentSpec) -> dict[str, str]:
    """Return the user's variables of the engine's container whose values are known."""
    given = () if spec.pod_template is None else spec.pod_template.env or ()
    return {each.name: each.value for each in given if each.value is not None}


def given_start(spec: InferenceDeploymentSpec) -> StartCommand:
    """Return what ``extraArgs`` and the variables of the pod say. An engine that is not known may run code.

    Raises:
        InvalidInput: the engine does not take a value. What an image of the user's own takes is not known.
    """
    engine, arguments = engine_of(spec.engine.engine_name), spec.engine.extra_args or ()
    reader = engine.start_commands
    if reader is None:
        return _start(engine.name, StartOptions(trusts_code=True))
    try:
        return reader.read(arguments, environment_of(spec), _ARGUMENTS, EngineVersion.of(spec.engine.version))
    except InvalidInput:
        if spec.engine.image is None:
            raise
        return _start(engine.name, StartOptions(unfollowed=tuple(arguments), trusts_code=True))


def _start(engine: str, options: StartOptions) -> StartCommand:
    return StartCommand(engine=engine, model=None, revision=None, split=Split(1), options=options)


def check_start(spec: InferenceDeploymentSpec, start: StartCommand, model: ModelFacts, lora: LoraSlots | None) -> None:
    """Refuse arguments with which the engine's own image does not start for this model."""
    reader = engine_of(spec.engine.engine_name).start_commands
    if reader is None or spec.engine.image is not None:
        return
    options = replace(start.options, lora=lora, max_model_len=spec.context_length)
    found = reader.misfit(model, replace(start, options=options), EngineVersion.of(spec.engine.version))
    if found is not None:
        raise InvalidInput(f"{_ARGUMENTS}: {found.flag}", found.value, found.fix)
