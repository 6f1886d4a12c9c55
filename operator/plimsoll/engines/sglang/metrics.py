"""The metrics with which an SGLang server reports its load. It has the page only with ``--enable-metrics``.

Source of every name and label: ``srt/observability/metrics_collector.py``, 0.5.14 and 0.5.23, and the page of a server
of the latter. With tensor parallelism the first rank reports alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plimsoll.engines.metrics import EngineMetrics

TTFT_SECONDS: Final = "sglang:time_to_first_token_seconds"
ITL_SECONDS: Final = "sglang:inter_token_latency_seconds"
"""Histograms, observed as tokens are sent."""

PROMPT_LENGTHS: Final = "sglang:prompt_tokens_histogram"
OUTPUT_LENGTHS: Final = "sglang:generation_tokens_histogram"
"""Histograms, observed as a request ends."""

STREAMING_LABEL: Final = "is_streaming"
CACHE_LABEL: Final = "cache_source"
"""Whether a request streams its answer, and whose cache a prefix was found in: each value has a series."""

MODEL_LABEL: Final = "model_name"
"""The name of ``--served-model-name``."""


def capacity_tokens(_: Mapping[str, str], value: float) -> int | None:
    """Return the tokens of the cache (``max_total_num_tokens``); None while the engine writes 0."""
    return int(value) or None


METRICS: Final = EngineMetrics(
    kv_usage="sglang:token_usage",
    waiting="sglang:num_queue_reqs",
    running="sglang:num_running_reqs",
    preemptions="sglang:num_retracted_requests_total",
    prompt_tokens="sglang:prompt_tokens_total",
    generation_tokens="sglang:generation_tokens_total",
    capacity="sglang:max_total_num_tokens",
    capacity_tokens=capacity_tokens,
    rank_label="dp_rank",
    own_labels=frozenset(
        {MODEL_LABEL, "engine_type", "tp_rank", "pp_rank", "moe_ep_rank", "dp_rank", STREAMING_LABEL, CACHE_LABEL}
    ),
    part_labels=(STREAMING_LABEL, CACHE_LABEL),
    model_label=MODEL_LABEL,
    prompt_lengths=PROMPT_LENGTHS,
    output_lengths=OUTPUT_LENGTHS,
    first_token_seconds=TTFT_SECONDS,
    token_gap_seconds=ITL_SECONDS,
    prefix_queried="sglang:prompt_tokens_total",
    prefix_hit="sglang:cached_tokens_total",
)
"""``token_usage`` is the largest share of any pool, to a hundredth; prefixes that can be dropped count as free.
Requests that are thrown out have no series until the first. The counters of tokens move when a request ends. Every
prompt is looked up in the prefix cache."""
