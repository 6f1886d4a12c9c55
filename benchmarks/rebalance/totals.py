"""The counters of a replica: totals of its life, as vLLM counts them."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.rebalance.request import Request


@dataclass(slots=True)
class Totals:
    """Totals that only grow. Their meaning is that of :class:`~benchmarks.rebalance.values.Sample`."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: int = 0
    finished_prompt_tokens: int = 0
    finished_output_tokens: int = 0
    ttft_seconds: float = 0.0
    first_tokens: int = 0

    def count_first_token(self, request: Request, at: float) -> None:
        """Count a prompt as computed. A request that was preempted since is not counted again."""
        self.prompt_tokens += request.arrival.prompt_tokens
        self.ttft_seconds += at - request.received_at
        self.first_tokens += 1

    def count_finished(self, request: Request) -> None:
        """Count a request that has all its tokens."""
        self.finished += 1
        self.finished_prompt_tokens += request.arrival.prompt_tokens
        self.finished_output_tokens += request.arrival.output_tokens
