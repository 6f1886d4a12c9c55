"""One request on its way through a replica."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.simulation.values import Answered, Arrival, Fate


@dataclass(slots=True, eq=False)
class Request:
    """A request and how far it has come. Times are in seconds since the start of the run.

    Attributes:
        arrival: what the client sent.
        received_at: when its replica got it.
        computed: tokens whose keys and values are in the cache, while the prompt is computed.
        generated: tokens that were generated. It is kept while the request is preempted.
        admitted_at: when the engine admitted it first; None before.
        preempted_at: when it lost its blocks last, at the time of its last token; None if it never did.
        first_token_at: when the client got the first token; None before.
        finished_at: when the client got the last token; None before.
        fate: None while it is under way.
    """

    arrival: Arrival
    received_at: float = 0.0
    computed: int = 0
    generated: int = 0
    admitted_at: float | None = None
    preempted_at: float | None = None
    first_token_at: float | None = None
    finished_at: float | None = None
    fate: Fate | None = None

    @property
    def known_tokens(self) -> int:
        """The tokens to compute before another one can be generated: the prompt, and what was generated before."""
        return self.arrival.prompt_tokens + self.generated

    @property
    def answered(self) -> Answered:
        """The request and what became of it.

        Raises:
            ValueError: it is still under way.
        """
        if self.fate is None:
            raise ValueError(f"fate: the request of {self.arrival.at} s is still under way")
        return Answered(self.arrival, self.fate, self._ttft_seconds(), self._tpot_seconds())

    def _ttft_seconds(self) -> float | None:
        return None if self.first_token_at is None else self.first_token_at - self.arrival.at

    def _tpot_seconds(self) -> float | None:
        """Return the mean time of the tokens after the first; None where there are none, or not all of them came."""
        later = self.arrival.output_tokens - 1
        if self.first_token_at is None or self.finished_at is None or later == 0:
            return None
        return (self.finished_at - self.first_token_at) / later
