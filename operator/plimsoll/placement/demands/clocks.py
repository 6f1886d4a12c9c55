"""How long a move may take until its replicas serve, and a change of settings until all engines of a pool do again.

The status keeps both clocks, and the settings that served before, so that a restart of the operator and another leader
do not begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from plimsoll.domain.engines.engine_choice import StepLimits

LEAST_SECONDS = 900.0
"""The least time for a move: three times the start-up that is assumed before one was seen
(:data:`plimsoll.performance.worth.FIRST_STARTUP_SECONDS`)."""

LONGEST_SECONDS = 86_400.0
"""The longest time for a move. A start that takes a day has failed, whatever was seen before."""

STARTUPS = 3.0
"""A move may take this many times the expected start-up. The new place may have to pull the image and the weights,
which the nodes of the old one had."""

DOWNLOAD_BYTES_PER_SECOND = 125e6
"""The assumed speed of a download: a link of 1 Gbit/s."""

MOST_EXTENSIONS = 2.0
"""A move whose replicas go on to yet another place gets at most this many times its time in all."""


@dataclass(frozen=True, slots=True)
class MoveClock:
    """A move that is under way: ``pools`` are to replace others. It began at ``began`` and must serve by ``due``.

    Both are POSIX seconds. ``spec`` is the digest of the spec's fields on which a start depends: another spec is
    another start.
    """

    pools: tuple[str, ...]
    began: float
    due: float
    spec: str

    def is_over(self, now: float) -> bool:
        """Whether the time is over."""
        return now >= self.due


def seconds_for_move(
    startup_seconds: float | None, weights_bytes: Iterable[int], least: float = LEAST_SECONDS
) -> float:
    """Return how long a move may take.

    Args:
        startup_seconds: the longest start-up that was seen; None: none was.
        weights_bytes: the weights of each replica that starts, which may have to be downloaded.
        least: the least time, in seconds.
    """
    expected = max((startup_seconds or 0.0, *(each / DOWNLOAD_BYTES_PER_SECOND for each in weights_bytes)))
    return min(LONGEST_SECONDS, max(least, STARTUPS * expected))


def trusted(clock: MoveClock | None, spec: str, now: float) -> MoveClock | None:
    """Return a recorded clock as far as it can be true; None if it is of another spec.

    Times in the future are moved to ``now``: a clock was set back, or somebody wrote them.
    """
    if clock is None or clock.spec != spec:
        return None
    began = min(clock.began, now)
    return replace(clock, began=began, due=min(clock.due, began + MOST_EXTENSIONS * LONGEST_SECONDS))


def continued(earlier: MoveClock | None, pools: tuple[str, ...], seconds: float, spec: str, now: float) -> MoveClock:
    """Return the clock of a move to these pools. It runs on while the pools are the same.

    Replicas that go on to another place begin a new start there, within :data:`MOST_EXTENSIONS` of the whole time.
    """
    if earlier is None:
        return MoveClock(pools, now, now + seconds, spec)
    if earlier.pools == pools:
        return earlier
    return MoveClock(pools, earlier.began, min(now + seconds, earlier.began + MOST_EXTENSIONS * seconds), spec)


@dataclass(frozen=True, slots=True)
class EarlierSettings:
    """The settings of a pool's engines that served before the live loop changed them.

    ``limits`` and ``drain_seconds`` are as in :class:`~plimsoll.placement.demands.pools.Pool`. ``inputs`` is the digest
    of what the pod template was made from; empty if the Deployment has none. A Deployment with another digest has
    the new settings.
    """

    pool: str
    limits: StepLimits
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
        """Return the earlier settings of a pool; None if they are not changed."""
        return next((earlier for earlier in self.before if earlier.pool == pool), None)

    def without(self, pools: Iterable[str]) -> RetuneClock | None:
        """Return the clock of the other pools; None if none is left."""
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


def trusted_retune(clock: RetuneClock | None, spec: str, now: float) -> RetuneClock | None:
    """Return a recorded clock as far as it can be true; None if it is of another spec.

    A time in the future is moved to ``now``: a clock was set back, or somebody wrote it.
    """
    if clock is None or clock.spec != spec:
        return None
    return replace(clock, began=min(clock.began, now), each=min(clock.each, LONGEST_SECONDS))
