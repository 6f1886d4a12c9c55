"""The live loop's look for room at others: for few deployments in a pass, and again only if something has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, ScaleOwner
from plimsoll.app.case import Case
from plimsoll.app.proposing import running_of
from plimsoll.app.rebalancing import Standing
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey
from plimsoll.placement.answers import Answer
from plimsoll.placement.hypothesis import Plan
from plimsoll.placement.proposing.making_room import Neighbours, room_for
from plimsoll.placement.proposing.proposals import MOST_WAITING
from plimsoll.placement.room import Room

logger = logging.getLogger("plimsoll.rooms")


@dataclass(slots=True)
class Rooms:
    """Finds room at others. Deployments that ask first in a pass get an answer: they are decided first, too."""

    _cases: Sequence[Case] = field(default=(), repr=False)
    _neighbours: Neighbours | None = field(default=None, repr=False)
    _asked: set[ObjectKey] = field(default_factory=set)
    _last: dict[ObjectKey, tuple[tuple[object, ...], Room | None]] = field(default_factory=dict, repr=False)

    def begin(self, cases: Sequence[Case]) -> None:
        """Begin a pass. Nothing is computed before somebody asks."""
        self._cases, self._neighbours, self._asked = cases, None, set()
        living = {case.key for case in cases}
        self._last = {key: known for key, known in self._last.items() if key in living}

    def of(self, plan: Plan) -> Callable[[Answer], Room | None]:
        """Return what looks for room in a plan."""
        return partial(self._find, plan)

    def _find(self, plan: Plan, lacking: Answer) -> Room | None:
        key = lacking.tenant.request.key
        if key not in self._asked and len(self._asked) >= MOST_WAITING:
            return None
        self._asked.add(key)
        try:
            return self._found(plan, lacking)
        except Exception:
            logger.exception("%s: no look for room at others in this pass", key)  # it is advice: the decision stands
            return None

    def _found(self, plan: Plan, lacking: Answer) -> Room | None:
        if self._neighbours is None:
            self._neighbours = neighbours_of(self._cases, plan.left.fleet)
        key, asked = lacking.tenant.request.key, (lacking.tenant, self._neighbours, plan.left)
        known = self._last.get(key)
        if known is None or known[0] != asked:
            known = self._last[key] = asked, room_for(plan, lacking, self._neighbours)
        return known[1]


def neighbours_of(cases: Sequence[Case], fleet: Fleet) -> Neighbours:
    """Return the replicas that may move or end for others. Those of a suspended deployment stay where they are."""
    held = {case.key for case in cases if case.resource is None or case.resource.spec.suspend}
    running = tuple(each for each in running_of(cases, fleet) if each.owner not in held)
    return Neighbours(running, dict(_spare(case for case in cases if case.key not in held)))


def _spare(cases: Iterable[Case]) -> Iterator[tuple[ObjectKey, int]]:
    for case in cases:
        if case.resource is not None and case.standing is not None:
            floor = serving_floor(case.resource.spec, case.standing)
            yield case.key, max(0, len(case.around.ready_pods()) - floor)


def serving_floor(spec: InferenceDeploymentSpec, standing: Standing) -> int:
    """Return how many replicas a deployment keeps whatever others need.

    One always serves on. A number that another controller or the load of all replicas together fixes stays whole.
    """
    if spec.rebalancing.scale is ScaleOwner.EXTERNAL:
        return max(1, standing.target_replicas)
    fixed = 0 if spec.total_concurrency is None else standing.base_replicas
    return max(1, spec.rebalancing.min_replicas, fixed)
