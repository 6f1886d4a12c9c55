"""The question of an estimate with what engines have taught, and sentences about what was used and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from plimsoll.cli.answers.rows import AnsweredQuestion, AnswerRow
from plimsoll.cli.cluster.teachers import Lessons, Taught
from plimsoll.cli.later import corrections_for
from plimsoll.cli.questions.asked import EstimateQuestion
from plimsoll.domain.decisions.observations import Correction, EngineKind
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.options.sizing import Sized
from plimsoll.status.words.learned import Source, learned_sentence, sources_of

_NOTHING = "No engine of this kind has taught anything: the estimate is that of the memory law alone."


def taught_question(question: EstimateQuestion, lessons: Lessons) -> EstimateQuestion:
    """Return the question with the corrections for its model, on every engine that it leaves open.

    The GPU types on which engines of the cluster were observed are its own.
    """
    request = question.request.everywhere(partial(taught_request, lessons=lessons))
    owned = frozenset(each.kind.gpu_type for each in lessons.taught if each.key is not None)
    return replace(question, request=request, owned=question.owned | owned)


def with_lesson_notes(answer: AnsweredQuestion, lessons: Lessons) -> AnsweredQuestion:
    """Return the answers with notes on the lessons that they and those of the other engine use."""
    both = (answer,) if answer.against is None else (answer, answer.against)
    found = _notes([(each.question.request, row) for each in both for row in each.rows], lessons.taught)
    question = answer.question
    return replace(answer, question=replace(question, notes=(*question.notes, *lessons.notes, *found)))


def taught_request(request: Request, lessons: Lessons, *, as_operator: bool = False) -> Request:
    """Return the request with the corrections for its model; the same object if nothing was taught.

    ``as_operator`` is as in :func:`~plimsoll.cli.cluster.lessons.corrections_for`.
    """
    if not lessons.taught:
        return request
    return replace(request, corrections=corrections_for(request, lessons, as_operator=as_operator))


def _notes(rows: Sequence[tuple[Request, AnswerRow]], taught: Sequence[Taught]) -> Iterator[str]:
    places = [(request, row.gpu.name, row.answer.split) for request, row in rows if isinstance(row.answer, Sized)]
    used = {
        each.kind: (request, each)
        for request, gpu, split in places
        if (each := request.correction_for(gpu, split)) is not None
    }
    for request, correction in used.values():
        yield used_words(request, correction, taught)
    kinds = [request.engine_kind(gpu, split) for request, gpu, split in places]
    models = {request.model.name for request, _ in rows}
    yield from _others({each.kind for each in taught if each.kind.model in models} - set(used), kinds)
    if not used:
        yield _NOTHING


def used_words(request: Request, correction: Correction, taught: Sequence[Taught]) -> str:
    """Return the sentence about a correction that an estimate uses, with its sources."""
    sources = (
        Source(each.where, each.seen.observation, is_own=each.key is not None and each.key == request.key)
        for each in taught
    )
    return learned_sentence(correction, sources_of(correction, sources))


def _others(others: Iterable[EngineKind], kinds: Sequence[EngineKind]) -> Iterator[str]:
    counts = Counter(_difference(each, kinds) for each in others)
    if counts:
        which = ", ".join(f"{count} with {what}" for what, count in sorted(counts.items()))
        yield f"Observations of other kinds of engines of this model do not apply: {which}."


def _difference(other: EngineKind, kinds: Sequence[EngineKind]) -> str:
    differences = [_differences(other, kind) for kind in kinds]
    nearest = min(differences, key=len, default=())
    return " and ".join(nearest) or "another GPU type"


def _differences(other: EngineKind, kind: EngineKind) -> tuple[str, ...]:
    parts = (
        ("another GPU type", other.gpu_type != kind.gpu_type),
        ("another split", other.split != kind.split),
        ("another release", (other.engine, other.version) != (kind.engine, kind.version)),
        ("another precision", (other.precision, other.kv_precision) != (kind.precision, kind.kv_precision)),
        ("other options or another reading of the model", other.options != kind.options),
    )
    return tuple(words for words, differs in parts if differs)
