"""The releases from which vLLM has an option."""

from __future__ import annotations

from plimsoll.domain.versions import EngineVersion
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
}
"""``--offload-group-size``: #29941, in the documentation of 0.17.1. ``--language-model-only``: 0.17. JSON in
``--limit-mm-per-prompt``: 0.9. One method name for the prediction layers of every model: #25232. ``--runner``: read in
0.10.2; 0.10.0 has ``--task`` in its place, and 0.8 pools with the engine that no law covers. Draft models: #24322;
0.13 still answers that they are not supported (#31883). Asynchronous scheduling is the default since 0.14 (release
notes). ``--data-parallel-size`` serves since 0.8.3 (#13923), without CUDA graphs at first (#18567). The speeds are
modelled since 0.14 only: measurements of 0.11 are up to three times slower (``benchmarks/latency/data``). Formats of
the KV cache: ``CacheDType`` in ``config/cache.py`` of 0.8 to 0.33. TurboQuant is there since 0.20; before 0.24 its
buffers are not those that are counted here (``turboquant_attn.py``, ``_reserve_workspace``)."""
