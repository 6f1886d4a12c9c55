"""Refuse configurations with parts that the memory law does not know, and sizes that no model can have."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.fields import Fields, shown


def count_parameters(facts: ModelFacts) -> int:
    """All parameters of the model as the engine loads it: a tied output projection counts once."""
    by_kind = [_sum(kind.weights) for kind in facts.kinds]
    encoder = _sum(facts.encoder.weights) if facts.encoder is not None else 0
    return _sum(facts.embedding) + sum(by_kind[kind] for kind in facts.order) + _sum(facts.head) + encoder


def _sum(weights: Iterable[Weight]) -> int:
    return sum(weight.parameters for weight in weights)


_PARTS = {
    "vision_config": "a vision tower (vision_config)",
    "visual": "a vision tower (visual)",
    "mm_vision_tower": "a vision tower (mm_vision_tower)",
    "audio_config": "an audio encoder (audio_config)",
    "speech_config": "an audio encoder (speech_config)",
    "embd_layer": "an image embedding layer (embd_layer)",
    "encoder_layers": "an encoder-decoder model (encoder_layers)",
    "ssm_cfg": "state-space layers (ssm_cfg)",
    "mamba_d_state": "Mamba layers (mamba_d_state)",
    "mamba_num_heads": "Mamba layers (mamba_num_heads)",
    "hybrid_override_pattern": "Mamba layers (hybrid_override_pattern)",
    "linear_num_value_heads": "linear-attention layers (linear_num_value_heads)",
    "linear_attn_config": "linear-attention layers (linear_attn_config)",
    "mamba_expand": "Mamba layers (mamba_expand)",
    "ssm_state_size": "state-space layers (ssm_state_size)",
    "linear_key_head_dim": "linear-attention layers (linear_key_head_dim)",
    "conv_L_cache": "short-convolution layers (conv_L_cache)",
    "rwkv_hidden_size": "RWKV layers (rwkv_hidden_size)",
    "num_wkv_heads": "RWKV layers (num_wkv_heads)",
    "state_size": "state-space layers (state_size)",
    "layer_group_size": "linear-attention layers (layer_group_size)",
    "linear_conv_kernel_dim": "linear-attention layers (linear_conv_kernel_dim)",
    "compress_ratios": "a compressed KV cache (compress_ratios)",
    "loop_num": "layers that every token passes several times (loop_num)",
    "total_ut_steps": "layers that every token passes several times (total_ut_steps)",
    "ffn_config": "an MLP with a section of its own (ffn_config)",
}
"""Fields of parts that cannot be estimated for an unknown class. Source: the configurations of these families."""

_RECURRENT_TYPES = ("linear", "mamba", "conv", "recurrent", "rwkv")
"""Beginnings of the words in ``layer_types`` for layers that keep a state and no keys and values."""

_WITHOUT_CACHE = frozenset(
    {"vision_config", "visual", "mm_vision_tower", "audio_config", "speech_config", "embd_layer", "ffn_config"}
)
"""Parts without a cache: if the checkpoint's tensors are available, they contain everything about these parts."""


def refuse_unknown_parts(name: str, fields: Fields, *, towers_are_known: bool = False) -> None:
    """Refuse a model of an unknown class with a part that the generic reading does not cover.

    Args:
        name: the model, for the error.
        fields: its language model's configuration.
        towers_are_known: whether the weights of towers are read from the checkpoint's tensors.

    Raises:
        UnsupportedModel: with the part and the field that shows it.
    """
    for key, missing in _PARTS.items():
        if fields.has(key) and not (towers_are_known and key in _WITHOUT_CACHE):
            raise UnsupportedModel(name, missing)
    for kind in fields.items("layer_types"):
        if isinstance(kind, str) and kind.startswith(_RECURRENT_TYPES):
            raise UnsupportedModel(name, f"layers of the type {shown(kind)!r} (layer_types)")
    types = fields.items("attn_type_list")
    if any(kind != types[0] for kind in types[1:]):
        raise UnsupportedModel(name, "layers of several attention types (attn_type_list)")
    if fields.flag("is_encoder_decoder", default=False):
        raise UnsupportedModel(name, "an encoder-decoder model (is_encoder_decoder)")


_NO_LONGER_SERVED = {
    "MllamaForConditionalGeneration": (
        "Llama 3.2 Vision (MllamaForConditionalGeneration): the engine served it up to release 0.10.2, with its first "
        "core (V0) alone, whose memory has no law here, and no release since 0.11 serves it. Take a vision model that "
        "it serves, e.g. meta-llama/Llama-4-Scout-17B-16E-Instruct or Qwen/Qwen3-VL-8B-Instruct"
    ),
}
"""Classes that only old releases serve. Source: vLLM, ``SupportsV0Only`` in ``models/mllama.py`` of 0.8 to 0.10.2, and
``_PREVIOUSLY_SUPPORTED_MODELS`` in ``models/registry.py`` of 0.11 to 0.33."""


def refuse_no_longer_served(name: str, classes: Iterable[str]) -> None:
    """Refuse classes that no engine with a known memory law serves.

    Raises:
        UnsupportedModel: with the releases that served the class, and what to take in its place.
    """
    for listed in classes:
        if listed in _NO_LONGER_SERVED:
            raise UnsupportedModel(name, _NO_LONGER_SERVED[listed])


def refuse_variants(name: str, model_class: str, fields: Fields) -> None:
    """Refuse known classes in variants that are not covered.

    Raises:
        UnsupportedModel: with the part and the field that shows it.
    """
    width = fields.values.get("word_embed_proj_dim")
    if model_class == "OPTForCausalLM" and width not in (None, fields.values.get("hidden_size")):
        raise UnsupportedModel(name, "an embedding of another width (word_embed_proj_dim)")
    if model_class == "QWenLMHeadModel" and fields.has("visual"):
        raise UnsupportedModel(name, _PARTS["visual"])
    if model_class == "NomicBertModel" and fields.values.get("num_experts") not in (None, 0):
        raise UnsupportedModel(name, "experts in an encoder (num_experts)")
    if fields.values.get("mlp_type") not in (None, "default"):
        raise UnsupportedModel(name, f"the MLP type {shown(fields.values['mlp_type'])!r} (mlp_type)")


MOST_PARAMETERS = 10**14
"""Fifty times the largest published model. Each field alone may be possible while their product is a mistake."""


def check_size(facts: ModelFacts, fields: Fields) -> None:
    """Refuse sizes that no model has.

    Raises:
        InvalidInput: more parameters than any model; the error names the field that contributes most.
    """
    total = count_parameters(facts)
    if total > MOST_PARAMETERS:
        most = f"at most {MOST_PARAMETERS:.0e}"
        raise fields.refuse(_largest(facts, fields), f"The sizes make {total:.1e} parameters; give {most} in all.")


MOST_TOWER_PARAMETERS = 10**12
"""More than a hundred times the largest published vision or audio tower."""


def check_tower_size(tower: EncoderFacts, fields: Fields) -> None:
    """Refuse a vision or audio tower that no model has.

    Raises:
        InvalidInput: more parameters than any tower; the error names the tower's section.
    """
    total = sum(weight.parameters for weight in tower.weights)
    if total > MOST_TOWER_PARAMETERS:
        section = fields.first(("vision_config", "thinker_config", "audio_config", "encoder_config")) or "vision_config"
        most = f"at most {MOST_TOWER_PARAMETERS:.0e}"
        raise fields.refuse(section, f"The sizes of the tower make {total:.1e} parameters; give {most} in all.")


def _largest(facts: ModelFacts, fields: Fields) -> str:
    tables = sum(weight.parameters for weight in (*facts.embedding, *facts.head))
    if 2 * tables > count_parameters(facts):
        return fields.first(("vocab_size", "padded_vocab_size")) or "vocab_size"
    if facts.experts is not None:
        routed = fields.first(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"))
        return routed or "num_experts"
    return fields.first(("hidden_size", "n_embd")) or "hidden_size"
