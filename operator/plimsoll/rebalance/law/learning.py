"""The error of the memory law: its prediction compared with the KV cache that the engine got."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CapacityReading:
    """The KV cache of one replica in tokens: predicted before the pod was made, and reported by its engine."""

    predicted_tokens: int
    reported_tokens: int

    @property
    def error_permille(self) -> int | None:
        """Signed error in thousandths of the reported figure; None if the engine reports nothing.

        Positive: the prediction was too high, which costs preemptions. Negative: memory stayed unused. The error is
        relative to the reported figure, because that figure is the measured one. It is rounded away from zero, so that
        only an exact prediction gives 0.
        """
        if self.reported_tokens <= 0:
            return None
        excess = (self.predicted_tokens - self.reported_tokens) * 1000
        return -(-excess // self.reported_tokens) if excess > 0 else excess // self.reported_tokens


def error_percent_text(permille: int) -> str:
    """Write an error as people read it, with its sign: ``+1.2 %``, ``-0.3 %``, ``0.0 %``."""
    sign = "+" if permille > 0 else "-" if permille < 0 else ""
    return f"{sign}{abs(permille) // 10}.{abs(permille) % 10} %"
