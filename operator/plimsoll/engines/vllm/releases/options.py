"""Options by release: since when vLLM has each, and the engine's own values for those that nobody names.

The engine's own values for options that nobody names, by its release and its GPU.
From ``engine/arg_utils.py`` (``get_batch_defaults``) and ``config/cache.py``. They differ from the flags that the
operator passes, because it passes every flag.
"""

from __future__ import annotations

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.units import GIB
from plimsoll.engines.base import Feature

SINCE = {
    Feature.WEIGHT_STREAMING: EngineVersion(0, 17),
    Feature.TEXT_ONLY: EngineVersion(0, 17),
    Feature.MEDIA_LIMITS: EngineVersion(0, 9),
    Feature.MTP: EngineVersion(0, 11),
    Feature.DRAFT_MODEL: EngineVersion(0, 14),
    Feature.POOLING: EngineVersion(0, 10, 2),
    Feature.PLANNING_AHEAD: EngineVersion(0, 14),
    Feature.DATA_PARALLEL: EngineVersion(0, 14),
    Feature.KV_NVFP4: EngineVersion(0, 20),
    Feature.KV_SCALES: EngineVersion(0, 20),
    Feature.KV_INT4: EngineVersion(0, 25),
    Feature.KV_TURBOQUANT: EngineVersion(0, 24),
    Feature.HOST_CACHE: EngineVersion(0, 11, 1),
    Feature.NGRAM: EngineVersion(0, 8),
    Feature.EAGLE: EngineVersion(0, 8),
}
"""``--offload-group-size``: #29941, in the documentation of 0.17.1. ``--language-model-only``: 0.17. JSON in
``--limit-mm-per-prompt``: 0.9. One method name for the prediction layers of every model: #25232. ``--runner``: read in
0.10.2; 0.10.0 has ``--task`` in its place, and 0.8 pools with the engine that no law covers. Draft models: #24322;
0.13 still answers that they are not supported (#31883). Asynchronous scheduling is the default since 0.14 (release
notes). ``--data-parallel-size`` serves since 0.8.3 (#13923), without CUDA graphs at first (#18567). The speeds are
modelled since 0.14 only: measurements of 0.11 are up to three times slower (``benchmarks/latency/data``). Formats of
the KV cache: ``CacheDType`` in ``config/cache.py`` of 0.8 to 0.33. TurboQuant is there since 0.20; before 0.24 its
buffers are not those that are counted here (``turboquant_attn.py``, ``_reserve_workspace``).
``--kv-offloading-size`` and ``--kv-offloading-backend``: in the wheel of 0.11.1."""


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
