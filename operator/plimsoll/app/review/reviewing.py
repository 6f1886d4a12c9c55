"""Reviews manifests against a live cluster: look, overlay, decide without and with them, compare."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from plimsoll.adapters.cluster.client import Cluster
from plimsoll.app.review.admission import admitted, checked_here
from plimsoll.app.review.changes import review_of
from plimsoll.app.review.deciding import new_decider
from plimsoll.app.review.hypothetical import with_fields
from plimsoll.app.review.looking import look
from plimsoll.app.review.operator_settings import operator_settings
from plimsoll.app.review.overlay import on_other_nodes, overlaid
from plimsoll.app.review.values import Means, Review, Wish
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.learned_words import Source, learned_sentence, sources_of


async def review(
    cluster: Cluster,
    wishes: Sequence[Wish],
    means: Means,
    environment: Mapping[str, str] = os.environ,
    now: float | None = None,
) -> Review:
    """Return what the operator would do after ``kubectl apply`` of all wishes. ``now`` is in POSIX seconds.

    Raises:
        PlimsollError: the cluster cannot be read.
    """
    now = time.time() if now is None else now
    settings, notes = await operator_settings(cluster, environment)
    seen = await look(cluster, settings)
    wishes = with_fields(wishes, seen.live, means.what_if)
    watched = [
        each for each in wishes if not settings.watch_namespaces or each.key.namespace in settings.watch_namespaces
    ]
    problems = [
        f"{each.where}: The operator does not serve the namespace {each.key.namespace}. "
        f"Use one of: {', '.join(settings.watch_namespaces)}."
        for each in wishes
        if each not in watched
    ]
    accepted = await admitted(cluster, watched, seen, now) if means.dry_run else checked_here(watched, seen, now)
    decider, about_prices = await new_decider(cluster, settings, means)
    try:
        before = tuple(await decider.desired(seen.picture, now))
        passes = decider.passes
        fleet = passes.reader.memo.fleet(seen.picture, passes.reader.gpu_types, passes.prices.current)
        picture = (
            on_other_nodes(seen.picture, means.what_if, fleet, passes.reader.gpu_types)
            if means.what_if
            else seen.picture
        )
        after = tuple(await decider.desired(overlaid(picture, accepted.bodies.values()), now))
    finally:
        await decider.close()
    places = {each.key: each.where for each in watched if each.key in accepted.bodies}
    found = review_of(before, after, places, fleet)
    return replace(
        found,
        problems=(*problems, *accepted.problems),
        notes=(
            *notes,
            *seen.notes,
            *about_prices,
            *accepted.notes,
            *taught_notes([each.outcome for each in after], places),
        ),
    )


def taught_notes(outcomes: Sequence[Outcome], asked: Container[ObjectKey]) -> tuple[str, ...]:
    """Return one note for each place of an object in ``asked`` whose estimate has a correction."""
    return tuple(
        f"{outcome.key.namespace}/{outcome.key.name}: {learned_sentence(each, _sources(outcome, each, outcomes))}"
        for outcome in outcomes
        if outcome.key in asked
        for each in _used(outcome)
    )


def _used(outcome: Outcome) -> Iterator[Correction]:
    """Yield the correction of each place that was decided; places on spot nodes share that of the card."""
    if outcome.request is None or outcome.decision is None:
        return
    request = outcome.request
    # A narrow cache is the planner's choice, and makes another kind of engine.
    found = (
        request.with_cache_as(narrow=pool.choice.has_narrow_cache).correction_for(pool.gpu_type, pool.split)
        for pool in outcome.decision.pools
        if pool.choice is not None
    )
    yield from dict.fromkeys(each for each in found if each is not None)


def _sources(outcome: Outcome, correction: Correction, outcomes: Iterable[Outcome]) -> list[str]:
    taught = (
        Source(f"{each.key.namespace}/{each.key.name}", seen.observation, is_own=each.key == outcome.key)
        for each in outcomes
        for seen in each.observed.seen
    )
    return sources_of(correction, taught)
