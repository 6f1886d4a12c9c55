"""The KV-cache layout of one rank, for a request and its engine settings."""

from __future__ import annotations

from functools import lru_cache

from plimsoll.domain.caches import AttentionCache
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import EngineSettings, Split
from plimsoll.domain.precision import TURBOQUANT, KvPrecision
from plimsoll.domain.serving import Request
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from plimsoll.engines.vllm.memory.kv_law import KvLaw, kv_law_for
from plimsoll.engines.vllm.memory.rank import value_bytes
from plimsoll.engines.vllm.memory.turboquant import turboquant_block, with_native_ends
from plimsoll.memory.draft import draft_caches, draft_tokens
from plimsoll.memory.stages import CountedCaches, other_caches, stage_caches


def rank_layout(request: Request, split: Split, settings: EngineSettings, stage: int) -> KvLayout:
    """Return the cache layout of one rank of one stage.

    Raises:
        UnsupportedModel: the caches have no layout.
    """
    last = stage == split.pipeline_parallel - 1
    if request.kv_precision in TURBOQUANT and (request.engine.speculation is not None or split.context_parallel > 1):
        what = "speculation or context parallelism"
        raise UnsupportedModel(request.model.name, f"the {request.kv_precision} KV cache together with {what}")
    return _layout(
        with_native_ends(request.model, request.kv_precision),
        request.kv_precision,
        split,
        stage,
        settings.max_num_batched_tokens,
        value_bytes(request),
        draft_tokens(request),
        draft_caches(request) if last else (),
        () if last else draft_caches(request),
        kv_law_for(request.engine.version),
    )


def _manages_kinds(model: ModelFacts, law: KvLaw, *, drafts: bool) -> bool:
    """Whether layers that keep less than the whole context are charged so (vLLM ``config/vllm.py``)."""
    chunked = any(isinstance(cache, AttentionCache) and cache.chunk_tokens for cache in model.caches())
    return law.hybrid_manager and not (chunked and (drafts or not law.charges_chunks))


@lru_cache(maxsize=1024)
def _layout(
    model: ModelFacts,
    precision: KvPrecision,
    split: Split,
    stage: int,
    batched_tokens: int,
    dtype_bytes: int,
    speculative_tokens: int,
    draft: CountedCaches,
    elsewhere: CountedCaches,
    law: KvLaw,
) -> KvLayout:
    return kv_layout(
        (*stage_caches(model, stage, split.pipeline_parallel), *draft),
        precision,
        split,
        batched_tokens=batched_tokens,
        dtype_bytes=dtype_bytes,
        speculative_tokens=speculative_tokens,
        others=(*other_caches(model, stage, split.pipeline_parallel), *elsewhere),
        concurrent_batches=law.concurrent_batches,
        prefix_caching=law.caches_state_prefixes,
        state_checkpoints=law.saves_states,
        hybrid_manager=_manages_kinds(model, law, drafts=bool(draft)),
        packing=law.packing,
        block_tokens=turboquant_block(model, precision),
        model=model.name,
    )
