"""Convert the user's choice of a runner to the model that is served, and refuse contradictions."""

from __future__ import annotations

from plimsoll.api.features import check_feature
from plimsoll.api.v1alpha1 import EngineSpec, RunnerKind
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import ModelFacts, Task
from plimsoll.engines.base import Feature
from plimsoll.facts.models.pooling import as_pooling

FIELD = "spec.engine.runner"


def as_served(model: ModelFacts, engine: EngineSpec) -> ModelFacts:
    """Return the model with the task that its engine is started for.

    Raises:
        InvalidInput: the class does not generate, the release cannot pool, or an option is about generating.
    """
    if engine.runner is RunnerKind.GENERATE and model.task is Task.POOL:
        raise InvalidInput(FIELD, engine.runner.value, f"{model.architecture} does not generate: remove runner.")
    if engine.runner is RunnerKind.POOLING:
        model = as_pooling(model)
    if model.task is Task.POOL:
        _check_options(model, engine)
    return model


def _check_options(model: ModelFacts, engine: EngineSpec) -> None:
    check_feature(engine, Feature.POOLING, "spec.engine.version", f"{engine.version} for {model.architecture}")
    if engine.speculation is not None:
        method = engine.speculation.method.value
        raise InvalidInput("spec.engine.speculation", method, "A model that pools drafts nothing: remove speculation.")
    if engine.lora is not None and not model.keeps_cache:
        raise InvalidInput("spec.engine.lora", model.architecture, "No law covers adapters of encoders; remove it.")
