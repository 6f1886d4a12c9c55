"""The latency that a deployment promises, and which of its two figures an option misses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.decisions.latency import Performance, Slo

READER_TTFT_SECONDS, READER_TPOT_SECONDS = 5.0, 0.1
INTERACTIVE = Slo(ttft_seconds=READER_TTFT_SECONDS, tpot_seconds=READER_TPOT_SECONDS)
"""The default if a deployment declares none: a person reads along.

100 ms a token are ten tokens a second, about 450 words a minute; adults read English silently at about 240 (Brysbaert
2019, doi.org/10.1016/j.jml.2019.104047). The text stays ahead of the reader with a factor of two for other languages
and for bursts. MLPerf Inference 5.1 asks the same order of its chat scenarios: Llama 2 70B "server" 200 ms at the 99th
percentile, "interactive" 40 ms. 5 s to the first token at the mean prompt: MLPerf asks 2 s (Llama 2 70B) to 6 s
(Llama 3.1 405B) at the 99th percentile; beyond 10 s people turn to something else (Nielsen 1993, "Response times").
"""


class SloFigure(StrEnum):
    """The two figures of a promise."""

    TTFT = "Ttft"
    TPOT = "Tpot"


@dataclass(frozen=True, slots=True)
class SloMiss:
    """One figure that misses its limit, in seconds. ``is_sure`` means that its whole band is above the limit."""

    figure: SloFigure
    seconds: float
    limit_seconds: float
    is_sure: bool

    @property
    def excess(self) -> float:
        """By which share of the limit the figure is above it."""
        return self.seconds / self.limit_seconds - 1


TTFT_QUARTER, TPOT_QUARTER = 0.15, 0.25
"""The exponents from the upper edge of a band to its upper quarter: one in twenty measured times is above the edge, and
one in four is above the quarter. Measured on errors of rows whose source was held back (docs/latency.md). A normal
distribution of logarithms would have 0.41, but few large errors make the edges, and most errors are much smaller."""


def upper_quarter(found: Performance) -> tuple[float, float]:
    """Return the times to the first token and per token, in seconds, that three of four measured ones are below."""
    ttft = found.typical_ttft_seconds * (found.ttft_band[1] / found.ttft_seconds) ** TTFT_QUARTER
    return ttft, found.tpot_seconds * (found.tpot_band[1] / found.tpot_seconds) ** TPOT_QUARTER


def keeps_surely(slo: Slo, found: Performance) -> bool:
    """Whether a promise is kept with the upper quarter of the band, not by the estimate alone."""
    ttft, tpot = upper_quarter(found)
    return (slo.ttft_seconds is None or ttft <= slo.ttft_seconds) and (
        slo.tpot_seconds is None or tpot <= slo.tpot_seconds
    )


def slo_misses(slo: Slo, found: Performance) -> tuple[SloMiss, ...]:
    """Return the figures that miss their limits, the larger excess first; empty if the promise is kept."""
    low_ttft = found.typical_ttft_seconds * found.ttft_band[0] / found.ttft_seconds
    checks = (
        (SloFigure.TTFT, found.typical_ttft_seconds, slo.ttft_seconds, low_ttft),
        (SloFigure.TPOT, found.tpot_seconds, slo.tpot_seconds, found.tpot_band[0]),
    )
    misses = [
        SloMiss(figure, seconds, limit, low > limit)
        for figure, seconds, limit, low in checks
        if limit is not None and seconds > limit
    ]
    return tuple(sorted(misses, key=lambda miss: -miss.excess))
