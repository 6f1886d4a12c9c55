"""From the KV tokens that a vLLM server reports to bytes, and to tokens as later releases count them."""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.memory.rank_cache import rank_layout

REPORTS_CACHE_SIZE = EngineVersion(0, 24)
"""From this release an engine's metrics give its cache size in tokens; before it, blocks and tokens of a block."""


def full_length_tokens(
    request: Request, gpu: GpuType, split: Split, settings: EngineSettings, figures: MemoryEstimate, reported: int
) -> int:
    """Convert ``reported`` to the tokens that requests of full length get, which is how later releases count.

    Both are those of all engines of the replica.

    Before 0.24 the metrics give blocks times tokens of a block. If the layers are of several kinds, a request holds
    blocks of each kind, and that figure is too high.
    """
    if request.engine.version >= REPORTS_CACHE_SIZE:
        return reported
    layout, engines = rank_layout(request, gpu, split, settings, figures.stage), split.data_parallel
    size = reported // engines // layout.block_tokens * layout.block_bytes
    return engines * layout.capacity_tokens(size, request.shape.context_tokens)


def cache_bytes(
    request: Request, gpu: GpuType, split: Split, settings: EngineSettings, figures: MemoryEstimate, reported: int
) -> tuple[int, int]:
    """Return the predicted and the real cache bytes of one GPU, from the tokens that the engines of its replica report.

    Data-parallel engines agree on the smallest cache of them (``config/parallel.py``, ``sync_kv_cache_memory_size``).
    All stages hold the same number of blocks: with several stages, both figures are counted in blocks of the stage that
    runs out first.
    """
    layout = rank_layout(request, gpu, split, settings, figures.stage)
    context, reported = request.shape.context_tokens, reported // split.data_parallel
    if request.engine.version < REPORTS_CACHE_SIZE:
        return figures.available_kv_bytes, reported // layout.block_tokens * layout.block_bytes
    available = layout.bytes_of_tokens(reported, context)
    if split.pipeline_parallel == 1:
        return figures.available_kv_bytes, available
    return layout.bytes_of_tokens(figures.kv_capacity_tokens, context), available
