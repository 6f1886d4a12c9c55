"""The part that is kept of the observations of engines, and the corrections that follow for every object."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.observations import Correction, Observation, Seen, Witness
from plimsoll.memory.calibration import corrections

MOST_KEPT = 40
"""Observations that one status holds; the newest stay."""


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


def common_lessons(seen: Iterable[Seen]) -> dict[str, tuple[Correction, ...]]:
    """Return the corrections learned from the engines of all objects, by model."""
    found: dict[str, list[Correction]] = {}
    for correction in corrections(each.observation for each in seen):
        found.setdefault(correction.kind.model, []).append(correction)
    return {model: tuple(each) for model, each in found.items()}


def lessons(own: Iterable[Seen], common: Iterable[Correction]) -> tuple[Correction, ...]:
    """Return one object's corrections: its own engines' measurements replace those of others for the same kind."""
    mine = tuple(each for each in corrections(seen.observation for seen in own) if each.exact)
    settled = {correction.kind for correction in mine}
    return (*mine, *(each for each in common if each.kind not in settled))


def _is_failure(observation: Observation) -> bool:
    return observation.witness in (Witness.START_FAILURE, Witness.OUT_OF_MEMORY)
