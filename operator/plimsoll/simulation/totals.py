"""The counters of a replica: totals of its life, as vLLM counts them."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.simulation.request import Request


@dataclass(slots=True)
class Totals:
    """Totals that only grow. Their meaning is that of :class:`~plimsoll.simulation.values.Sample`."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: int = 0
    finished_prompt_tokens: int = 0
    finished_output_tokens: int = 0
    ttft_seconds: float = 0.0
    first_tokens: int = 0
    token_gap_seconds: float = 0.0
    token_gaps: int = 0
    queue_seconds: float = 0.0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0

    def count_admission(self, request: Request) -> None:
        """Count the look-up of a prompt in the prefix cache. vLLM leaves out requests that were preempted."""
        self.prefix_queried_tokens += request.arrival.prompt_tokens
        self.prefix_hit_tokens += request.computed

    def count_later_tokens(self, tokens: int, seconds: float) -> None:
        """Count tokens after the first one of their requests, and the sum of the times since the tokens before."""
        self.generation_tokens += tokens
        self.token_gaps += tokens
        self.token_gap_seconds += seconds

    def count_first_token(self, request: Request, at: float) -> None:
        """Count a prompt as computed. A request that was preempted since is not counted again."""
        self.prompt_tokens += request.arrival.prompt_tokens
        self.generation_tokens += 1
        self.ttft_seconds += at - request.received_at
        self.first_tokens += 1

    def count_finished(self, request: Request) -> None:
        """Count a request that has all its tokens."""
        self.finished += 1
        self.finished_prompt_tokens += request.arrival.prompt_tokens
        self.finished_output_tokens += request.arrival.output_tokens
        if request.admitted_at is not None:
            self.queue_seconds += request.admitted_at - request.received_at
