"""What the engine takes for a flag that was not given, by its release and the GPU.

Source: vLLM's ``engine/arg_utils.py`` (defaults of ``vllm serve`` by device memory and name) and ``config/cache.py``.
"""

from __future__ import annotations

from plimsoll.domain.versions import EngineVersion

LARGE_GPU_GIB = 70
"""From here on the engine takes its larger defaults, but not on A100."""

HUGE_GPU_GIB = 160
"""From here on 0.28 doubles the batched tokens."""

SMALL_SEQUENCES, SMALL_STEP_TOKENS = 256, 2048
"""The smaller row of the table."""

_SMALL_SEQUENCES_SINCE = EngineVersion(0, 8, 3)
_LARGE_SEQUENCES_SINCE = EngineVersion(0, 8, 5)
_HUGE_TOKENS_SINCE = EngineVersion(0, 28)
_UTILIZATION_092_SINCE = EngineVersion(0, 20)
_A100_SPARED_SINCE = EngineVersion(0, 9)


def utilization(version: EngineVersion) -> float:
    """``--gpu-memory-utilization``."""
    return 0.92 if version >= _UTILIZATION_092_SINCE else 0.9


def max_num_seqs(version: EngineVersion, *, total_gib: float, is_a100: bool) -> int:
    """``--max-num-seqs``."""
    if version < _SMALL_SEQUENCES_SINCE:
        return 1024
    large = _is_large(version, total_gib, is_a100=is_a100)
    return 1024 if large and version >= _LARGE_SEQUENCES_SINCE else SMALL_SEQUENCES


def max_num_batched_tokens(version: EngineVersion, *, total_gib: float, is_a100: bool) -> int:
    """``--max-num-batched-tokens``."""
    if total_gib >= HUGE_GPU_GIB and version >= _HUGE_TOKENS_SINCE:
        return 16384
    return 8192 if _is_large(version, total_gib, is_a100=is_a100) else SMALL_STEP_TOKENS


def _is_large(version: EngineVersion, total_gib: float, *, is_a100: bool) -> bool:
    return total_gib >= LARGE_GPU_GIB and not (is_a100 and version >= _A100_SPARED_SINCE)
