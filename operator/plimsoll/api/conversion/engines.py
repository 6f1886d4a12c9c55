"""A spec that leaves the choice of the engine to the planner: the same spec for each engine, and what each refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from plimsoll.api.v1alpha1 import EngineSpec, InferenceDeployment, InferenceDeploymentSpec
from plimsoll.domain.engines.engine_choice import ANY_ENGINE, EngineRefusal
from plimsoll.domain.errors import InvalidInput, PlimsollError, shortened
from plimsoll.domain.requests.serving import NOT_PREFERRED, Request
from plimsoll.engines.registry import engine_of

T = TypeVar("T")

NAME_FIELD = "spec.engine.name"


def spec_on(spec: InferenceDeploymentSpec, engine: str) -> InferenceDeploymentSpec:
    """Return the spec as if it named this engine; the same object if it does."""
    if not spec.engine.is_open and spec.engine.engine_name == engine:
        return spec
    named = spec.engine.model_copy(update={"name": engine, "prefer": None})
    return spec.model_copy(update={"engine": named})


def resource_on(resource: InferenceDeployment, engine: str) -> InferenceDeployment:
    """Return the object as if its spec named this engine; the same object if it does."""
    spec = spec_on(resource.spec, engine)
    return resource if spec is resource.spec else resource.model_copy(update={"spec": spec})


def check_flags(spec: EngineSpec, engine: str) -> None:
    """Refuse arguments for an engine that nobody names and whose flags are not known: they may be another one's.

    Raises:
        InvalidInput: with the first argument, and the field that names the engine.
    """
    program = engine_of(engine)
    if spec.is_open and spec.extra_args and not program.knows_flags:
        fix = f"Which flags {program.title} takes is not known here: write {NAME_FIELD}: {engine} to give it some."
        raise InvalidInput("spec.engine.extraArgs[0]", spec.extra_args[0], fix)


def on_engines(spec: EngineSpec, work: Callable[[str], T]) -> tuple[tuple[tuple[str, T], ...], list[EngineRefusal]]:
    """Do some work for each engine that may run a spec. Return the results by engine, and why engines are left out.

    Raises:
        PlimsollError: no engine takes the spec. What all of them refuse alike is said once.
    """
    if spec.is_open and (spec.version or spec.image):
        field, value = ("version", spec.version) if spec.version else ("image", spec.image)
        fix = f"It is about one engine, and {NAME_FIELD} {ANY_ENGINE} leaves the choice: name the engine, or remove it."
        raise InvalidInput(f"spec.engine.{field}", value, fix)
    made: list[tuple[str, T]] = []
    refused: list[tuple[str, PlimsollError]] = []
    for engine in spec.engines:
        try:
            check_flags(spec, engine)
            made.append((engine, work(engine)))
        except PlimsollError as error:
            refused.append((engine, error))
    if not made:
        raise _of_all(refused)
    return tuple(made), [_refusal(engine, error) for engine, error in refused]


def _refusal(engine: str, error: PlimsollError) -> EngineRefusal:
    if isinstance(error, InvalidInput):
        return EngineRefusal(engine, error.field, shortened(error.value), error.fix)
    return EngineRefusal(engine, "spec.model", "the model", str(error))


def _of_all(refused: Sequence[tuple[str, PlimsollError]]) -> PlimsollError:
    errors = [error for _, error in refused]
    if len({str(error) for error in errors}) == 1:
        return errors[0]
    said = " ".join(f"{engine_of(name).title}: {error}" for name, error in refused)
    return InvalidInput(NAME_FIELD, ANY_ENGINE, f"No engine takes all of the spec. {said}")


def rank_of(engine: str, spec: EngineSpec) -> int:
    """Return the place of an engine in the user's list: 0 without a list, and the last one if it is not listed."""
    preferred = list(dict.fromkeys(spec.prefer or ()))
    return preferred.index(engine) if engine in preferred else NOT_PREFERRED if preferred else 0


def request_on_engines(resource: InferenceDeployment, convert: Callable[[InferenceDeployment], Request]) -> Request:
    """Return the request of an object: that of its engine, or one that holds those of all engines that may run it.

    Args:
        resource: the object.
        convert: makes the request of an object that names its engine.

    Raises:
        PlimsollError: no engine takes the spec.
    """
    spec = resource.spec.engine
    if not spec.is_open:
        return convert(resource)
    made, refused = on_engines(spec, lambda engine: convert(resource_on(resource, engine)))
    first, *others = (
        replace(request, engine_rank=rank_of(engine, spec), refused_engines=tuple(refused)) for engine, request in made
    )
    return replace(first, others=tuple(others)) if others else first
