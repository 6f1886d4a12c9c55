"""The steps of an estimate: every formula with its numbers, in the order in which the engine uses memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from plimsoll.domain.caches import (
    AttentionCache,
    CacheSpec,
    CrossCache,
    IndexerCache,
    LatentCache,
    RingCache,
    RowCache,
    StateCache,
)
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.laws import law_for
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.engines.vllm.memory.rank_cache import rank_layout
from plimsoll.engines.vllm.memory.runtime_steps import runtime_steps
from plimsoll.engines.vllm.memory.weight_steps import weight_steps
from plimsoll.memory.draft import draft_caches
from plimsoll.memory.load import EXPECTED_HEADROOM_PERCENT, needed_blocks
from plimsoll.memory.stages import stage_caches
from plimsoll.memory.steps import Step


def working(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> tuple[Step, ...]:
    """Return the steps for the stage that runs out of memory first.

    The totals are those of :func:`~plimsoll.engines.vllm.memory.estimate.estimate`.

    Raises:
        UnsupportedModel, ValueError: as :func:`~plimsoll.engines.vllm.memory.estimate.estimate`.
    """
    figures = estimate(request, gpu, split, settings)
    rank = Rank(request, gpu, split, settings, law_for(request.engine.version), figures.stage)
    share = f"{gpu.usable_bytes:,} B usable x {settings.gpu_memory_utilization_percent} %"
    tokens = f"{figures.kv_capacity_low_tokens:,} to {figures.kv_capacity_high_tokens:,}"
    needed = "weights + KV cache + activations + CUDA graphs + overhead"
    needed += " + LoRA slots" * bool(figures.adapters_bytes) + " + learned" * bool(figures.learned_bytes)
    return (
        Step("budget", share, figures.budget_bytes, is_total=True),
        *weight_steps(request, gpu, split, settings, figures.stage),
        *_learned_weights(request, gpu, split),
        Step("weights", _of_stage(split, figures.stage), figures.weights_bytes, is_total=True),
        *_cache(request, split, settings, figures.stage),
        Step("KV cache", "needed by the declared load", figures.kv_cache_bytes, is_total=True),
        *runtime_steps(rank, figures),
        *_options(figures),
        Step("needed", needed, figures.expected_bytes, is_total=True),
        Step("margin", "upper half of the error band, to be sure", figures.margin_bytes, is_total=True),
        Step("left for KV", "budget - all other terms", figures.available_kv_bytes, is_total=True),
        Step("KV tokens", f"{figures.kv_capacity_tokens:,} ({tokens})"),
        Step("outside", "CUDA and NCCL beside the budget, in no sum", figures.outside_bytes, is_total=True),
    )


def _of_stage(split: Split, stage: int) -> str:
    stages = split.pipeline_parallel
    return "sum of one rank" if stages == 1 else f"sum of one rank of stage {stage + 1} of {stages}, short first"


def _learned_weights(request: Request, gpu: GpuType, split: Split) -> Iterator[Step]:
    correction = request.correction_for(gpu.name, split)
    if correction is not None and correction.weights_bytes:
        yield Step("  learned", "what engines of this kind logged more or less", correction.weights_bytes)


def _cache(request: Request, split: Split, settings: EngineSettings, stage: int) -> Iterator[Step]:
    last = stage == split.pipeline_parallel - 1
    caches = Counter(dict(stage_caches(request.model, stage, split.pipeline_parallel)))
    caches.update(dict(draft_caches(request) if last else ()))
    for cache, count in caches.items():
        yield Step("  cache", f"{count} layers: {_described(cache)}")
    layout = rank_layout(request, split, settings, stage)
    yield Step(
        "  block",
        f"{layout.block_tokens} tokens of a group = {layout.block_bytes:,} B; {layout.bytes_per_token:,} B a token",
    )
    yield from _load(request, layout)


def _load(request: Request, layout: KvLayout) -> Iterator[Step]:
    shape = request.shape
    blocks, total = layout.blocks_of_request(shape.context_tokens), needed_blocks(shape, layout)
    groups = f"over {len(layout.groups)} kinds of group"
    yield Step("  request", f"{shape.context_tokens:,} tokens = {blocks:,} blocks {groups}")
    how = f"{shape.concurrency} x {blocks:,} blocks"
    if shape.expected_tokens is not None:
        mean = layout.blocks_of_request(shape.expected_tokens)
        room = f"{EXPECTED_HEADROOM_PERCENT / 100:.1f} x {shape.concurrency} x {mean:,} blocks"
        how = f"min({how}, max({room} of {shape.expected_tokens:,} tokens, {blocks:,}))"
    yield Step("  load", f"{how} = {total:,} blocks", total * layout.block_bytes)
    yield Step("  null block", "the engine keeps one block unused", layout.block_bytes)


def _described(cache: CacheSpec) -> str:
    match cache:
        case AttentionCache(heads, key, value, window, chunk):
            seen = f", window {window:,}" if window else f", chunk {chunk:,}" if chunk else ""
            return f"{heads} KV heads x ({key} + {value}) values a token{seen}"
        case LatentCache(latent, rope, _):
            return f"latent attention, {latent} + {rope} values a token on every rank"
        case IndexerCache(head_dim):
            return f"indexer, {head_dim} + 4 bytes a token on every rank"
        case RowCache(row, _, tokens, window):
            seen = f", window {window:,}" if window else ""
            return f"rows of {row:,} bytes for {tokens} tokens each on every rank{seen}"
        case RingCache(size, tokens):
            return f"{size:,} bytes of each of the last {tokens} tokens a request on every rank"
        case CrossCache(heads, head_dim, tokens):
            return f"cross attention, {heads} KV heads x 2 x {head_dim} values x {tokens:,} encoder tokens a request"
        case StateCache(kind, parts):
            elements = sum(part.units * part.unit_elements for tensor in parts for part in tensor)
            return f"{kind.value} state, {elements:,} elements a request"


def _options(figures: MemoryEstimate) -> Iterator[Step]:
    if figures.adapters_bytes:
        slots = "slots x rank x (inputs + outputs) of every linear layer"
        yield Step("LoRA slots", slots, figures.adapters_bytes, is_total=True)
    if figures.learned_bytes:
        formula = "what engines of this kind took more, or less, than all terms say"
        yield Step("learned", formula, figures.learned_bytes, is_total=True)
