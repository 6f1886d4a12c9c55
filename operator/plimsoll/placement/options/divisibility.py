"""The splits that a model's shape allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.engines.engine_choice import EngineChoice
from plimsoll.domain.models.caches import AttentionCache
from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import ceil_div
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of
from plimsoll.memory.stages import stage_layers
from plimsoll.memory.weights import VOCABULARY_STEP

Refusal = tuple[Reason, Numbers]

_CONFIG_NAMES = {
    "mlp.gate_proj": "intermediate_size",
    "mlp.up_proj": "intermediate_size",
    "mlp.down_proj": "intermediate_size",
    "mlp.experts.gate_proj": "moe_intermediate_size",
    "mlp.experts.up_proj": "moe_intermediate_size",
    "mlp.experts.down_proj": "moe_intermediate_size",
}
"""The names of widths in messages: readers know the field of config.json rather than the module."""


def split_refusal(model: ModelFacts, precision: Precision, gpu_type: str, split: Split) -> Rejection | None:
    """Return why this model cannot use this split, with the next degree that works; None if it can.

    Rules: the degree divides the attention heads (``config/model.py``). The degree divides the KV heads, or they divide
    the degree (``layers/linear.py``). The degree divides the MLP widths, and the vocabulary with its padding. Blocks
    and groups of quantized weights stay whole. A stage holds at least one layer. Layers that share a cache are in one
    stage. Expert parallelism needs an expert for each rank, and divides no expert's width. Data parallelism needs
    experts that its engines share. The degree divides the heads and widths of a tower that the ranks share; a copied
    tower allows every degree.
    """
    refusal = _refusal(model, precision, split)
    if refusal is None:
        return None
    reason, numbers = refusal
    next_degree = _next_degree(model, precision, split)
    return Rejection(
        gpu_type, split, reason, (*numbers, *((("next_degree", next_degree),) if next_degree is not None else ()))
    )


def replica_refusal(request: Request, gpu_type: str, split: Split) -> Rejection | None:
    """Return the same for everything that one replica runs: its engines, its model, and the draft with its degree.

    Source: vLLM, ``config/speculative.py``: the draft's heads must divide by the target's degree.
    """
    own = (
        _engines_refusal(request, gpu_type, split)
        or _stages_refusal(request, gpu_type, split)
        or _own_refusal(request, gpu_type, split)
    )
    draft = request.engine.speculation.draft if request.engine.speculation else None
    if own is not None or draft is None:
        return own
    refused = split_refusal(draft, draft.checkpoint.precision, gpu_type, Split(split.tensor_parallel))
    return refused and replace(refused, split=split, numbers=(*refused.numbers, ("draft", draft.name)))


def _own_refusal(request: Request, gpu_type: str, split: Split) -> Rejection | None:
    """Return :func:`split_refusal` of the request's model; against its tower, with the options that avoid it."""
    refused = split_refusal(request.model, request.precision, gpu_type, split)
    if refused is None or refused.reason is not Reason.TOWER_NOT_DIVISIBLE:
        return refused
    return replace(refused, numbers=(*refused.numbers, *_ways_without_a_shared_tower(request)))


def _ways_without_a_shared_tower(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the options with which the engine's release does not divide the tower of this model class."""
    version, engine = request.engine.version, engine_of(request.engine.name)
    copied, left_out = engine.copies_encoder_since.get(request.model.architecture), engine.since.get(Feature.TEXT_ONLY)
    if copied is not None and version >= copied:
        yield "copied", "spec.engine.multimodal.encoderParallelism: Data"
    if left_out is not None and version >= left_out:
        yield "left_out", "spec.engine.textOnly"


def divides(model: ModelFacts, precision: Precision, draft: ModelFacts | None, split: Split) -> bool:
    """Whether :func:`replica_refusal` has nothing against a split, for a model and its draft."""
    if _refusal(model, precision, split) is not None:
        return False
    return draft is None or _refusal(draft, draft.checkpoint.precision, Split(split.tensor_parallel)) is None


def unknown_on_several_engines(choice: EngineChoice) -> str | None:
    """Return an option whose memory no law covers if several engines serve as one; None if there is none."""
    if choice.lora is not None:
        return "LoRA adapters"
    if choice.speculation is not None:
        return "speculative decoding"
    return "weights, KV cache or media in host memory" if choice.fills_host_memory else None


def _engines_refusal(request: Request, gpu_type: str, split: Split) -> Rejection | None:
    """Return that the engine's release or its options allow no more than one engine in a replica."""
    numbers = () if split.data_parallel == 1 else _against_engines(request.engine)
    if not numbers:
        return None
    about = ("engines", split.data_parallel)
    return Rejection(gpu_type, split, Reason.DATA_PARALLEL_NOT_SUPPORTED, (about, *numbers))


def _stages_refusal(request: Request, gpu_type: str, split: Split) -> Rejection | None:
    engine = engine_of(request.engine.name)
    if split.pipeline_parallel == 1 or engine.serves_in_stages(request.model):
        return None
    numbers = (("title", engine.title), ("architecture", request.model.architecture))
    return Rejection(gpu_type, split, Reason.STAGES_NOT_SUPPORTED, numbers)


def _against_engines(choice: EngineChoice) -> Numbers:
    engine, option = engine_of(choice.name), unknown_on_several_engines(choice)
    since = engine.since.get(Feature.DATA_PARALLEL)
    if since is None or choice.version < since:
        need = "a later release" if since is None else str(since)
        return ("title", engine.title), ("need", need), ("have", str(choice.version))
    return () if option is None else (("option", option),)


@lru_cache(maxsize=4096)
def _refusal(model: ModelFacts, precision: Precision, split: Split) -> Refusal | None:
    """Return the first reason against the split. Cached, because the answer is the same for every GPU type."""
    return (
        _against_stages(model, split)
        or _against_experts(model, split)
        or _against_heads(model, split)
        or next(_against_weights(model, precision, split), None)
        or _against_tower(model.encoder, split)
    )


def _against_stages(model: ModelFacts, split: Split) -> Refusal | None:
    if split.pipeline_parallel > model.layers:
        return Reason.STAGES_EXCEED_LAYERS, (("stages", split.pipeline_parallel), ("layers", model.layers))
    starts = [stage.start for stage in stage_layers(model.layers, split.pipeline_parallel)]
    for first, end in model.inseparable:
        if any(first < start < end for start in starts):
            shared = (("stages", split.pipeline_parallel), ("first", first), ("last", end - 1))
            return Reason.STAGES_CUT_SHARED_LAYERS, shared
    return None


def _against_experts(model: ModelFacts, split: Split) -> Refusal | None:
    if split.data_parallel > 1 and model.experts is None:
        return Reason.DATA_PARALLEL_NEEDS_EXPERTS, (("engines", split.data_parallel),)
    if split.expert_parallel and (model.experts is None or model.experts.experts < split.expert_ranks):
        count = 0 if model.experts is None else model.experts.experts
        return Reason.EXPERTS_NOT_DIVISIBLE, (("experts", count), ("ranks", split.expert_ranks))
    return None


def _against_heads(model: ModelFacts, split: Split) -> Refusal | None:
    degree = split.tensor_parallel
    if model.heads % degree:
        return Reason.HEADS_NOT_DIVISIBLE, (("heads", model.heads),)
    for cache in model.caches():
        if isinstance(cache, AttentionCache) and cache.kv_heads % degree and degree % cache.kv_heads:
            return Reason.KV_HEADS_NOT_DIVISIBLE, (("kv_heads", cache.kv_heads),)
    shared = split.context_parallel
    if degree % shared or _copies(model, degree) % shared:
        return Reason.CONTEXT_RANKS_NOT_DIVISIBLE, (("ranks", shared), ("copies", _copies(model, degree)))
    return None


def _against_tower(tower: EncoderFacts | None, split: Split) -> Refusal | None:
    """Source: ``divide`` in vLLM's ``distributed/utils.py``, which towers and their parallel layers call."""
    degree = split.tensor_parallel
    if tower is None or tower.is_copied:
        return None
    if tower.divided_heads % degree:
        return Reason.TOWER_NOT_DIVISIBLE, (("what", "attention heads"), ("size", tower.divided_heads))
    uneven = next((weight for weight in tower.weights if _width(weight, degree) % degree), None)
    if uneven is None:
        return None
    return Reason.TOWER_NOT_DIVISIBLE, (("what", uneven.name), ("size", _width(uneven, degree)))


def _width(weight: Weight, degree: int) -> int:
    """Return the outputs or inputs that ``degree`` ranks share; 0 if each has all of them."""
    if weight.units > 1 and weight.units % degree:
        return 0
    return {Sharding.OUTPUTS: weight.outputs, Sharding.INPUTS: weight.inputs}.get(weight.sharding, 0)


def _copies(model: ModelFacts, degree: int) -> int:
    """Return how many ranks hold the same KV heads. Decode context parallelism can spread tokens over them."""
    return max(1, degree // model.kv_heads)


def _against_weights(model: ModelFacts, precision: Precision, split: Split) -> Iterator[Refusal]:
    for weight in _weights(model):
        refusal = _against_weight(weight, split, quantized=precision is model.checkpoint.precision)
        if refusal is not None:
            yield refusal


def _weights(model: ModelFacts) -> Iterator[Weight]:
    yield from (weight for kind in model.kinds for weight in kind.weights)
    yield from (weight for weight in (*model.embedding, *model.head) if weight.sharding is Sharding.VOCABULARY)


def _against_weight(weight: Weight, split: Split, *, quantized: bool) -> Refusal | None:
    size, ranks, step = _cut(weight, split, quantized=quantized)
    is_table = weight.sharding is Sharding.VOCABULARY
    name = "vocab_size, padded to" if is_table else _CONFIG_NAMES.get(weight.name, weight.name)
    if size % ranks:
        return Reason.WIDTH_NOT_DIVISIBLE, (("what", name), ("width", size))
    if step and size % step == 0 and (size // ranks) % step:
        return Reason.QUANT_BLOCK_NOT_DIVISIBLE, (("what", name), ("width", size // ranks), ("block", step))
    return None


def _cut(weight: Weight, split: Split, *, quantized: bool) -> tuple[int, int, int]:
    """Return the size to divide, the number of ranks, and the columns or rows that must stay together (0: none)."""
    storage = weight.storage
    grouped = quantized and storage.is_quantized
    rows = (storage.group_outputs or 0) if grouped else 0
    # MXFP4 kernels round the share of a rank up instead (memory/kernels.py).
    columns = (storage.group_inputs or 0) if grouped and storage.precision is not Precision.MXFP4 else 0
    match weight.sharding:
        case Sharding.OUTPUTS:
            return weight.outputs, split.tensor_parallel, rows
        case Sharding.INPUTS:
            return weight.inputs, split.tensor_parallel, columns
        case Sharding.VOCABULARY:
            return ceil_div(weight.outputs, VOCABULARY_STEP) * VOCABULARY_STEP, split.tensor_parallel, 0
        case Sharding.EXPERT_OUTPUTS if not split.expert_parallel:
            return weight.outputs, split.expert_ranks, rows
        case Sharding.EXPERT_INPUTS if not split.expert_parallel and weight.inputs > 1:
            return weight.inputs, split.expert_ranks, columns
        case _:
            return 0, 1, 0


def _next_degree(model: ModelFacts, precision: Precision, split: Split) -> int | None:
    """Return the largest smaller degree that works; None if there is none. A smaller degree needs fewer GPUs."""
    smaller = (split._replace(tensor_parallel=degree) for degree in range(split.tensor_parallel - 1, 0, -1))
    return next((each.tensor_parallel for each in smaller if _refusal(model, precision, each) is None), None)
