"""A cache of what the last pass rendered: most objects change in only a few passes a day.

While a deployment starts, its pods change in nearly every pass, and what they are made from does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.app.plan.case import Case
from plimsoll.app.reading.reading_memo import Kept
from plimsoll.app.watch.store import Body
from plimsoll.domain.platforms import ImagePlatforms
from plimsoll.domain.workload import Manifest
from plimsoll.placement.pools import PlannedPool

UNWRITTEN_SECONDS = 120.0
"""How long a status that is not written yet is good: the last of a thousand new objects waits so long for its turn."""

_RENDERED = ("report", "manifests", "new_status")
_NOT_RENDERED = ("body", "inbox", "outbox", "is_being_written")

_what_is_rendered = attrgetter(*(each.name for each in fields(Case) if each.name not in (*_NOT_RENDERED, *_RENDERED)))


@dataclass(frozen=True, slots=True)
class _Last:
    """The last rendering for one version of an object, the facts it was made from, and until when it is good."""

    body: Body
    facts: tuple[Any, ...]
    rendered: tuple[Any, ...]
    until: float


@dataclass(frozen=True, slots=True)
class _Made:
    """The manifests of an object, and all that they were made from."""

    resource: InferenceDeployment | None
    pools: tuple[PlannedPool, ...] | None
    platforms: ImagePlatforms | None
    numbers: tuple[tuple[tuple[str, int], ...], ...]
    manifests: list[Manifest]


@dataclass(slots=True)
class Rendered:
    """The last manifests and the last rendering of every object.

    The time is not compared if the object's status already equals the rendering: the time only dates changes, and this
    rendering changes nothing. Any other is good for :data:`UNWRITTEN_SECONDS`.
    """

    _kept: Kept[_Last] = field(default_factory=Kept)
    _made: Kept[_Made] = field(default_factory=Kept)
    _now: float = 0.0

    def begin(self, now: float) -> None:
        """Begin a pass. ``now`` is in POSIX seconds."""
        self._kept.begin()
        self._made.begin()
        self._now = now

    def manifests(self, case: Case, make: Callable[[Case], list[Manifest]]) -> list[Manifest]:
        """Return the last manifests if spec, pools and the image's platforms are the same; else make them."""
        pools, numbers = None if case.decision is None else case.decision.pools, (case.held_back, case.replacing)
        platforms = None if case.decision is None else case.decision.request.platforms
        known = self._made.get(case.uid)
        same = known is not None and known.resource is case.resource and known.numbers == numbers
        if known is None or not same or (known.pools, known.platforms) != (pools, platforms):
            known = _Made(case.resource, pools, platforms, numbers, make(case))
        return self._made.put(case.uid, known).manifests

    def fill_in(self, case: Case) -> bool:
        """Fill in the last rendering if the object and all facts about it are unchanged."""
        known = self._kept.get(case.uid)
        if known is None or known.body is not case.body or not self._now < known.until:
            return False
        if known.facts != _what_is_rendered(case):
            return False
        case.report, case.manifests, case.new_status = known.rendered
        self._kept.put(case.uid, known)
        return True

    def keep(self, case: Case) -> None:
        """Keep the rendering. If the object's status already equals it, the two equal statuses are kept once."""
        status = case.body.get("status")
        is_written = case.new_status == status
        if is_written:
            case.new_status = status
        rendered = case.report, case.manifests, case.new_status
        until = math.inf if is_written else self._now + UNWRITTEN_SECONDS
        self._kept.put(case.uid, _Last(case.body, _what_is_rendered(case), rendered, until))
