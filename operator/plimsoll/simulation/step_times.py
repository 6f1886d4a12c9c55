"""The time of one engine step of a replica, by the performance model."""

from __future__ import annotations

from copy import copy

from plimsoll.performance.step_costs import StepCosts

SIGNIFICANT_BITS = 7
"""Lengths and batches are rounded to so many binary digits, so that steps repeat: an error of at most 0.8 %."""


class StepTimes:
    """Seconds of the steps of one replica. Steps that differ by less than a rounding are computed once."""

    __slots__ = ("_costs", "_factor", "_known", "request_seconds")

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs
        self._factor = 1.0
        self._known: dict[tuple[int, int, int], float] = {}
        self.request_seconds = costs.request_seconds
        """The seconds of a request outside its steps."""

    def times(self, factor: float) -> StepTimes:
        """Return times of steps that are so many times as long. What is computed is shared."""
        found = copy(self)
        found._factor = self._factor * factor  # noqa: SLF001 - a copy of its own
        return found

    def step(self, decoding: int, context: float, prompt_tokens: int = 0) -> float:
        """Return the seconds of a step in which ``decoding`` requests generate a token behind ``context`` tokens each.

        ``prompt_tokens`` tokens of prompts ride along; :meth:`attention` is their attention.
        """
        key = rounded(decoding), rounded(int(context)), rounded(prompt_tokens)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._costs.step(*key).total
        return self._factor * found

    def attention(self, computed: int, upto: int) -> float:
        """Return the seconds of the attention of the tokens of one prompt from ``computed`` to ``upto``."""
        whole = self._costs.prompt_attention(upto)
        own = whole - self._costs.prompt_attention(computed) if computed else whole
        return self._factor * own


def rounded(number: int) -> int:
    """Round to :data:`SIGNIFICANT_BITS` binary digits; small numbers stay as they are."""
    shift = number.bit_length() - SIGNIFICANT_BITS
    return (number + (1 << shift - 1)) >> shift << shift if shift > 0 else number
