"""Reviews manifests against a live cluster: look, overlay, decide without and with them, compare."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from plimsoll.adapters.cluster.client import Cluster
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.review.admission import admitted, checked_here
from plimsoll.app.review.comparing import are_restarted, compared
from plimsoll.app.review.deciding import new_decider
from plimsoll.app.review.hypothetical import with_fields
from plimsoll.app.review.looking import look, operator_settings
from plimsoll.app.review.overlay import on_other_nodes, overlaid
from plimsoll.app.review.values import DecidedDeployment, DeploymentWish, Means, PricedReplicas, Review
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.demands.pools import PlannedPool, Pool, PoolState, as_it_runs
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.status.record.reading import read, whole_status
from plimsoll.status.words.learned import Source, learned_sentence, sources_of


async def review(
    cluster: Cluster,
    wishes: Sequence[DeploymentWish],
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
    async with new_decider(cluster, settings, means) as (decider, about_prices):
        before = (await decider.decided(seen.picture, now)).desired
        passes = decider.passes
        fleet = passes.reader.memo.fleet(seen.picture, passes.reader.gpu_types, passes.prices.current)
        picture = (
            on_other_nodes(seen.picture, means.what_if, fleet, passes.reader.gpu_types)
            if means.what_if
            else seen.picture
        )
        after = (await decider.decided(overlaid(picture, accepted.bodies.values()), now)).desired
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


def review_of(
    before: Sequence[Desired], after: Sequence[Desired], places: Mapping[ObjectKey, str], fleet: Fleet
) -> Review:
    """Compare two passes over one cluster: one without and one with the user's files.

    Args:
        before: the decisions of the pass without them.
        after: the decisions of the pass with them.
        places: the place in the files, for each object in them.
        fleet: the fleet of both passes.
    """
    prices = _Prices(fleet, (*before, *after))
    without, decided = ([_decided(each, prices) for each in pass_] for pass_ in (before, after))
    return compared(without, decided, places, fleet)


class _Prices:
    """The price of one replica: as it was decided in one of the passes, else that of the fleet's GPU type."""

    def __init__(self, fleet: Fleet, desired: Iterable[Desired]) -> None:
        self._fleet = fleet
        self._decided: dict[tuple[ObjectKey, str], Decimal | None] = {}
        for each in desired:
            decision = each.outcome.decision
            for pool in () if decision is None else decision.pools:
                if pool.choice is not None:
                    self._decided.setdefault((each.key, pool.name), pool.choice.hourly_price)

    def places(self, key: ObjectKey, pools: Iterable[Pool | PlannedPool]) -> tuple[PricedReplicas, ...]:
        """The places of the pools that are in force; retiring ones are left out."""
        return tuple(
            self._place(key, pool.name, pool.gpu_type, pool.split, pool.replicas)
            for pool in pools
            if pool.state is PoolState.ACTIVE and pool.replicas
        )

    def _place(self, key: ObjectKey, name: str, gpu_type: str, split: Split, replicas: int) -> PricedReplicas:
        gpu = self._fleet.named(gpu_type)
        each = self._decided.get((key, name), None if gpu is None else hourly_price(gpu, split))
        return PricedReplicas(gpu_type, split, replicas, None if each is None else each * replicas)


def _decided(desired: Desired, prices: _Prices) -> DecidedDeployment:
    outcome = desired.outcome
    placed, spec = outcome.deployment.placed, outcome.deployment.spec
    before = prices.places(desired.key, placed.pools)
    return DecidedDeployment(
        key=desired.key,
        before=before,
        after=before if outcome.decision is None else prices.places(desired.key, outcome.decision.pools),
        status=whole_status(read(desired.new_status)),
        restarts=are_restarted(desired.manifests, desired.workloads),
        has_problem=outcome.problem is not None,
        is_stuck=_is_stuck(outcome),
        is_suspended=spec is not None and spec.suspend,
        manifests=desired.manifests,
    )


def _is_stuck(outcome: Outcome) -> bool:
    """Whether pods find no node and their replicas get no other place: the operator leaves them where they are."""
    stranded = {pool.name for pool in outcome.deployment.placed.active if pool.leaving}
    decision = outcome.decision
    if outcome.problem is not None or decision is None or decision.missing:
        return False
    return any(pool.name in stranded and pool.replicas for pool in decision.pools)


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
        as_it_runs(request, pool).correction_for(pool.gpu_type, pool.split)
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
