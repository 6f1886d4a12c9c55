"""The samples of simulated engines in the words of the live loop."""

from __future__ import annotations

from plimsoll.rebalance.signals import EngineSample
from plimsoll.simulation.values import Sample


def engine_sample(sample: Sample, kv_tokens: int) -> EngineSample:
    """Return a sample as the live loop reads it, of an engine with a KV cache of so many tokens."""
    return EngineSample(
        at=sample.at,
        kv_usage=sample.kv_usage,
        waiting=sample.waiting,
        running=sample.running,
        preemptions_total=sample.preemptions_total,
        kv_capacity_tokens=kv_tokens,
        prompt_tokens_total=sample.prompt_tokens_total,
        generation_tokens_total=sample.generation_tokens_total,
        finished_total=sample.finished_total,
        finished_prompt_tokens_total=sample.finished_prompt_tokens_total,
        finished_output_tokens_total=sample.finished_output_tokens_total,
        ttft_seconds_total=sample.ttft_seconds_total,
        first_tokens_total=sample.first_tokens_total,
        token_gap_seconds_total=sample.token_gap_seconds_total,
        token_gaps_total=sample.token_gaps_total,
        prefix_queried_tokens_total=sample.prefix_queried_tokens_total,
        prefix_hit_tokens_total=sample.prefix_hit_tokens_total,
    )
