"""The requests of a time that is over, drawn from what was counted of them: a rate and mean lengths for each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from plimsoll.simulation.draws import Draws, seed_for
from plimsoll.simulation.values import Arrival

SPREAD = 0.9
"""The standard deviation of lengths over their mean within a step, where only means are known. In the public traces of
Azure (2023) it is 0.96 for prompts and 0.77 for answers of conversations."""


@dataclass(frozen=True, slots=True)
class PastStep:
    """The requests of one step.

    Attributes:
        begin: seconds since the beginning.
        seconds: how long the step is.
        per_second: requests a second.
        prompt_tokens: their mean prompt.
        output_tokens: their mean answer.
        cached_tokens: the tokens of a mean prompt that were in the prefix cache.
    """

    begin: float
    seconds: float
    per_second: float
    prompt_tokens: float
    output_tokens: float
    cached_tokens: float = 0.0


def drawn_from(steps: Sequence[PastStep], seed: int) -> Iterator[Arrival]:
    """Yield requests that come by chance (Poisson) at each step's rate, with log-normal lengths around its means.

    Args:
        steps: in the order of their times. Where there is none, nothing comes.
        seed: of the moments and the lengths.
    """
    moments, lengths = Draws(seed_for(seed, "past moments")), Draws(seed_for(seed, "past lengths"))
    for step in steps:
        if step.per_second <= 0:
            continue
        at = moments.gap() / step.per_second
        while at < step.seconds:
            prompt, output = _length(step.prompt_tokens, lengths), _length(step.output_tokens, lengths)
            share = min(1.0, step.cached_tokens / max(1.0, step.prompt_tokens))
            yield Arrival(step.begin + at, prompt, output, min(prompt - 1, round(prompt * share)))
            at += moments.gap() / step.per_second


def _length(mean: float, chance: Draws) -> int:
    variance = log(1 + SPREAD**2)
    return max(1, round(max(1.0, mean) * exp(sqrt(variance) * chance.normal() - variance / 2)))
