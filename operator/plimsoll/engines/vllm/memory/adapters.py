"""LoRA slots: memory that the engine reserves for adapters before it loads any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from plimsoll.domain.engine_options import LoraSlots
from plimsoll.domain.model import ModelFacts, Sharding, Weight
from plimsoll.domain.outcomes import Split
from plimsoll.domain.terms import ADAPTERS, Derivation, Term
from plimsoll.engines.vllm.memory.adapter_classes import EMBEDDING_ALONE, EMBEDDING_AND_HEAD
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.memory.stages import stage_layers
from plimsoll.memory.weights import rank_shape

VALUE_BYTES = 2
"""Adapters have the type of the model (``--lora-dtype auto``): 16 bits, except for 32-bit models."""

_ROUTERS = ("mlp.gate", "mlp.shared_expert_gate")
"""Linear layers that stay in 16 bits. They have slots, too."""

_RECURRENT = ("in_proj", "x_proj", "dt_proj", "out_proj", "conv1d")
"""The linear layers of recurrent mixers. A convolution is a column-parallel layer, too."""

_UNWRAPPED = ("self_attn.indexer.wk", "self_attn.indexer.weights_proj")
"""Linear layers without a wrapper in the engine. The engine skips them with a warning."""

_IN_ONE = {"self_attn.k_proj": 0, "self_attn.v_proj": 0}
_ALL_IN_ONE = {**_IN_ONE, "mlp.up_proj": 0}
_EXPERTS_IN_ONE = {"mlp.experts.up_proj": 0}

_INPUT_MATRICES: Mapping[str, Mapping[str, int]] = {
    "ChatGLMForConditionalGeneration": _ALL_IN_ONE,
    "ChatGLMModel": _ALL_IN_ONE,
    "GptOssForCausalLM": _EXPERTS_IN_ONE,
    "GraniteMoeHybridForCausalLM": {"mlp.up_proj": 0, "mlp.shared_expert.up_proj": 0},
    "InternLM2ForCausalLM": _IN_ONE,
    "MolmoForCausalLM": _ALL_IN_ONE,
    "Phi3ForCausalLM": _ALL_IN_ONE,
    "Qwen3NextForCausalLM": {"linear_attn.in_proj_qkv": 1, "linear_attn.in_proj_z": 0, "linear_attn.in_proj_a": 0},
    "Qwen3VLMoeForConditionalGeneration": _EXPERTS_IN_ONE,
    "Qwen3_5MoeForConditionalGeneration": _EXPERTS_IN_ONE,
}
"""The number of matrices over the inputs, by class and weight, where it is not one for each weight.

Projections share a matrix if the class's checkpoints keep them in one matrix.
"""

_SLICES: Mapping[tuple[str, Sharding], int] = {
    ("linear_attn.in_proj_qkv", Sharding.OUTPUTS): 3,
    ("mixer.in_proj", Sharding.OUTPUTS): 3,
    ("mixer.in_proj", Sharding.HEADS): 2,
    ("mixer.conv1d", Sharding.HEADS): 2,
}
"""The same for recurrent mixers of any class: one matrix for each of several outputs."""


_NO_SLOTS = Term(ADAPTERS, 0)


def adapters_term(rank: Rank) -> Term:
    """Return the slots as a term; 0 bytes for an engine without adapters."""
    slots = rank.request.engine.lora
    if slots is None:
        return _NO_SLOTS
    size = adapters_bytes(rank.request.model, slots, rank.split, rank.stage, value_bytes=rank.value_bytes)
    return Term(ADAPTERS, size, _derivation)


def _derivation(_: object) -> Derivation:
    return Derivation("slots x rank x (inputs + outputs) of every linear layer")


def adapters_bytes(
    model: ModelFacts, slots: LoraSlots, split: Split, stage: int = 0, *, value_bytes: int = VALUE_BYTES
) -> int:
    """Return the bytes of all slots on one rank of one stage.

    Every linear layer of the decoder gets, for each slot, a matrix of ``max_rank`` rows over its inputs and one of
    ``max_rank`` columns over its outputs. Tensor parallelism divides the side that the layer itself divides. The other
    side is whole on every rank. A tower has no slots (``--enable-tower-connector-lora`` is off). Source: vLLM 0.32,
    ``lora/layers`` (``base_linear.py``, ``column_parallel_linear.py``, ``row_parallel_linear.py``, ``fused_moe.py``,
    ``vocab_parallel_embedding.py``, ``logits_processor.py``), without ``--fully-sharded-loras``.
    """
    counts = Counter(model.order[layer] for layer in stage_layers(model.layers, split.pipeline_parallel)[stage])
    values = sum(
        count * _values(weight, slots.max_rank, split, model.architecture)
        for kind, count in counts.items()
        for weight in kind_weights(model, kind)
    )
    values += _outside_values(model, slots.max_rank, split, stage)
    return values * slots.adapters * value_bytes


def kind_weights(model: ModelFacts, kind: int) -> tuple[Weight, ...]:
    """Return the weights of one kind of layer that have slots."""
    return tuple(weight for weight in model.kinds[kind].weights if weight.inputs > 1 and _has_slots(weight))


def _has_slots(weight: Weight) -> bool:
    linear = weight.linear or weight.name in _ROUTERS or weight.name.rpartition(".")[2] in _RECURRENT
    return linear and weight.name not in _UNWRAPPED


def _values(weight: Weight, rank: int, split: Split, architecture: str) -> int:
    """Return the elements of one slot's matrices."""
    count, outputs, inputs = rank_shape(weight, split)
    if weight.sharding in (Sharding.INPUTS, Sharding.EXPERT_INPUTS):
        return count * rank * (inputs + weight.outputs)
    usual = _SLICES.get((weight.name, weight.sharding), 1)
    matrices = _INPUT_MATRICES.get(architecture, {}).get(weight.name, usual)
    return count * rank * (matrices * weight.inputs + outputs)


def _outside_values(model: ModelFacts, rank: int, split: Split, stage: int) -> int:
    """Return the elements of one slot outside the layers: whole tables, and a projection before the first layer."""
    head = model.architecture in EMBEDDING_AND_HEAD
    embedding = head or model.architecture in EMBEDDING_ALONE
    first, last = stage == 0, stage == split.pipeline_parallel - 1
    tables = (embedding and first) + (head and last)
    projections = (weight for weight in model.embedding if weight.linear and first)
    projected = sum(_values(weight, rank, split, model.architecture) for weight in projections)
    return tables * rank * (model.hidden + model.vocabulary) + projected
