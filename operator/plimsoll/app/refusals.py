"""Workloads that the API server refuses: since when, so that GPUs are not kept for them for ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Attempt = tuple[str, int]
"""An object's uid and the generation of its spec: a new spec is a new attempt."""


@dataclass(slots=True)
class Refusals:
    """When the API server first refused a pool's workload, by attempt. In memory only: a restart tries again."""

    _since: dict[Attempt, dict[str, float]] = field(default_factory=dict)

    def refused(self, attempt: Attempt, pool: str, now: float) -> None:
        """Note that a pool's workload was refused at ``now`` (POSIX seconds); the first time counts."""
        self._since.setdefault(attempt, {}).setdefault(pool, now)

    def accepted(self, attempt: Attempt, pool: str) -> None:
        """Note that it was taken after all."""
        self._since.get(attempt, {}).pop(pool, None)

    def since(self, attempt: Attempt) -> Mapping[str, float]:
        """When the refusals of this attempt began, by pool."""
        return self._since.get(attempt, {})

    def keep(self, attempts: Iterable[Attempt]) -> None:
        """Forget the attempts of objects that are gone and of specs that were replaced."""
        alive = set(attempts)
        self._since = {attempt: pools for attempt, pools in self._since.items() if attempt in alive and pools}
