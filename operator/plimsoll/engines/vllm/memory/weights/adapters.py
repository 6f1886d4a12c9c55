"""LoRA slots: memory that the engine reserves for adapters before it loads any.

The model classes to which the engine gives LoRA slots, in their layers and outside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import ADAPTERS, Derivation, Term
from plimsoll.domain.engines.engine_choice import LoraSlots
from plimsoll.domain.models.model import ModelFacts, Sharding, Weight
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.memory.stages import stage_layers
from plimsoll.memory.weights import rank_shape

LARGEST_VOCABULARY = 258_048
"""Beyond it the engine refuses slots of the output projection (``lora/layers/logits_processor.py``)."""

EMBEDDING_AND_HEAD = frozenset(
    {
        "ApertusForCausalLM",
        "DeciLMForCausalLM",
        "Ernie4_5ForCausalLM",
        "Exaone4ForCausalLM",
        "ExaoneForCausalLM",
        "ExaoneMoEForCausalLM",
        "FalconH1ForCausalLM",
        "GraniteForCausalLM",
        "GraniteMoeForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeSharedForCausalLM",
        "HyperCLOVAXForCausalLM",
        "InternLM3ForCausalLM",
        "JambaForCausalLM",
        "LLaMAForCausalLM",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "Llama4ForCausalLM",
        "LlamaForCausalLM",
        "LlavaForConditionalGeneration",
        "MiniCPM3ForCausalLM",
        "MiniCPMForCausalLM",
        "MixtralForCausalLM",
        "NemotronForCausalLM",
        "NemotronHForCausalLM",
        "Phi3ForCausalLM",
        "PhiMoEForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "SolarForCausalLM",
        "TeleChat2ForCausalLM",
        "TeleFLMForCausalLM",
    }
)
"""Classes that give embeddings and output projection slots: their ``embedding_modules`` in vLLM 0.32's registry."""

EMBEDDING_ALONE = frozenset(
    {
        "ArceeForCausalLM",
        "Cohere2ForCausalLM",
        "CohereForCausalLM",
        "CwmForCausalLM",
        "FlexOlmoForCausalLM",
        "GPTBigCodeForCausalLM",
        "GPTNeoXForCausalLM",
        "GlmForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "Olmo2ForCausalLM",
        "Olmo3ForCausalLM",
        "OlmoForCausalLM",
        "PhiForCausalLM",
        "SeedOssForCausalLM",
        "SmolLM3ForCausalLM",
        "Starcoder2ForCausalLM",
        "TransformersForCausalLM",
        "TransformersMoEForCausalLM",
    }
)
"""Classes that give slots to the embeddings alone."""

WITHOUT_ADAPTERS = frozenset(
    {
        "AriaForConditionalGeneration",
        "BloomForCausalLM",
        "Cohere2MoeForCausalLM",
        "DbrxForCausalLM",
        "DeepseekV4ForCausalLM",
        "DeepseekVLV2ForCausalLM",
        "FalconForCausalLM",
        "FalconMambaForCausalLM",
        "GPT2LMHeadModel",
        "GPTJForCausalLM",
        "Gemma3nForCausalLM",
        "Gemma3nForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "KimiVLForConditionalGeneration",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "OrionForCausalLM",
        "Phi3VForCausalLM",
        "Qwen2AudioForConditionalGeneration",
        "StableLmForCausalLM",
        "Step3TextForCausalLM",
        "Step3p5ForCausalLM",
        "Zamba2ForCausalLM",
    }
)
"""Classes without ``supports_lora`` in that registry: the engine refuses ``--enable-lora`` for them."""

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that ``--max-lora-rank`` accepts (``config/lora.py``)."""


def adapters_refusal(model: ModelFacts) -> str | None:
    """Why the engine makes no slots for a model; None where it does."""
    if model.architecture in WITHOUT_ADAPTERS:
        return f"vLLM knows no LoRA for {model.architecture}; remove it."
    if model.architecture in EMBEDDING_AND_HEAD and model.vocabulary > LARGEST_VOCABULARY:
        return f"vLLM refuses LoRA for a vocabulary above {LARGEST_VOCABULARY}, this is {model.vocabulary}; remove it."
    return None


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
