"""The engine's own values for options that nobody names, by its release and its GPU.

From ``engine/arg_utils.py`` (``get_batch_defaults``) and ``config/cache.py``. They differ from the flags that the
operator passes, because it passes every flag.
"""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion

_LARGE_BYTES, _HUGE_BYTES = 70 * GIB, 160 * GIB
SMALL_STEP, _LARGE_STEP, _HUGE_STEP = 2048, 8192, 16384
SMALL_SEQUENCES, _LARGE_SEQUENCES = 256, 1024

_GB10 = (12, 1)

_SMALL_SEQUENCES_SINCE = EngineVersion(0, 8, 3)
_LARGE_SEQUENCES_SINCE = EngineVersion(0, 8, 5)
_A100_IS_SMALL_SINCE = EngineVersion(0, 9)
_GB10_IS_SMALL_SINCE = EngineVersion(0, 33)
_HUGE_STEP_SINCE = EngineVersion(0, 28)
_MORE_UTILIZATION_SINCE = EngineVersion(0, 20)


def default_utilization(version: EngineVersion) -> float:
    """Return ``--gpu-memory-utilization``."""
    return 0.92 if version >= _MORE_UTILIZATION_SINCE else 0.9


def default_sequences(version: EngineVersion, gpu: GpuType | None) -> int:
    """Return ``--max-num-seqs`` of a server; no GPU counts as a small one."""
    if version < _SMALL_SEQUENCES_SINCE:
        return _LARGE_SEQUENCES
    return _LARGE_SEQUENCES if _is_large(version, gpu) and version >= _LARGE_SEQUENCES_SINCE else SMALL_SEQUENCES


def default_step(version: EngineVersion, gpu: GpuType | None) -> int:
    """Return ``--max-num-batched-tokens`` of a server; no GPU counts as a small one."""
    if gpu is not None and gpu.usable_bytes >= _HUGE_BYTES and version >= _HUGE_STEP_SINCE:
        return _HUGE_STEP
    return _LARGE_STEP if _is_large(version, gpu) else SMALL_STEP


def _is_large(version: EngineVersion, gpu: GpuType | None) -> bool:
    if gpu is None:
        return False
    is_spared = gpu.name.startswith("a100") and version >= _A100_IS_SMALL_SINCE
    return gpu.usable_bytes >= _LARGE_BYTES and not is_spared and not has_small_defaults(version, gpu)


def has_small_defaults(version: EngineVersion, gpu: GpuType) -> bool:
    """Whether a release counts a GPU as a small one for its compute, however much memory it has: the GB10."""
    return gpu.compute_capability == _GB10 and version >= _GB10_IS_SMALL_SINCE
