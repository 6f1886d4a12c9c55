"""The metrics with which a vLLM server reports its load, and the labels with which it reports its KV cache.

Source of every name: vLLM's ``vllm/v1/metrics/loggers.py`` (release 0.32.0). A test serves a model with that release
and looks for each name, so that a renamed metric fails a build and not a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plimsoll.engines.metrics import EngineMetrics, count_of, total_of

KV_CACHE_USAGE: Final = "vllm:kv_cache_usage_perc"
"""Gauge: the share of KV-cache blocks that running requests hold, since vLLM 0.9.2. 0 to 1, despite its name.

Blocks that are kept only for prefix reuse count as free. The reserved null block counts neither as free nor as used.
"""

KV_CACHE_USAGE_BEFORE_0_12: Final = "vllm:gpu_cache_usage_perc"
"""The older name of :data:`KV_CACHE_USAGE`: the only name before vLLM 0.9.2, removed in 0.12."""

REQUESTS_WAITING: Final = "vllm:num_requests_waiting"
"""Gauge: requests that were accepted and are not in a batch yet."""

REQUESTS_RUNNING: Final = "vllm:num_requests_running"
"""Gauge: requests in the current batch; never above ``--max-num-seqs``."""

PREEMPTIONS_TOTAL: Final = "vllm:num_preemptions_total"
"""Counter: requests removed from the batch because KV blocks ran out. They are computed again from their start."""

PROMPT_TOKENS_TOTAL: Final = "vllm:prompt_tokens_total"
"""Counter: prompt tokens read, including those found in the prefix cache."""

GENERATION_TOKENS_TOTAL: Final = "vllm:generation_tokens_total"
"""Counter: tokens generated."""

PROMPT_LENGTHS: Final = "vllm:request_prompt_tokens"
"""Histogram: prompt tokens of a request, observed when the request is done."""

OUTPUT_LENGTHS: Final = "vllm:request_generation_tokens"
"""Histogram: generated tokens of a request, observed when the request is done."""

TTFT_SECONDS: Final = "vllm:time_to_first_token_seconds"
"""Histogram: seconds from the arrival of a request to its first token, observed at the first token."""

ITL_SECONDS: Final = "vllm:inter_token_latency_seconds"
"""Histogram: seconds between two outputs of a request, since vLLM 0.10.2. An output is one token, or several tokens
with speculative decoding."""

ITL_SECONDS_BEFORE_0_15: Final = "vllm:time_per_output_token_seconds"
"""The older name of :data:`ITL_SECONDS`: the only name before vLLM 0.10.2, removed in 0.15."""

PREFIX_CACHE_QUERIES_TOTAL: Final = "vllm:prefix_cache_queries_total"
"""Counter: prompt tokens that were looked up in the prefix cache, since vLLM 0.9.2.

The older ``vllm:gpu_prefix_cache_*`` are no former names: early releases counted blocks with them.
"""

EXTERNAL_CACHE_HITS_TOTAL: Final = "vllm:external_prefix_cache_hits_total"
"""Counter: prompt tokens that were not found there but by a KV connector, e.g. in host memory, since vLLM 0.11.1."""

PREFIX_CACHE_HITS_TOTAL: Final = "vllm:prefix_cache_hits_total"
"""Counter: prompt tokens that were found in the prefix cache, since vLLM 0.9.2."""

CACHE_CONFIG_INFO: Final = "vllm:cache_config_info"
"""Gauge, always 1: its labels hold the KV cache's shape. It has an ``engine`` label and no ``model_name``."""

NUM_GPU_BLOCKS_LABEL: Final = "num_gpu_blocks"
"""Label of :data:`CACHE_CONFIG_INFO`: KV-cache blocks of one engine, including the null block; ``None`` until known."""

BLOCK_SIZE_LABEL: Final = "block_size"
"""Label of :data:`CACHE_CONFIG_INFO`: tokens per block."""

KV_CACHE_SIZE_TOKENS_LABEL: Final = "kv_cache_size_tokens"
"""Label of :data:`CACHE_CONFIG_INFO`: tokens that the KV cache holds, as the engine counts them. Since about 0.24."""

KV_OFFLOAD_CONFIG_INFO: Final = "vllm:kv_offload_config_info"
"""Gauge, always 1: its labels hold the size of the cache in host memory, since 0.33
(``kv_connector/v1/offloading/metrics.py``). A series appears with the first step of its engine."""

HOST_SIZE_TOKENS_LABEL: Final = "cpu_kv_cache_size_tokens"
"""Label of :data:`KV_OFFLOAD_CONFIG_INFO`: the KV tokens that one engine keeps of requests of full length; ``None`` if
that length is not known (``CPUOffloadingInfo`` of ``v1/kv_offload/cpu/common.py``, 0.33)."""

_WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")


def capacity_tokens(labels: Mapping[str, str], _: float = 1.0) -> int | None:
    """Return the KV-cache tokens of one engine, from the labels of its ``cache_config_info``.

    This is the engine's own count where it reports one (vLLM about 0.24 and later). Otherwise it is blocks x tokens per
    block, which is the same for a model with one kind of attention layer. None while the engine writes ``None``, which
    it does until it knows the number. The value is always 1.
    """
    reported = _whole(labels.get(KV_CACHE_SIZE_TOKENS_LABEL))
    if reported is not None:
        return reported
    blocks = _whole(labels.get(NUM_GPU_BLOCKS_LABEL))
    size = _whole(labels.get(BLOCK_SIZE_LABEL))
    return blocks * size if blocks is not None and size is not None else None


def _whole(text: str | None) -> int | None:
    """Return a positive whole number; None for any other text or no text."""
    return (int(text) or None) if text is not None and _WHOLE_NUMBER.fullmatch(text) else None


def host_capacity_tokens(labels: Mapping[str, str], _: float = 1.0) -> int | None:
    """Return the tokens that one engine keeps in host memory, from the labels of its ``kv_offload_config_info``."""
    return _whole(labels.get(HOST_SIZE_TOKENS_LABEL))


MODEL_LABEL: Final = "model_name"
"""vLLM writes the name of ``--served-model-name`` into it (``vllm/v1/metrics/loggers.py``)."""

METRICS: Final = EngineMetrics(
    kv_usage=KV_CACHE_USAGE,
    waiting=REQUESTS_WAITING,
    running=REQUESTS_RUNNING,
    preemptions=PREEMPTIONS_TOTAL,
    prompt_tokens=PROMPT_TOKENS_TOTAL,
    generation_tokens=GENERATION_TOKENS_TOTAL,
    capacity=CACHE_CONFIG_INFO,
    adapters="vllm:lora_requests_info",
    capacity_tokens=capacity_tokens,
    rank_label="engine",
    own_labels=frozenset({"engine", MODEL_LABEL}),
    model_label=MODEL_LABEL,
    former_names={
        KV_CACHE_USAGE_BEFORE_0_12: KV_CACHE_USAGE,
        total_of(ITL_SECONDS_BEFORE_0_15): total_of(ITL_SECONDS),
        count_of(ITL_SECONDS_BEFORE_0_15): count_of(ITL_SECONDS),
    },
    added_names={EXTERNAL_CACHE_HITS_TOTAL: PREFIX_CACHE_HITS_TOTAL},
    prompt_lengths=PROMPT_LENGTHS,
    output_lengths=OUTPUT_LENGTHS,
    first_token_seconds=TTFT_SECONDS,
    token_gap_seconds=ITL_SECONDS,
    prefix_queried=PREFIX_CACHE_QUERIES_TOTAL,
    prefix_hit=PREFIX_CACHE_HITS_TOTAL,
    behind_hit=EXTERNAL_CACHE_HITS_TOTAL,
    host_capacity=KV_OFFLOAD_CONFIG_INFO,
    host_capacity_tokens=host_capacity_tokens,
)
"""Every metric that a current engine must export for the operator to work, by meaning."""
