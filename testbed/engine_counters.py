"""The totals that one played engine counts from its start."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of one engine, or the part of one request in them.

    Attributes:
        preemptions: requests that lost their KV cache.
        prompt_tokens: prompt tokens read.
        generation_tokens: tokens generated.
        first_tokens: requests with a first token.
        first_token_seconds: times from the arrivals to the first tokens.
        gaps: times between two tokens of a request.
        gap_seconds: their sum.
        finished: requests that are done.
        finished_prompt_tokens: prompt tokens of the requests that are done.
        finished_output_tokens: generated tokens of the requests that are done.
        latency_seconds: times from the arrivals to the ends of the requests that are done.
    """

    preemptions: float = 0.0
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    first_tokens: float = 0.0
    first_token_seconds: float = 0.0
    gaps: float = 0.0
    gap_seconds: float = 0.0
    finished: float = 0.0
    finished_prompt_tokens: float = 0.0
    finished_output_tokens: float = 0.0
    latency_seconds: float = 0.0

    def __add__(self, other: Counters) -> Counters:
        """Return both together."""
        names = (each.name for each in fields(self))
        return Counters(**{name: getattr(self, name) + getattr(other, name) for name in names})
