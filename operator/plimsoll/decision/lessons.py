"""The part that is kept of the observations of engines, and the corrections that follow for every object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median_high
from typing import Any

from plimsoll.domain.decisions.observations import (
    Correction,
    EngineKind,
    MeasuredSpeed,
    Observation,
    Seen,
    Witness,
)
from plimsoll.domain.decisions.terms import Teacher
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.memory.calibration import corrections, representative

MOST_KEPT = 40
"""Observations that one status holds; the newest stay."""

LEAST_NAMESPACES = 2
"""The least number of other namespaces whose engines must have been observed, so that a correction from them counts."""

_CUSTOM_FIELDS = (
    ("model", "config"), ("model", "path"), ("model", "source"), ("engine", "image"), ("engine", "extraArgs"),
    ("engine", "speculation", "draftModel", "config"), ("engine", "speculation", "draftModel", "path"),
    ("podTemplate", "env"), ("podTemplate", "envFrom"), ("podTemplate", "volumes"), ("podTemplate", "volumeMounts"),
    ("podTemplate", "modelCache", "claimName"), ("podTemplate", "runtimeClassName"), ("podTemplate", "containers"),
    ("podTemplate", "initContainers"), ("podTemplate", "hostAliases"), ("podTemplate", "dnsConfig"),
)  # fmt: skip
"""Fields with which a user adds something of their own to an engine, which may then report anything."""


def remembered(recorded: Iterable[Seen], spec: str) -> tuple[Seen, ...]:
    """Return the recorded observations that count for this spec.

    A failed start counts until the spec changes: it may have another cause.
    """
    return tuple(seen for seen in recorded if seen.spec == spec or not _is_failure(seen.observation))


def merged(earlier: Iterable[Seen], now: Iterable[Seen]) -> tuple[Seen, ...]:
    """The latest success and the latest failure of each kind of engine, oldest first.

    An engine that serves removes an earlier failure of its kind.
    """
    latest = {(seen.observation.kind, _is_failure(seen.observation)): seen for seen in earlier}
    for seen in now:
        kind, failed = seen.observation.kind, _is_failure(seen.observation)
        if not failed:
            latest.pop((kind, True), None)
        latest.pop((kind, failed), None)
        latest[kind, failed] = seen
    return tuple(latest.values())[-MOST_KEPT:]


@dataclass(frozen=True, slots=True)
class Contribution:
    """The observations of one deployment that count for others."""

    key: ObjectKey
    observations: tuple[Observation, ...]
    speeds: tuple[MeasuredSpeed, ...] = ()


def teaches_others(spec: Mapping[str, Any] | None) -> bool:
    """Whether others can rely on what the engines of this spec report: the user added nothing of their own to them.

    ``spec`` is as the API server gives it. An image, a file, a variable or an argument of the user's can make an engine
    report anything.
    """
    return not any(_member(spec or {}, path) for path in _CUSTOM_FIELDS)


SPEED_STEP = 1.25
"""Measured speeds count in steps of this factor: a small difference changes no plan, and deployments whose engines are
about as fast as estimated stay alike."""


def speed_factor(slowness: float) -> float:
    """Return what counts of the measured time of a token over the estimated one: a power of :data:`SPEED_STEP`."""
    return float(SPEED_STEP ** round(math.log(slowness) / math.log(SPEED_STEP)))


def contribution(
    key: ObjectKey, spec: str, seen: Iterable[Seen], *, teaches: bool, speeds: Iterable[MeasuredSpeed] = ()
) -> Contribution:
    """Return the observations of a deployment that count for others: those with the spec that it has now.

    Args:
        key: the deployment.
        spec: the digest of its spec.
        seen: the observations of its engines.
        teaches: whether others can rely on them, see :func:`teaches_others`.
        speeds: the measured speeds of its engines.
    """
    if not teaches:
        return Contribution(key, ())
    return Contribution(
        key,
        tuple(each.observation for each in seen if each.spec == spec and not each.observation.kind.image),
        tuple(each for each in speeds if not each.kind.image),
    )


class CommonLessons:
    """The corrections that follow for a deployment from the engines of others.

    Engines of its own namespace come first. If there are none, those of other namespaces count if there are at least
    :data:`LEAST_NAMESPACES` of these. Each namespace counts once, however many objects it has.
    """

    def __init__(self, contributions: Iterable[Contribution] = ()) -> None:
        self._observed: dict[str, dict[EngineKind, dict[str, list[tuple[str, Observation]]]]] = {}
        self._speeds: dict[str, dict[EngineKind, dict[str, list[tuple[str, float]]]]] = {}
        for each in contributions:
            for observation in each.observations:
                kinds = self._observed.setdefault(observation.kind.model, {})
                there = kinds.setdefault(observation.kind, {}).setdefault(each.key.namespace, [])
                there.append((each.key.name, observation))
            for kind, factor in each.speeds:
                speeds = self._speeds.setdefault(kind.model, {}).setdefault(kind, {})
                speeds.setdefault(each.key.namespace, []).append((each.key.name, factor))

    def speeds_of(self, key: ObjectKey, model: str) -> Iterator[MeasuredSpeed]:
        """Yield the speed that others measured for each kind of engine of ``model``, by the same rule."""
        for kind, measured in self._speeds.get(model, {}).items():
            near = [factor for name, factor in measured.get(key.namespace, ()) if name != key.name]
            far = [
                median_high(factor for _, factor in each)
                for namespace, each in measured.items()
                if namespace != key.namespace
            ]
            if near or len(far) >= LEAST_NAMESPACES:
                yield MeasuredSpeed(kind, median_high(near or far))

    def of(self, key: ObjectKey, model: str) -> Iterator[Correction]:
        """Yield a correction from others for the deployment ``key``, for each kind of engine of ``model``."""
        for observed in self._observed.get(model, {}).values():
            near = [(name, observation) for name, observation in observed.get(key.namespace, ()) if name != key.name]
            if near:
                names = tuple(sorted({name for name, _ in near}))
                yield _taught([observation for _, observation in near], Teacher(names=names))
                continue
            far = [each for namespace, each in observed.items() if namespace != key.namespace]
            if len(far) >= LEAST_NAMESPACES:
                medians = [representative(observation for _, observation in each) for each in far]
                yield _taught(medians, Teacher(namespaces=len(far)))


def lessons(own: Iterable[Seen], common: Iterable[Correction]) -> tuple[Correction, ...]:
    """Return one object's corrections, one for each kind of engine.

    Its own engines' measurements come before those of others, and these before its own crashes without a figure, which
    may have another cause.
    """
    mine = corrections(seen.observation for seen in own)
    found = {each.kind: each for each in mine if not each.exact}
    found |= {each.kind: each for each in common if each.exact or each.kind not in found}
    return tuple((found | {each.kind: each for each in mine if each.exact}).values())


def _taught(observations: Iterable[Observation], teacher: Teacher) -> Correction:
    [correction] = corrections(observations)
    return replace(correction, taught_by=teacher)


def _member(node: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _is_failure(observation: Observation) -> bool:
    return observation.witness in (Witness.START_FAILURE, Witness.OUT_OF_MEMORY)
