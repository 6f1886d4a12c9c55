"""The names under which a vLLM server reports its load, and the labels it reports its KV cache with.

Source of every name: vLLM's ``vllm/v1/metrics/loggers.py`` (release 0.32.0). A test serves a model with that release
and looks for each of them, so that a renamed metric fails a build and not a cluster.
"""

from __future__ import annotations

from typing import Final

KV_CACHE_USAGE: Final = "vllm:kv_cache_usage_perc"
"""Gauge, 0 to 1 in spite of its name: the share of KV-cache blocks that running requests hold. Since vLLM 0.9.2.

Blocks that are kept only for prefix reuse count as free, and the reserved null block counts as neither.
"""

KV_CACHE_USAGE_BEFORE_0_12: Final = "vllm:gpu_cache_usage_perc"
"""What :data:`KV_CACHE_USAGE` was called at first: the only name before vLLM 0.9.2, gone in 0.12."""

REQUESTS_WAITING: Final = "vllm:num_requests_waiting"
"""Gauge: requests that were accepted and are not in a batch yet."""

REQUESTS_RUNNING: Final = "vllm:num_requests_running"
"""Gauge: requests in the current batch; never above ``--max-num-seqs``."""

PREEMPTIONS_TOTAL: Final = "vllm:num_preemptions_total"
"""Counter: requests thrown out of the batch for want of KV blocks, to be computed again from their start."""

PROMPT_TOKENS_TOTAL: Final = "vllm:prompt_tokens_total"
"""Counter: prompt tokens read, those found in the prefix cache included."""

GENERATION_TOKENS_TOTAL: Final = "vllm:generation_tokens_total"
"""Counter: tokens generated."""

CACHE_CONFIG_INFO: Final = "vllm:cache_config_info"
"""Gauge, always 1: the KV cache's shape, in its labels. It has an ``engine`` label and no ``model_name``."""

NUM_GPU_BLOCKS_LABEL: Final = "num_gpu_blocks"
"""Label of :data:`CACHE_CONFIG_INFO`: KV-cache blocks of one engine, the null block included; ``None`` until known."""

BLOCK_SIZE_LABEL: Final = "block_size"
"""Label of :data:`CACHE_CONFIG_INFO`: tokens per block."""

KV_CACHE_SIZE_TOKENS_LABEL: Final = "kv_cache_size_tokens"
"""Label of :data:`CACHE_CONFIG_INFO`: tokens the KV cache holds, as the engine itself counts them. Since about 0.24."""

ENGINE_METRICS: Final = (
    KV_CACHE_USAGE,
    REQUESTS_WAITING,
    REQUESTS_RUNNING,
    PREEMPTIONS_TOTAL,
    PROMPT_TOKENS_TOTAL,
    GENERATION_TOKENS_TOTAL,
    CACHE_CONFIG_INFO,
)
"""Every metric a current engine must export for the operator to work."""

CACHE_CONFIG_LABELS: Final = (NUM_GPU_BLOCKS_LABEL, BLOCK_SIZE_LABEL, KV_CACHE_SIZE_TOKENS_LABEL)
"""The labels of :data:`CACHE_CONFIG_INFO` that the operator reads."""
