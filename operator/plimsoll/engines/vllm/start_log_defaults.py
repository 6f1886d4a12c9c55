"""The values of options that a log does not name: the engine's own defaults, by its release and its GPU.

From ``engine/arg_utils.py`` (``get_batch_defaults``) and ``config/cache.py``. They differ from the flags that the
operator passes, because it passes every flag.
"""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion

_LARGE_BYTES, _HUGE_BYTES = 70 * GIB, 160 * GIB
_SMALL_STEP, _LARGE_STEP, _HUGE_STEP = 2048, 8192, 16384
_SMALL_SEQUENCES, _LARGE_SEQUENCES = 256, 1024

_SMALL_SEQUENCES_SINCE = EngineVersion(0, 8, 3)
_LARGE_SEQUENCES_SINCE = EngineVersion(0, 8, 5)
_A100_IS_SMALL_SINCE = EngineVersion(0, 9)
_HUGE_STEP_SINCE = EngineVersion(0, 28)
_MORE_UTILIZATION_SINCE = EngineVersion(0, 20)


def default_utilization(version: EngineVersion) -> float:
    """Return ``--gpu-memory-utilization``."""
    return 0.92 if version >= _MORE_UTILIZATION_SINCE else 0.9


def default_sequences(version: EngineVersion, gpu: GpuType) -> int:
    """Return ``--max-num-seqs`` of a server."""
    if version < _SMALL_SEQUENCES_SINCE:
        return _LARGE_SEQUENCES
    return _LARGE_SEQUENCES if _is_large(version, gpu) and version >= _LARGE_SEQUENCES_SINCE else _SMALL_SEQUENCES


def default_step(version: EngineVersion, gpu: GpuType) -> int:
    """Return ``--max-num-batched-tokens`` of a server."""
    if gpu.usable_bytes >= _HUGE_BYTES and version >= _HUGE_STEP_SINCE:
        return _HUGE_STEP
    return _LARGE_STEP if _is_large(version, gpu) else _SMALL_STEP


def _is_large(version: EngineVersion, gpu: GpuType) -> bool:
    is_spared = gpu.name.startswith("a100") and version >= _A100_IS_SMALL_SINCE
    return gpu.usable_bytes >= _LARGE_BYTES and not is_spared
