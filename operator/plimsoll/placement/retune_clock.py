"""How long a change of engine settings may take within a pool: its engines start again one after another.

The status keeps the clock and the settings that served before, so that a restart of the operator loses neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from plimsoll.placement.move_clock import LONGEST_SECONDS


@dataclass(frozen=True, slots=True)
class EarlierSettings:
    """The settings of a pool's engines that served before the live loop changed them.

    ``sequences`` are the most requests at the same time of each engine. ``batched_tokens`` and ``drain_seconds`` are as
    in :class:`~plimsoll.placement.pools.Pool`. ``inputs`` is the digest of what the pod template was made from; empty
    where the Deployment has none. A Deployment with another digest has the new settings.
    """

    pool: str
    sequences: int
    batched_tokens: int | None = None
    drain_seconds: int | None = None
    inputs: str = ""


@dataclass(frozen=True, slots=True)
class RetuneClock:
    """A change of settings that is under way. It began at ``began``, in POSIX seconds.

    Each replica may take ``each`` seconds, counted from the last one that got ready. ``spec`` is the digest of the
    spec's fields that change an engine: the earlier settings were chosen for it.
    """

    before: tuple[EarlierSettings, ...]
    began: float
    each: float
    spec: str

    def of(self, pool: str) -> EarlierSettings | None:
        """Return the earlier settings of a pool; None where they are not changed."""
        return next((earlier for earlier in self.before if earlier.pool == pool), None)

    def without(self, pools: Iterable[str]) -> RetuneClock | None:
        """Return the clock of the other pools; None where none is left."""
        gone = set(pools)
        before = tuple(earlier for earlier in self.before if earlier.pool not in gone)
        if before == self.before:
            return self
        return replace(self, before=before) if before else None

    def due(self, ready_since: Iterable[float], replicas: int) -> float:
        """Return the time by which the next replica must serve, in POSIX seconds.

        Each new replica that gets ready begins the time anew, so that a large pool has the time for all of its
        replicas, and for one more at most.

        Args:
            ready_since: since when replicas that were started after the change serve.
            replicas: the replicas of all changed pools.
        """
        last = max((since for since in ready_since if since > self.began), default=self.began)
        return min(last + self.each, self.began + self.each * (replicas + 1))


def trusted(clock: RetuneClock | None, spec: str, now: float) -> RetuneClock | None:
    """Return a recorded clock as far as it can be true; None where it is of another spec.

    A time in the future is moved to ``now``: a clock was set back, or somebody wrote it.
    """
    if clock is None or clock.spec != spec:
        return None
    return replace(clock, began=min(clock.began, now), each=min(clock.each, LONGEST_SECONDS))
