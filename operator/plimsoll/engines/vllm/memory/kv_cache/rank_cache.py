"""The KV-cache layout of one rank, for a request and its engine settings.

From the KV tokens that a vLLM server reports to bytes, and to tokens as later releases count them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, StateCache, StateKind
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import TURBOQUANT, KvPrecision
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from plimsoll.engines.vllm.memory.kv_cache.blocks import BLOCK_TOKENS
from plimsoll.engines.vllm.memory.kv_cache.kv_law import GATED_DELTA_ALIGNMENT, KvLaw, kv_law_for
from plimsoll.engines.vllm.memory.kv_cache.turboquant import turboquant_block, with_native_ends
from plimsoll.engines.vllm.memory.rank import value_bytes
from plimsoll.memory.draft import draft_caches, draft_tokens
from plimsoll.memory.stages import CountedCaches, other_caches, stage_caches

_FLASHINFER_SINCE = 9

_OWN_GATED_DELTA = frozenset({"OlmoHybridForCausalLM"})
"""Classes whose gated delta networks save no states (``layers/mamba/gdn/olmo_gdn_linear_attn.py``, read in 0.33)."""


def rank_layout(request: Request, gpu: GpuType, split: Split, settings: EngineSettings, stage: int) -> KvLayout:
    """Return the cache layout of one rank of one stage.

    Raises:
        UnsupportedModel: the caches have no layout.
    """
    last, law = stage == split.pipeline_parallel - 1, kv_law_for(request.engine.version)
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
        law,
        request.engine.block_tokens or turboquant_block(request.model, request.kv_precision),
        concurrent_batches=_batches(request, split, law),
        keeps_prefixes=keeps_prefixes(request, law),
        saves_gated_delta=keeps_prefixes(request, law) and _saves_gated_delta(request.model, gpu, law),
    )


def keeps_prefixes(request: Request, law: KvLaw) -> bool:
    """Whether an engine keeps the states of prefixes: as its release does by itself, unless the user turns it off.

    Source: ``HybridAttentionMambaModelConfig`` of vLLM's ``model_executor/models/config.py``, 0.32 and 0.33.
    """
    return law.caches_state_prefixes and request.engine.prefix_caching is not False


def _batches(request: Request, split: Split, law: KvLaw) -> int | None:
    """Return the steps in flight; None for the usual ones. Source: ``max_concurrent_batches`` of ``config/vllm.py``."""
    is_usual = law.concurrent_batches is not None or request.engine.plans_ahead
    return law.concurrent_batches if is_usual else split.pipeline_parallel


def _manages_kinds(model: ModelFacts, law: KvLaw, *, drafts: bool) -> bool:
    """Whether layers that keep less than the whole context are charged so (vLLM ``config/vllm.py``)."""
    chunked = any(isinstance(cache, AttentionCache) and cache.chunk_tokens for cache in model.caches())
    return law.hybrid_manager and not (chunked and (drafts or not law.charges_chunks))


def _saves_gated_delta(model: ModelFacts, gpu: GpuType, law: KvLaw) -> bool:
    """Whether gated delta networks save states from inside a prefill: FlashInfer's kernel does.

    Hopper and Blackwell have it (``_resolve_gdn_prefill_backend`` of ``qwen_gdn_linear_attn.py``, 0.33; Blackwell's
    wants keys of 128, as all published models have them).
    """
    if not law.saves_gated_delta or gpu.compute_capability is None or gpu.compute_capability[0] < _FLASHINFER_SINCE:
        return False
    kinds = {cache.kind for cache in model.caches() if isinstance(cache, StateCache)}
    return StateKind.GATED_DELTA in kinds and model.architecture not in _OWN_GATED_DELTA


def _saving(caches: CountedCaches) -> CountedCaches:
    """Return the caches with states that are saved during a prefill: all of a model do it, or none."""
    return tuple((_saved(cache), count) for cache, count in caches)


def _saved(cache: CacheSpec) -> CacheSpec:
    return replace(cache, checkpoints=True) if isinstance(cache, StateCache) else cache


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
    block_tokens: int | None,
    *,
    concurrent_batches: int | None,
    keeps_prefixes: bool,
    saves_gated_delta: bool,
) -> KvLayout:
    here, others = (
        stage_caches(model, stage, split.pipeline_parallel),
        other_caches(model, stage, split.pipeline_parallel),
    )
    if saves_gated_delta:
        here, others = _saving(here), _saving(others)
    return kv_layout(
        (*here, *draft),
        precision,
        split,
        batched_tokens=batched_tokens,
        dtype_bytes=dtype_bytes,
        speculative_tokens=speculative_tokens,
        others=(*others, *elsewhere),
        concurrent_batches=concurrent_batches,
        prefix_caching=keeps_prefixes,
        state_checkpoints=law.saves_states,
        hybrid_manager=_manages_kinds(model, law, drafts=bool(draft)),
        packing=law.packing,
        block_tokens=block_tokens,
        aligns_to_block=law.aligns_to_block,
        state_alignment=GATED_DELTA_ALIGNMENT if saves_gated_delta else BLOCK_TOKENS,
        model=model.name,
    )


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
