"""The state that the live loop keeps across restarts: its past changes and the last throughput ceiling."""

from __future__ import annotations

from dataclasses import dataclass, replace

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The throughput of *one* replica at the moment when the loop found too few replicas.

    KV use alone does not show that a replica is superfluous. An engine that is bound by compute has a queue at a low KV
    use. When a new replica empties the queue, the demand falls, and a rule on KV use would remove the replica again.
    This would repeat. The throughput stays the same after the change. Rates are None where the engines did not report
    them; then no replica is removed.
    """

    at: float
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """The times when the number or place of replicas changed, and the last ceiling.

    Times are POSIX seconds, oldest first. The object's status keeps them, so a restarted operator knows its budget.
    """

    changes: tuple[float, ...] = ()
    ceiling: Ceiling | None = None

    def recorded(self, now: float, ceiling: Ceiling | None = None) -> ChangeHistory:
        """Return the history with a change at ``now``, without the changes that no bound reads any more.

        A cool-down reads only the latest change, which is this one. The budget reads the changes of one hour. So a
        status never holds more times than the largest budget, even for an old deployment.

        Args:
            now: POSIX seconds.
            ceiling: from :func:`plimsoll.rebalance.decide.ceiling_of` when load made the loop add a replica.
        """
        kept = tuple(change for change in self.clamped(now).changes if now - change < HOUR_SECONDS)
        return ChangeHistory((*kept, now), ceiling if ceiling is not None else self.clamped(now).ceiling)

    def clamped(self, now: float) -> ChangeHistory:
        """Return the history with every time in the future replaced by ``now``. A clock set back leaves future times.

        Store the result when it differs. Then a cool-down lasts its full time from the moment when the clock step was
        noticed. It is not skipped, and it does not last until the clock reaches the old time again.
        """
        ceiling = self.ceiling and replace(self.ceiling, at=min(self.ceiling.at, now))
        return ChangeHistory(tuple(sorted(min(change, now) for change in self.changes)), ceiling)

    def within_last_hour(self, now: float) -> int:
        """Return the number of changes in the last 60 minutes."""
        return sum(1 for change in self.clamped(now).changes if now - change < HOUR_SECONDS)

    def seconds_since_last(self, now: float) -> float | None:
        """Return the seconds since the latest change; None if there was no change."""
        return now - max(self.clamped(now).changes) if self.changes else None
