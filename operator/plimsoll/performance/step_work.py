"""The work of one engine step on one rank: bytes to read, products to compute, and messages to exchange.

It depends on the model, the number formats and the split, and not on the GPU. It is counted once; the time of a step is
arithmetic on it.

The bytes that a token of decoding reads of the caches, and the work of the attention of a prompt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.cluster.gpus import WeightKind
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import (
    AttentionCache,
    CacheSpec,
    CrossCache,
    IndexerCache,
    LatentCache,
    RowCache,
    StateCache,
)
from plimsoll.domain.models.model import LayerKind, ModelFacts, Weight
from plimsoll.domain.models.precision import TURBOQUANT, WIDE, KvPrecision, Precision
from plimsoll.memory.cache_bytes import RankFormat, state_bytes, token_bytes
from plimsoll.memory.kernels import ABSORBED
from plimsoll.memory.weights import EXPERTS, projection, rank_shape, stage_tensors, weight_format

_FLOPS = 2
_STATE_PASSES = 2
"""A recurrent state is read and written for every token."""

_DEFAULT_HEAD_WIDTHS = 256
"""Key part without positions, and value, of one head of latent attention (128 + 128 in DeepSeek models)."""


@dataclass(frozen=True, slots=True)
class CacheWork:
    """One kind of cache on one rank, over all layers that have it.

    Attributes:
        token_bytes: bytes read of each earlier token that a new token attends to.
        token_flops: products for each of them, while decoding.
        prompt_flops: products for each pair of a token of a prompt and an earlier one.
        most_tokens: the most earlier tokens that are attended to (window, chunk, selection); None without a limit.
        fixed_bytes: bytes read and written for every token whatever the context (recurrent states).
    """

    token_bytes: float
    token_flops: float
    prompt_flops: float
    most_tokens: int | None
    fixed_bytes: float

    def attended(self, context: float) -> float:
        """Return how many earlier tokens a token behind ``context`` tokens attends to."""
        return context if self.most_tokens is None else min(context, float(self.most_tokens))

    def pairs(self, prompt: float) -> float:
        """Return the pairs of tokens that the attention of a prompt of that length computes."""
        most = prompt if self.most_tokens is None else min(prompt, float(self.most_tokens))
        return most * prompt - most * most / 2


def cache_work(model: ModelFacts, precision: KvPrecision, split: Split) -> tuple[CacheWork, ...]:
    """Return the work of the caches of all layers, one entry for each limit of attended tokens.

    Raises:
        UnsupportedModel: a cache has no layout in ``precision``.
    """
    rank = RankFormat(precision, 2, split.tensor_parallel, 0, model.name)
    sums: dict[int | None, list[float]] = {}
    for index, count in Counter(model.order).items():
        for work in _of_layer(model, model.kinds[index], rank, split):
            total = sums.setdefault(work.most_tokens, [0.0, 0.0, 0.0, 0.0])
            for place, each in enumerate((work.token_bytes, work.token_flops, work.prompt_flops, work.fixed_bytes)):
                total[place] += count * each
    return tuple(CacheWork(read, flops, prompt, most, fixed) for most, (read, flops, prompt, fixed) in sums.items())


def _of_layer(model: ModelFacts, kind: LayerKind, rank: RankFormat, split: Split) -> Iterator[CacheWork]:
    heads = max(1, model.heads // split.tensor_parallel)
    picked = min((cache.picked_tokens for cache in kind.caches if isinstance(cache, IndexerCache)), default=0)
    for cache in kind.caches:
        yield from _of_cache(cache, rank, split, heads, _latent_widths(kind, model), picked or None)


def _of_cache(
    cache: CacheSpec, rank: RankFormat, split: Split, heads: int, latent_widths: int, picked: int | None
) -> Iterator[CacheWork]:
    """Yield the work of one cache of one layer. Context parallelism divides the tokens, not the states."""
    share = 1 / split.context_parallel
    match cache:
        case AttentionCache():
            products = float(_FLOPS * heads * (cache.key_dim + cache.value_dim))
            most = cache.window_tokens or cache.chunk_tokens
            yield CacheWork(token_bytes(cache, rank) * share, products * share, products, most, 0)
        case LatentCache():
            decode = float(_FLOPS * heads * (2 * cache.latent + cache.rope))
            prompt = float(_FLOPS * heads * (latent_widths + cache.rope))
            most = picked if cache.sparse else None
            yield CacheWork(token_bytes(cache, rank) * share, decode * share, prompt, most, 0)
        case IndexerCache():
            yield CacheWork(token_bytes(cache, rank) * share, 0, 0, None, 0)
        case RowCache():
            products = float(_FLOPS * heads * cache.row_bytes) / cache.tokens_per_row
            size = cache.row_bytes / cache.tokens_per_row
            yield CacheWork(size * share, products * share, products, cache.window_tokens, 0)
        case CrossCache():
            yield CacheWork(0, 0, 0, None, float(cache.encoder_tokens * token_bytes(cache, rank)))
        case StateCache():
            yield CacheWork(0, 0, 0, None, float(_STATE_PASSES * state_bytes(cache, rank)))
        case _:
            return


def _latent_widths(kind: LayerKind, model: ModelFacts) -> int:
    """Return the key and value widths of one head that prefills expand from a latent."""
    found = (each for each in kind.weights if each.name == ABSORBED)
    return next((each.outputs // model.heads for each in found), _DEFAULT_HEAD_WIDTHS)


_ALL_REDUCES_PER_LAYER = 2
"""After attention and after the MLP, with tensor parallelism (vLLM, ``RowParallelLinear``)."""

_ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """All matrices of one number format on one rank, over all layers of all stages.

    ``bytes`` are read in a step that touches all of them, ``flops`` computed for one token.
    """

    precision: Precision
    bytes: int
    flops: float


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of a step on one rank of each pipeline stage, summed over the stages.

    Attributes:
        dense: matrices that every token passes.
        head: the output projection, which only sampled tokens pass.
        experts: routed experts; ``bytes`` are those of all experts on the rank, ``flops`` the part of one token that
            falls on the rank.
        expert_count: routed experts of a layer; 0 without any.
        experts_per_token: experts that one token visits.
        caches: reads of the KV cache and of recurrent states, and the attention of prefills.
        has_small_cache: whether the cache has fewer than 16 bits.
        layers: decoder layers of all stages.
        expert_layers: layers with routed experts.
        selecting_layers: layers that choose single tokens of a latent to attend to, or compress tokens to rows.
        all_reduces: all-reduces of a step among tensor-parallel ranks.
        exchanges: all-to-alls of a step among expert-parallel ranks.
        token_bytes: bytes of one token's hidden state in those messages.
        logits_bytes: bytes of one sampled token's logits of all ranks.
        kind: what most of the weights are.
    """

    dense: tuple[MatrixWork, ...]
    head: tuple[MatrixWork, ...]
    experts: tuple[MatrixWork, ...]
    expert_count: int
    experts_per_token: int
    caches: tuple[CacheWork, ...]
    has_small_cache: bool
    layers: int
    expert_layers: int
    selecting_layers: int
    all_reduces: int
    exchanges: int
    token_bytes: int
    logits_bytes: int
    kind: WeightKind


def step_work(model: ModelFacts, precision: Precision, kv_precision: KvPrecision, split: Split) -> StepWork:
    """Count the work of a step.

    Raises:
        ValueError: there are more stages than layers.
        UnsupportedModel: a cache has no layout in ``kv_precision``, or nothing is known of the speed of its kernels.
    """
    if kv_precision in TURBOQUANT:
        raise UnsupportedModel(model.name, f"the speed of the {kv_precision} KV cache's kernels")
    stages = split.pipeline_parallel
    sums: dict[str, dict[Precision, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0, 0.0]))
    for stage in range(stages):
        for part, each, size, flops in _matrices(model, precision, split, stage):
            total = sums[part][each]
            total[0] += size
            total[1] += flops
    routes = [any(weight.sharding in EXPERTS for weight in kind.weights) for kind in model.kinds]
    expert_layers = sum(routes[layer] for layer in model.order)
    selects = [any(_selects(cache) for cache in kind.caches) for kind in model.kinds]
    ranks = split.tensor_parallel
    spreads = split.expert_parallel and split.expert_ranks > 1
    experts = model.experts
    return StepWork(
        dense=_works(sums["dense"]),
        head=_works(sums["head"]),
        experts=_works(sums["experts"]),
        expert_count=0 if experts is None else experts.experts,
        experts_per_token=0 if experts is None else experts.experts_per_token,
        caches=cache_work(model, kv_precision, split),
        has_small_cache=kv_precision not in WIDE,
        layers=model.layers,
        expert_layers=expert_layers,
        selecting_layers=sum(selects[layer] for layer in model.order),
        all_reduces=_ALL_REDUCES_PER_LAYER * model.layers + 1 if ranks > 1 else 0,
        exchanges=2 * expert_layers if spreads and split.data_parallel > 1 else 0,
        token_bytes=model.hidden * _ACTIVATION_BYTES,
        logits_bytes=model.vocabulary * _ACTIVATION_BYTES if ranks > 1 else 0,
        kind=_kind(sums["dense"], sums["experts"]),
    )


_INTEGERS = (Precision.AWQ, Precision.GPTQ, Precision.BITSANDBYTES)
_FLOATS = (Precision.NVFP4, Precision.MXFP4)


def _kind(dense: dict[Precision, list[float]], experts: dict[Precision, list[float]]) -> WeightKind:
    part, sums = ("experts", experts) if experts else ("dense", dense)
    most = max(sums, key=lambda each: sums[each][0], default=Precision.BF16)
    if most in _INTEGERS:
        return WeightKind(f"{part} 4-bit integer")
    if most in _FLOATS:
        return WeightKind(f"{part} 4-bit float")
    return WeightKind(f"{part} 8-bit" if most in (Precision.FP8, Precision.INT8) else f"{part} 16-bit")


def _selects(cache: CacheSpec) -> bool:
    """Whether the layer of a cache chooses single tokens of a latent, or compresses tokens to rows."""
    return cache.tokens_per_row > 1 if isinstance(cache, RowCache) else isinstance(cache, LatentCache) and cache.sparse


def _works(sums: dict[Precision, list[float]]) -> tuple[MatrixWork, ...]:
    return tuple(MatrixWork(precision, int(size), flops) for precision, (size, flops) in sums.items())


def _matrices(
    model: ModelFacts, precision: Precision, split: Split, stage: int
) -> Iterator[tuple[str, Precision, int, float]]:
    """Yield the part, number format, bytes and flops per token of every weight that a step of text reads."""
    form = weight_format(model, precision)
    for count, weights in stage_tensors(model, precision, split, stage).layers:
        for each in weights:
            matrices, outputs, inputs = rank_shape(each.weight, split)
            routed = each.weight.sharding in EXPERTS
            used = _used_experts(model, each.weight, matrices, split) if routed else matrices
            flops = 0.0 if inputs == 1 else _FLOPS * used * outputs * inputs
            part = "experts" if routed else "dense"
            yield part, form.of(each.weight).precision, count * each.total, count * flops
    if stage == split.pipeline_parallel - 1:
        yield from _head(model, precision, split)


def _used_experts(model: ModelFacts, weight: Weight, on_rank: int, split: Split) -> float:
    """Return how many of a rank's expert matrices one token of the rank's own visits, on average.

    With data parallelism, the tokens of all engines meet at the experts, so that each rank computes as much as if it
    had served its own tokens alone.
    """
    if model.experts is None:
        return on_rank
    taken = model.experts.experts_per_token * weight.count / model.experts.experts
    return taken * split.data_parallel * on_rank / weight.count


def _head(model: ModelFacts, precision: Precision, split: Split) -> Iterator[tuple[str, Precision, int, float]]:
    form = weight_format(model, precision)
    for weight in projection(model):
        count, outputs, inputs = rank_shape(weight, split)
        storage = form.of(weight)
        flops = 0.0 if inputs == 1 else float(_FLOPS * count * outputs * inputs)
        yield "head", storage.precision, count * storage.bytes_of(outputs, inputs), flops
