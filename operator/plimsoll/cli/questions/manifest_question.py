"""The question of a manifest whose models are known. It imports pydantic, and reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plimsoll.api.conversion.convert import to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.types import named_on_the_command_line
from plimsoll.domain.models.model import ModelFacts


def manifest_question(
    manifest: Mapping[str, Any],
    model: ModelFacts,
    draft: ModelFacts | None,
    asked: TypedOptions,
    *,
    shortens: bool,
    is_own: bool = True,
) -> EstimateQuestion:
    """Return the question of a manifest with the options in it.

    Args:
        manifest: the InferenceDeployment.
        model: the facts of its model.
        draft: the facts of the model that drafts, if it names one.
        asked: the options, for the types and the split that they name.
        shortens: whether nobody set the context, so that the model's own is used if it is shorter.
        is_own: whether the manifest is the user's. One that is made from a model's name has no arguments of the engine,
            so what they must have is a doubt.

    Raises:
        InvalidInput: a field cannot be used.
    """
    resource = parse_inference_deployment(manifest)
    if shortens and resource.spec.context_length > model.max_context_tokens:
        spec = {**manifest["spec"], "contextLength": model.max_context_tokens}
        resource = parse_inference_deployment({**manifest, "spec": spec})
    request = to_request(resource, model, draft=draft, refuses_code=is_own)
    overrides, notes = named_on_the_command_line(request.overrides, asked.gpus, asked.split)
    idle = resource.spec.rebalancing.idle_seconds
    return EstimateQuestion(replace(request, overrides=overrides), notes, idle_seconds=idle)
