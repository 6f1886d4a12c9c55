"""Notes of a review on the estimates that use what engines have taught."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from plimsoll.app.case import Case
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.observations import Correction
from plimsoll.render.learned_words import Source, learned_sentence, sources_of


def taught_notes(cases: Sequence[Case], asked: Container[ObjectKey]) -> tuple[str, ...]:
    """Return one note for each place of an object in ``asked`` whose estimate has a correction."""
    return tuple(
        f"{case.key.namespace}/{case.key.name}: {learned_sentence(each, _sources(case, each, cases))}"
        for case in cases
        if case.key in asked
        for each in _used(case)
    )


def _used(case: Case) -> Iterator[Correction]:
    """Yield the correction of each place that was decided; places on spot nodes share that of the card."""
    if case.request is None or case.decision is None:
        return
    request = case.request
    # A narrow cache is the planner's choice, and makes another kind of engine.
    found = (
        request.with_cache_as(narrow=pool.choice.has_narrow_cache).correction_for(pool.gpu_type, pool.split)
        for pool in case.decision.pools
        if pool.choice is not None
    )
    yield from dict.fromkeys(each for each in found if each is not None)


def _sources(case: Case, correction: Correction, cases: Iterable[Case]) -> list[str]:
    taught = (
        Source(f"{each.key.namespace}/{each.key.name}", seen.observation, is_own=each.key == case.key)
        for each in cases
        for seen in each.seen
    )
    return sources_of(correction, taught)
