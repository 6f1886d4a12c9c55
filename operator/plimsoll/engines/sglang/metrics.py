"""The metrics with which an SGLang server reports its load. It has the page only with ``--enable-metrics``.

Source of every name and label: ``srt/observability/metrics_collector.py``, 0.5.23. With tensor parallelism the first
rank reports alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plimsoll.engines.metrics import EngineMetrics

TTFT_SECONDS: Final = "sglang:time_to_first_token_seconds"
ITL_SECONDS: Final = "sglang:inter_token_latency_seconds"
"""Histograms, observed as tokens are sent."""

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
    own_labels=frozenset({MODEL_LABEL, "engine_type", "tp_rank", "pp_rank", "moe_ep_rank", "dp_rank", "is_streaming"}),
    model_label=MODEL_LABEL,
    first_token_seconds=TTFT_SECONDS,
    token_gap_seconds=ITL_SECONDS,
)
"""``token_usage`` is the largest share of any pool, to a hundredth; prefixes that can be dropped count as free.
Requests that are thrown out have no series until the first. The counters of tokens move when a request ends."""
