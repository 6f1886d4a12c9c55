"""A change of one deployment that is proposed and not made yet."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.outcomes import Target
from plimsoll.domain.reasons import Numbers


@dataclass(frozen=True, slots=True)
class Share:
    """Replicas of one deployment on one target."""

    target: Target
    replicas: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change with a destination: what runs ``before`` and ``after`` it, and why. ``reason`` is a public code."""

    before: tuple[Share, ...]
    after: tuple[Share, ...]
    reason: str
    numbers: Numbers = ()
