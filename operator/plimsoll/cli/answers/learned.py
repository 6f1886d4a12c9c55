"""The answers of an estimate with what engines have taught, and sentences about what was used and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from plimsoll.cli.cluster.teachers import Lessons, Taught, Teachers
from plimsoll.cli.later import corrections_for, lessons_of
from plimsoll.cli.questions.asked import EstimateQuestion
from plimsoll.cli.questions.types import answers
from plimsoll.domain.decisions.observations import Correction, EngineKind
from plimsoll.domain.decisions.outcomes import Rejection
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.options.sizing import Sized
from plimsoll.status.words.learned import Source, learned_sentence, sources_of

Answers = list[Sized | Rejection]

_NOTHING = "No engine of this kind has taught anything: the estimate is that of the memory law alone."


def learned_answers(question: EstimateQuestion, teachers: Teachers) -> tuple[EstimateQuestion, Answers]:
    """Return the answers for each GPU type, and the question with the corrections and the notes on them.

    Raises:
        PlimsollError: a GPU type is not catalogued, or a source of observations cannot be used.
    """
    if not teachers.are_asked:
        return question, answers(question.request, question.gpus, question.split, question.share)
    lessons = lessons_of(teachers)
    request = taught_request(question.request, lessons)
    found = answers(request, question.gpus, question.split, question.share)
    notes = (*question.notes, *lessons.notes, *_notes(request, found, lessons.taught))
    owned = frozenset(each.kind.gpu_type for each in lessons.taught if each.key is not None)
    return replace(question, request=request, notes=notes, owned=owned), found


def taught_request(request: Request, lessons: Lessons, *, as_operator: bool = False) -> Request:
    """Return the request with the corrections for its model; the same object if nothing was taught.

    ``as_operator`` is as in :func:`~plimsoll.cli.cluster.lessons.corrections_for`.
    """
    if not lessons.taught:
        return request
    return replace(request, corrections=corrections_for(request, lessons, as_operator=as_operator))


def _notes(request: Request, found: Answers, taught: Sequence[Taught]) -> Iterator[str]:
    places = [(each.gpu.name, each.split) for each in found if isinstance(each, Sized)]
    used = {each.kind: each for place in places if (each := request.correction_for(*place)) is not None}
    for correction in used.values():
        yield used_words(request, correction, taught)
    kinds = [request.engine_kind(*place) for place in places]
    others = {each.kind for each in taught if each.kind.model == request.model.name}
    yield from _others(others - set(used), kinds)
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
