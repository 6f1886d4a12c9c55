"""How fast a replica serves: the promise of a deployment, and what an option is expected to reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

UNMEASURED = "unknown"
"""The class of GPUs that are like no card with measured rows."""


@dataclass(frozen=True, slots=True)
class Slo:
    """The longest times at the declared load, as medians. None means that there is no limit.

    ``percentile`` (50, 95 or 99) is that of the measured times that must be within them; None: their mean.
    """

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    percentile: int | None = None


class Objective(StrEnum):
    """How much the time of users is worth against dollars (:data:`plimsoll.performance.worth.SCALES`)."""

    INTERACTIVE = "Interactive"
    """Somebody waits for each token: an agent that works in steps, completion in an editor, speech."""
    BALANCED = "Balanced"
    """People read along. A faster place must cost little more, and a slow one must save much."""
    BATCH = "Batch"
    """Nobody waits: the price alone decides, also on GPUs whose speed is not validated."""


class Bound(StrEnum):
    """The resource that takes most of the time of a token."""

    MEMORY = "Memory"
    COMPUTE = "Compute"
    COMMUNICATION = "Communication"
    HOST = "Host"


@dataclass(frozen=True, slots=True)
class Performance:
    """The speed of one replica under a load.

    Attributes:
        ttft_seconds: mean time to the first token in the closed loop, without waiting for a free slot. The first round
            is part of the mean: its prompts wait for each other.
        typical_ttft_seconds: the same for a request that comes at any later moment (about the median).
        tpot_seconds: mean time between two tokens of a request (TPOT, ITL), prompts of other requests included.
        output_tokens_per_second: tokens that the replica generates.
        bound: what most of ``tpot_seconds`` is spent on.
        margin: by which share of ``tpot_seconds`` the bound is ahead of the next.
        ttft_band, tpot_band: low and high edges in seconds, from errors on GPUs and models that were left out.
        validated: whether the constants were tested on this GPU type, with this kind of weights and
            load; never with pipeline parallelism, of which there is one row.
        trust: how well figures of this GPU type are known.
        measured: the factor over the estimate that all times have in them, by what engines measured; 1: none is known.
    """

    ttft_seconds: float
    typical_ttft_seconds: float
    tpot_seconds: float
    output_tokens_per_second: float
    bound: Bound
    margin: float
    ttft_band: tuple[float, float]
    tpot_band: tuple[float, float]
    validated: bool
    trust: str
    measured: float = 1.0

    def corrected(self, factor: float) -> Performance:
        """Return the speed where a token was measured to take ``factor`` times the estimate.

        The band keeps its width: the load of the measurement may have been another one.
        """
        low, high = self.tpot_band
        first, last = self.ttft_band
        return replace(
            self,
            ttft_seconds=factor * self.ttft_seconds,
            typical_ttft_seconds=factor * self.typical_ttft_seconds,
            tpot_seconds=factor * self.tpot_seconds,
            output_tokens_per_second=self.output_tokens_per_second / factor,
            ttft_band=(factor * first, factor * last),
            tpot_band=(factor * low, factor * high),
            validated=True,
            measured=factor * self.measured,
        )

    @property
    def typical_ttft_band(self) -> tuple[float, float]:
        """The edges of the band of :attr:`typical_ttft_seconds`, in seconds."""
        low, high = self.ttft_band
        return (
            self.typical_ttft_seconds * low / self.ttft_seconds,
            self.typical_ttft_seconds * high / self.ttft_seconds,
        )

    @property
    def is_measured(self) -> bool:
        """Whether rows of measurements are known for this card or for another one of its family."""
        return self.trust != UNMEASURED
