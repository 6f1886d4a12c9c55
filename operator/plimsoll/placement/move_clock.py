"""How long a move may take until the new replicas serve.

The status keeps the clock, so that a restart of the operator and another leader do not begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

LEAST_SECONDS = 900.0
"""The least time for a move: three times the start-up that is assumed before one was seen
(:data:`plimsoll.rebalance.state.memory.FIRST_STARTUP_SECONDS`)."""

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


def seconds_for_move(startup_seconds: float | None, weights_bytes: int, least: float = LEAST_SECONDS) -> float:
    """Return how long a move may take.

    Args:
        startup_seconds: the longest start-up that was seen; None: none was.
        weights_bytes: the weights of a replica, which may have to be downloaded.
        least: the least time, in seconds.
    """
    expected = max(startup_seconds or 0.0, weights_bytes / DOWNLOAD_BYTES_PER_SECOND)
    return min(LONGEST_SECONDS, max(least, STARTUPS * expected))


def trusted(clock: MoveClock | None, spec: str, now: float) -> MoveClock | None:
    """Return a recorded clock as far as it can be true; None where it is of another spec.

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
