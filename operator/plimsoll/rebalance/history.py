"""What the loop has changed and learned: the little it must remember across restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The throughput of *one* replica at the moment the loop found the replicas too few.

    KV use alone cannot tell when a replica is superfluous: an engine bound by compute queues at a low KV use, and its
    demand collapses once a replica more empties the queue, so a KV rule would remove that replica again, and so on. The
    throughput survives the change. Rates are None where the engines did not tell; then nothing is removed.
    """

    at: float
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """When the number or place of replicas was changed, in POSIX seconds, oldest first, and the last ceiling seen.

    Kept in the object's status, so that a restarted operator knows its budget.
    """

    changes: tuple[float, ...] = ()
    ceiling: Ceiling | None = None

    def recorded(self, now: float, ceiling: Ceiling | None = None) -> ChangeHistory:
        """The history with a change at ``now``; what no bound looks at any more is dropped.

        The latest change alone decides a cool-down, and that is this one; the budget looks back an hour. So a status
        never holds more times than the largest budget, however long the deployment lives.

        Args:
            now: POSIX seconds.
            ceiling: from :func:`plimsoll.rebalance.decide.ceiling_of` when load made the loop add a replica.
        """
        kept = tuple(change for change in self.clamped(now).changes if now - change < HOUR_SECONDS)
        return ChangeHistory((*kept, now), ceiling if ceiling is not None else self.clamped(now).ceiling)

    def clamped(self, now: float) -> ChangeHistory:
        """The history without times in the future, which a clock set back leaves behind: they become ``now``.

        Store the result when it differs: then a cool-down lasts its full time from the moment the step was noticed, and
        neither is skipped nor lasts until the clock has caught up.
        """
        ceiling = self.ceiling and replace(self.ceiling, at=min(self.ceiling.at, now))
        return ChangeHistory(tuple(sorted(min(change, now) for change in self.changes)), ceiling)

    def within_last_hour(self, now: float) -> int:
        """How many changes the last 60 minutes saw."""
        return sum(1 for change in self.clamped(now).changes if now - change < HOUR_SECONDS)

    def seconds_since_last(self, now: float) -> float | None:
        """Seconds since the latest change; None where there was none."""
        return now - max(self.clamped(now).changes) if self.changes else None
