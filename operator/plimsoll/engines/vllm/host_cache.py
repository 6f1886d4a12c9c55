"""KV cache of finished requests in host memory: which flags ask for it, where it is refused, and how much it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.cluster.host import HostCache
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineVersion, KvKeeper
from plimsoll.domain.models.caches import AttentionCache, IndexerCache, LatentCache, StateCache
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import KIB, ceil_div
from plimsoll.engines.flags import OwnedFlag
from plimsoll.engines.starts import StartOptions
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.kv_cache.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import rank_layout

_FIELD = "spec.kvCache.hostMemory"

HOST_CACHE_FLAGS = (
    OwnedFlag("--kv-offloading-size", "kv-o.*", _FIELD),
    OwnedFlag("--kv-transfer-config", "kv-t.*", _FIELD),
)
"""The flags that decide about KV cache in host memory (``engine/arg_utils.py``, 0.11.1 to 0.33)."""

_SEVERAL_KINDS_SINCE = EngineVersion(0, 23)
"""The first release that surely keeps its manager of several kinds of layers next to a KV connector (#41847). Before,
windows take as much VRAM as full attention with one, and recurrent states do not start."""

_ONE_COPY_SINCE = EngineVersion(0, 32)
"""Since this release, ranks that hold the same latents share one copy (``replicated_layout``, 0.32 and 0.33)."""

_PAGE_BYTES = 4 * KIB
"""Chunks are whole pages (``SharedOffloadRegion.BLOCK_SIZE_ALIGNMENT``)."""


_SIMPLE, _ALLOCATOR = "VLLM_USE_SIMPLE_KV_OFFLOAD", "PYTORCH_CUDA_ALLOC_CONF"
"""Variables that choose another connector, whose buffers are private in every release, and PyTorch's allocator. Source:
``_post_init_kv_transfer_config`` and ``_verify_kv_transfer_compat`` of ``config/vllm.py``, 0.32."""

_OWN_POOL = frozenset({"--enable-cumem-allocator=True", "--enable-sleep-mode=True"})
"""Switches with which the cache is in a pool of its own, whatever the allocator does."""


def host_cache_refusal(
    model: ModelFacts, release: EngineVersion, options: StartOptions, environment: Mapping[str, str]
) -> str | None:
    """Return why a release keeps no KV cache of a model in host memory, and what to write; None where it does.

    Blocks are found by the hashes of prefixes, so an engine without these finds none.
    """
    if model.task is Task.POOL:
        return "No start of a model that pools with a cache in host memory is known: remove it."
    if options.prefix_caching is False:
        return "It keeps prefixes, which --no-enable-prefix-caching turns off: remove one of them."
    if environment.get(_SIMPLE, "0") not in ("", "0"):
        return f"{_SIMPLE} keeps it in other buffers than are counted: remove the variable, or it."
    if "expandable_segments:True" in environment.get(_ALLOCATOR, "") and not _OWN_POOL & {*options.unfollowed}:
        return f"vLLM does not start with it and expandable_segments in {_ALLOCATOR}: remove one of them."
    kinds = list(model.caches())
    if any(isinstance(each, StateCache) for each in kinds) and not kv_law_for(release).caches_state_prefixes:
        return f"vLLM {release} keeps no prefixes of recurrent states: use 0.28 or newer, or remove it."
    if any(not _holds_all(each) for each in kinds) and release < _SEVERAL_KINDS_SINCE:
        return (
            f"vLLM {release} charges the windows of {model.architecture} as full attention next to a cache in host "
            f"memory: use {_SEVERAL_KINDS_SINCE} or newer, or remove it."
        )
    return None


def _holds_all(cache: object) -> bool:
    """Whether a layer keeps every token of a request."""
    if isinstance(cache, AttentionCache):
        return cache.window_tokens is None and cache.chunk_tokens is None
    return isinstance(cache, LatentCache | IndexerCache)


def host_cache(
    request: Request, gpu: GpuType, split: Split, settings: EngineSettings, figures: MemoryEstimate
) -> HostCache | None:
    """Return what the cache in host memory holds; None without one, or if another program keeps it.

    A chunk is a block of every rank. Source: ``CPUOffloadingSpec`` of ``v1/kv_offload/cpu/spec.py``, 0.32 and 0.33:
    chunks are the asked bytes over a chunk, rounded up to a page, of as many copies of a block as there are ranks. A
    block belongs to one group of layers. If there are several, all their blocks are counted, although blocks outside a
    window need not be kept: the tokens are then the least.
    """
    size = settings.host_cache_bytes or request.engine.host.kv_bytes
    layout = rank_layout(request, gpu, split, settings, figures.stage) if size else None
    if layout is None or not layout.block_bytes or request.engine.host.kv_keeper is KvKeeper.LMCACHE:
        return None
    copies = 1 if _shares_copy(request, gpu, split) else split.tensor_parallel * split.pipeline_parallel
    chunk = ceil_div(layout.block_bytes * copies, _PAGE_BYTES) * _PAGE_BYTES
    chunks = size // chunk
    of_token = _blocks_of_token(layout)
    tokens = int(chunks / of_token) if of_token else 0
    return HostCache(size, chunks, chunk, tokens, is_least=any(not group.grows for group in layout.groups))


def _shares_copy(request: Request, gpu: GpuType, split: Split) -> bool:
    """Whether all ranks share one copy of their latents, in one file (``build_offloading_config``, 0.32 and 0.33)."""
    latents = all(isinstance(cache, LatentCache | IndexerCache) for cache in request.model.caches())
    alone = split.pipeline_parallel == split.context_parallel == split.data_parallel == 1
    return latents and alone and gpu.vendor is Vendor.NVIDIA and request.engine.version >= _ONE_COPY_SINCE


def _blocks_of_token(layout: KvLayout) -> Fraction:
    """Return the blocks that a token of a long prefix takes, over all groups whose prefixes are kept."""
    kept = (group for group in layout.groups if group.fixed_blocks is None or layout.has_states)
    return sum((Fraction(each.count, each.block_tokens * each.token_ranks) for each in kept), Fraction(0))
