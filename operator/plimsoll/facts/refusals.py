"""What a configuration asks for that the memory law does not know, said before anything is computed."""

from __future__ import annotations

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.architectures import ARCHITECTURES
from plimsoll.facts.fields import Fields, shown

_PARTS = {
    "kv_lora_rank": "multi-head latent attention (kv_lora_rank)",
    "vision_config": "a vision tower (vision_config)",
    "visual": "a vision tower (visual)",
    "mm_vision_tower": "a vision tower (mm_vision_tower)",
    "audio_config": "an audio encoder (audio_config)",
    "speech_config": "an audio encoder (speech_config)",
    "embd_layer": "an image embedding layer (embd_layer)",
    "text_config": "a composite model (text_config)",
    "encoder_layers": "an encoder-decoder model (encoder_layers)",
    "ssm_cfg": "state-space layers (ssm_cfg)",
    "mamba_d_state": "Mamba layers (mamba_d_state)",
    "mamba_num_heads": "Mamba layers (mamba_num_heads)",
    "hybrid_override_pattern": "Mamba layers (hybrid_override_pattern)",
    "linear_num_value_heads": "linear-attention layers (linear_num_value_heads)",
    "linear_attn_config": "linear-attention layers (linear_attn_config)",
    "attention_chunk_size": "chunked attention (attention_chunk_size)",
    "swa_num_key_value_heads": "sliding layers with heads of their own (swa_num_key_value_heads)",
    "v_head_dim": "value heads of another size than key heads (v_head_dim)",
}
"""Fields whose presence means memory that nothing here accounts for. Source: the configurations of these families."""


def refuse_unknown_parts(name: str, fields: Fields) -> None:
    """Say what the model has that has no memory law.

    Raises:
        UnsupportedModel: with the part and the field that shows it.
    """
    for key, missing in _PARTS.items():
        if fields.has(key):
            raise UnsupportedModel(name, missing)
    if fields.flag("is_encoder_decoder", default=False):
        raise UnsupportedModel(name, "an encoder-decoder model (is_encoder_decoder)")
    _refuse_variants(name, fields)


def supported_class(name: str, fields: Fields) -> str:
    """The model class to go by: the first one listed that is known.

    Raises:
        InvalidInput: no class is listed.
        UnsupportedModel: none of the listed is known.
    """
    classes = fields.texts("architectures")
    if not classes:
        raise fields.refuse("architectures", "List the model class, e.g. LlamaForCausalLM.")
    for listed in classes:
        if listed in ARCHITECTURES:
            return listed
    remote = ", code of its own (auto_map)" if fields.has("auto_map") else ""
    raise UnsupportedModel(name, f"the model class {shown(', '.join(classes))}{remote}")


def _refuse_variants(name: str, fields: Fields) -> None:
    """Known classes in shapes that are not covered."""
    classes = fields.texts("architectures")
    if "OPTForCausalLM" in classes and fields.values.get("word_embed_proj_dim") not in (
        None,
        fields.values.get("hidden_size"),
    ):
        raise UnsupportedModel(name, "an embedding of another width (word_embed_proj_dim)")
    if "MiniCPMForCausalLM" in classes and fields.values.get("num_experts") not in (None, 0):
        raise UnsupportedModel(name, "MiniCPM's mixture of experts (num_experts)")
    kinds = {shown(kind) for kind in fields.items("attn_type_list")}
    if kinds - {1}:
        raise UnsupportedModel(name, "lightning attention (attn_type_list)")
