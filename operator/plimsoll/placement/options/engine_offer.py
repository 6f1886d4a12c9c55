"""What a deployment would get on one engine, where the planner chooses the engine."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.decisions.outcomes import Rejection
from plimsoll.domain.public_words import EngineReason, Numbers


@dataclass(frozen=True, slots=True)
class EngineOffer:
    """What a deployment would get on one engine.

    Attributes:
        engine: the name of the engine.
        release: its release; empty if it refuses the spec.
        reason: why it is taken, or is not.
        numbers: the figures of that reason.
        places: where its replicas would run, in words.
        missing: the replicas that would find no place.
        nearest: the rejections of its candidates, if none fits.
    """

    engine: str
    release: str
    reason: EngineReason
    numbers: Numbers = ()
    places: tuple[str, ...] = ()
    missing: int = 0
    nearest: tuple[Rejection, ...] = ()
