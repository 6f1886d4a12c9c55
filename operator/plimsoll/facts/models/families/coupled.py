"""Language models that exist only together with a tower. Sources: vLLM's ``whisper.py`` and ``molmo.py``."""

from __future__ import annotations

from plimsoll.facts.models.layers.mlps import half
from plimsoll.facts.models.mixers.attention import cross_attention_layers
from plimsoll.facts.models.mixers.kv_heads import all_heads
from plimsoll.facts.models.traits import Architecture, Flag

_YES = Flag(default=True)

COUPLED: dict[str, Architecture] = {
    "WhisperForConditionalGeneration": Architecture(
        mixer=cross_attention_layers,
        spellings=(
            ("hidden_size", "d_model"),
            ("intermediate_size", "decoder_ffn_dim"),
            ("num_hidden_layers", "decoder_layers"),
            ("num_attention_heads", "decoder_attention_heads"),
            ("max_position_embeddings", "max_target_positions"),
        ),
        gated_mlp=False,
        attention_bias=_YES,
        mlp_bias=_YES,
        tied=True,
        norms=3,
        norm_bias=True,
        learned_positions=True,
        whole_vocabulary=True,
        kv_heads=all_heads,
    ),
    "MolmoForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="qkv_bias"),
        output_bias=False,
        qk_norm=Flag(default=False, key="attention_layer_norm"),
        qk_norm_spans_heads=True,
        widths=half,
    ),
}
