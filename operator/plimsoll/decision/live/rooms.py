"""The live loop's look for room at others: for few deployments in a pass, and again only if something has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, ScaleOwner
from plimsoll.decision.live.proposing import running_of
from plimsoll.decision.outcome import Ready
from plimsoll.decision.turns import Standing
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.proposing.proposals import Neighbours, room_for
from plimsoll.placement.solvers import Stock
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import Plan, Room

MOST_SEARCHES = 5
"""The most new searches in a pass. Who comes behind is searched for in one of the next passes, some seconds later."""

KEPT_PASSES = 20
"""How many passes an answer is kept that nobody asks for: most passes repeat the turns that nothing has changed."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer, the pass in which it was given last, and everything that it depends on."""

    lacking: Tenant
    rest: tuple[Neighbours, Stock]
    room: Room | None
    used: int


@dataclass(slots=True)
class Rooms:
    """Finds room at others. Who is decided first in a pass is searched for first."""

    _planned: Callable[[], Iterable[Ready]] = field(default=tuple, repr=False)
    _neighbours: Neighbours | None = field(default=None, repr=False)
    _searches: int = 0
    _passes: int = 0
    _last: dict[ObjectKey, _Known] = field(default_factory=dict, repr=False)

    def begin(self, planned: Callable[[], Iterable[Ready]]) -> None:
        """Begin a pass. ``planned`` gives all deployments with a decision; nobody asks before somebody lacks room."""
        self._planned, self._neighbours, self._searches = planned, None, 0
        self._passes += 1
        self._last = {key: known for key, known in self._last.items() if self._passes - known.used <= KEPT_PASSES}

    def room(self, plan: Plan, lacking: Answer) -> Room | None:
        """Return the changes of others in a plan that make room for an answer that lacks some."""
        if self._neighbours is None:
            self._neighbours = neighbours_of(self._planned(), plan.left.fleet)
        key, tenant, rest = lacking.tenant.request.key, lacking.tenant, (self._neighbours, plan.left)
        known = self._last.get(key)
        if known is not None and known.lacking != tenant:
            known = None
        if known is None or known.rest != rest:
            if self._searches >= MOST_SEARCHES:
                return None if known is None else known.room
            self._searches += 1
            known = _Known(tenant, rest, room_for(plan, lacking, self._neighbours), self._passes)
        self._last[key] = replace(known, used=self._passes)
        return known.room


def neighbours_of(planned: Iterable[Ready], fleet: Fleet) -> Neighbours:
    """Return the replicas that may move or end for others. Those of a suspended deployment stay where they are."""
    free = [ready for ready in planned if ready.deployment.spec is not None and not ready.deployment.spec.suspend]
    return Neighbours(tuple(running_of(free, fleet)), dict(_spare(free)))


def _spare(planned: Iterable[Ready]) -> Iterator[tuple[ObjectKey, int]]:
    for ready in planned:
        if ready.deployment.spec is not None:
            floor = serving_floor(ready.deployment.spec, ready.standing)
            yield ready.key, max(0, len(ready.deployment.placed.around.ready_pods()) - floor)


def serving_floor(spec: InferenceDeploymentSpec, standing: Standing) -> int:
    """Return how many replicas a deployment keeps whatever others need.

    One always serves on. A number that another controller or the load of all replicas together fixes stays whole.
    """
    if spec.rebalancing.scale is ScaleOwner.EXTERNAL:
        return max(1, standing.target_replicas)
    fixed = 0 if spec.total_concurrency is None else standing.base_replicas
    return max(1, spec.rebalancing.min_replicas, fixed)
