"""Digests of the parts of a spec on which an engine's memory, the best size and an engine's start depend."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from plimsoll.api.bounds import usual_release
from plimsoll.domain.engines.engine_choice import ANY_ENGINE, DEFAULT_ENGINE
from plimsoll.engines.registry import ENGINES

_NOT_ABOUT_MEMORY = ("replicas", "rebalancing", "routing", "suspend", "gpu", "objective")
"""Spec fields that say how many engines run and where, not how one engine runs."""

_NOT_ABOUT_SIZE = ("replicas", "rebalancing", "routing", "suspend")
"""Spec fields on which the size of a deployment does not depend."""

_NOT_ABOUT_START = (*_NOT_ABOUT_MEMORY, "overrides", "slo", "minReplicas")
"""Spec fields on which it does not depend whether an engine gets ready at a given place."""

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class SpecDigests:
    """Hex digits of one spec.

    ``engine`` changes with any part of the spec that affects an engine's memory, ``size`` with any part on which the
    best size depends. ``start`` changes with any part on which it depends whether an engine gets ready at a place.
    """

    engine: str
    size: str
    start: str


def digests_of(spec: Mapping[str, Any] | None) -> SpecDigests:
    """Return the digests of a spec as the API server gives it.

    An engine without a release counts as one of its usual release: earlier API servers wrote that into the object.
    """
    spec = _with_release(spec or {})
    left_out = (_NOT_ABOUT_MEMORY, _NOT_ABOUT_SIZE, _NOT_ABOUT_START)
    return SpecDigests(*(_without(spec, each) for each in left_out))


def _with_release(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    given = spec.get("engine")
    if not isinstance(given, Mapping) or given.get("version") is not None:
        return spec
    if given.get("name") == ANY_ENGINE:  # the order in which engines are preferred changes nothing that runs
        usual = {name: str(usual_release(each)) for name, each in ENGINES.items()}
        return {**spec, "engine": {name: value for name, value in given.items() if name != "prefer"} | {"usual": usual}}
    engine = ENGINES.get(str(given.get("name") or DEFAULT_ENGINE))
    if engine is None:
        return spec
    return {**spec, "engine": {**given, "version": str(usual_release(engine))}}


def _without(spec: Mapping[str, Any], left_out: Collection[str]) -> str:
    relevant = {name: value for name, value in spec.items() if name not in left_out}
    return sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]
