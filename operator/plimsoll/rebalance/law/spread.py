"""How far a promised percentile of the times is from their mean, as measured.

The performance model gives means. A promise at a percentile is one for the mean as well: the promised time over this
ratio. For times that come by pure chance (exponential), the p95 is 3.0 times the mean and the p99 4.6 times.
"""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.rebalance.signals.percentiles import Percentile

LEAST_RATIO, MOST_RATIO = 0.25, 10.0
"""A p50 of a few very long times may be below their mean. Beyond ten times the mean, no number of replicas is right."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The ratio of a percentile to the mean, of the times to the first token and between tokens; None: not known.

    ``percentile`` is 50, 95 or 99; None: no percentile is promised.
    """

    percentile: int | None = None
    first_token: float | None = None
    token: float | None = None

    def about(self, percentile: int | None) -> Spread:
        """Return what is known of a percentile: of another one, nothing."""
        return self if percentile == self.percentile else Spread(percentile)

    def learned(
        self, first_token: Percentile | None, token: Percentile | None, usual: tuple[float, float], share: float
    ) -> Spread:
        """Return the ratios after one more measurement.

        Args:
            first_token: the percentile of the time to the first token, with the mean of the same values.
            token: that of the time between two tokens.
            usual: the ratios that are assumed before anything is measured.
            share: the part of a difference that a measurement corrects, 0 to 1.
        """
        measured = (self.first_token, first_token, usual[0]), (self.token, token, usual[1])
        return Spread(self.percentile, *(_moved(known or least, now, known, share) for known, now, least in measured))


def _moved(begin: float, now: Percentile | None, known: float | None, share: float) -> float | None:
    """Return the ratio after a measurement; unchanged if there was none, or none of which the ratio is known."""
    if now is None or now.is_least or not now.mean:
        return known
    ratio = min(MOST_RATIO, max(LEAST_RATIO, now.seconds / now.mean))
    return float(begin * (ratio / begin) ** share)


NO_SPREAD = Spread()
