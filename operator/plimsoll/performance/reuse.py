"""The time of a token of a prefix that comes again: loaded from host memory, or computed once more."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.performance.step_costs import StepCosts

_BYTES_PER_GB = 10**9


class ReuseTimes(NamedTuple):
    """Seconds of a replica for one token of a prefix, ``loaded`` from host memory and ``computed`` once more."""

    loaded: float
    computed: float


def reuse_times(costs: StepCosts, gpu: GpuType, token_bytes: int, prompt_tokens: float, step_tokens: int) -> ReuseTimes:
    """Return both times, averaged over a prefix of ``prompt_tokens``.

    A rank loads its own part, ``token_bytes``, over its own link, all ranks at the same time. vLLM's engineers saw
    about 50 GB/s on H100 (https://blog.vllm.ai, 2025-12-29), which is the catalogue's rate of copies over PCIe 5.
    Computing fills whole steps of prompts, as the performance model counts them, with the attention among the tokens.
    Of several stages the time is that of one, because prompts follow each other through them.
    """
    computed = costs.prompt_step_seconds(step_tokens) / step_tokens
    attention = costs.prompt_attention(prompt_tokens) / prompt_tokens
    return ReuseTimes(token_bytes / (gpu.host_bandwidth_gb_per_second * _BYTES_PER_GB), computed + attention)
