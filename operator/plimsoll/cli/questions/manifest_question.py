"""The question of a manifest whose models are known. It imports pydantic, and reads no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from plimsoll.api.conversion.convert import to_request
from plimsoll.api.conversion.engines import request_on_engines
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.types import named_on_the_command_line
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of


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
    convert = partial(to_request, model=model, draft=draft, refuses_code=is_own)
    request = request_on_engines(resource, convert)
    overrides, notes = named_on_the_command_line(request.overrides, asked.gpus, asked.split)
    idle = resource.spec.rebalancing.idle_seconds
    request = request.everywhere(lambda each: replace(each, overrides=overrides))
    return EstimateQuestion(request, (*_left_out(request), *notes), idle_seconds=idle)


def _left_out(request: Request) -> Iterator[str]:
    """Yield why engines are not compared, where the planner chooses the engine."""
    for each in request.refused_engines:
        yield f"{engine_of(each.engine).title} does not take {each.field}: {each.value}. {each.fix}"
