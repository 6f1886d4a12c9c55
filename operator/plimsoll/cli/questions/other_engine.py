"""The same question about another engine, from ``--against-engine`` of ``plimsoll estimate``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plimsoll.api.bounds import usual_release
from plimsoll.cli.questions.asked import EstimateQuestion, OtherEngine, TypedOptions
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.engines.registry import ENGINES, engine_of

_OPTION = "--against-engine"


def with_other_engine(
    question: EstimateQuestion, asked: TypedOptions, ask: Callable[[TypedOptions], EstimateQuestion]
) -> EstimateQuestion:
    """Return the question, whose engine is decided, with the same one about another; the same object if none is named.

    ``ask`` makes a question of options. What the other engine does not get is its refusal, and costs the answer about
    the first one nothing.

    Raises:
        InvalidInput: there is no engine of that name, or it is the engine of the question.
    """
    if asked.against_engine is None:
        return question
    name = asked.against_engine.partition(":")[0]
    own = question.request.engine.name
    if name not in ENGINES or name == own:
        others = " or ".join(f"{each}:{usual_release(engine)}" for each, engine in ENGINES.items() if each != own)
        fix = f"Name another engine than {engine_of(own).title}, with its release if you like: {others}."
        raise InvalidInput(_OPTION, asked.against_engine, fix)
    try:
        other = ask(replace(asked, engine=asked.against_engine, against_engine=None))
    except PlimsollError as error:
        return replace(question, against=OtherEngine(engine_of(name).title, None, str(error)))
    placed = replace(other, gpus=question.gpus, split=question.split, owned=question.owned)
    return replace(question, against=OtherEngine(engine_of(name).title, placed))
