"""Classes of dense decoders with attention; others are in :mod:`plimsoll.facts.models.architectures`.

Sources: the modelling files of these classes in vLLM's model executor and in Hugging Face Transformers; each row was
checked by building the class's modules in vLLM 0.32 and counting their parameters, or by published totals where the
engine has dropped the class.
"""

from __future__ import annotations

from plimsoll.facts.models.extras.gemma import ALTUP
from plimsoll.facts.models.layers.mlps import half
from plimsoll.facts.models.mixers.attention import looped_layers
from plimsoll.facts.models.mixers.kv_heads import all_heads
from plimsoll.facts.models.traits import (
    Architecture,
    Flag,
    Gate,
    WindowRule,
)

_YES = Flag(default=True)
_NO = Flag(default=False)

_LLAMA = Architecture()
_PLAIN_LLAMA = Architecture(attention_bias=_NO, mlp_bias=_NO)
_MPT = Architecture(
    spellings=(
        ("hidden_size", "d_model"),
        ("num_attention_heads", "n_heads"),
        ("num_hidden_layers", "n_layers"),
        ("num_key_value_heads", "attn_config.kv_n_heads"),
        ("max_position_embeddings", "max_seq_len"),
    ),
    gated_mlp=False,
    tied=True,
    intermediate_factor=4,
)
_GPTJ = Architecture(
    gated_mlp=False,
    attention_bias=_NO,
    mlp_bias=_YES,
    norms=1,
    norm_bias=True,
    lm_head_bias=True,
    intermediate_factor=4,
    kv_heads=all_heads,
)

DENSE: dict[str, Architecture] = {
    "LLaMAForCausalLM": _LLAMA,
    "IQuestCoderForCausalLM": _LLAMA,
    "IQuestLoopCoderForCausalLM": Architecture(mixer=looped_layers),
    "TeleChat3ForCausalLM": _LLAMA,
    "TeleFLMForCausalLM": _PLAIN_LLAMA,
    "SolarForCausalLM": _LLAMA,
    "AquilaForCausalLM": _PLAIN_LLAMA,
    "AquilaModel": _PLAIN_LLAMA,
    "CwmForCausalLM": _LLAMA,
    "HeliumForCausalLM": _LLAMA,
    "GraniteSWAForCausalLM": Architecture(window_rule=WindowRule.ALL, sinks=_YES),
    "InternLMForCausalLM": Architecture(attention_bias=Flag(default=False, key="bias"), mlp_bias=_NO),
    "MinistralForCausalLM": Architecture(window_rule=WindowRule.ALL),
    "Ernie4_5ForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="use_bias"), mlp_bias=Flag(default=False, key="use_bias"), tied=True
    ),
    "HunYuanDenseV1ForCausalLM": Architecture(qk_norm=_YES),
    "HyperCLOVAXForCausalLM": Architecture(norms=4),
    "PanguEmbeddedForCausalLM": Architecture(attention_bias=Flag(default=False, key="bias")),
    "Step1ForCausalLM": Architecture(spellings=(("num_key_value_heads", "num_attention_groups"),), tied=True),
    "TeleChat2ForCausalLM": _PLAIN_LLAMA,
    "TeleChatForCausalLM": _PLAIN_LLAMA,
    "ApertusForCausalLM": Architecture(gated_mlp=False, qk_norm=_YES),
    "ArceeForCausalLM": Architecture(gated_mlp=False),
    "NanoChatForCausalLM": Architecture(gated_mlp=False, norms=0),
    "BitNetForCausalLM": Architecture(norms=3),
    "MuseGlimmerForCausalLM": Architecture(norms=4, gate=Gate.ELEMENTS, window_rule=WindowRule.ROPE_LAYERS),
    "Plamo3ForCausalLM": Architecture(qk_norm=_YES, norms=4, window_rule=WindowRule.PERIODIC, window_period=8),
    "Rnj1ForCausalLM": Architecture(tied=True, norms=4, qk_norm=_YES, window_rule=WindowRule.PERIODIC, window_period=4),
    "VaultGemmaForCausalLM": Architecture(tied=True, window_rule=WindowRule.PERIODIC, window_period=2),
    "Gemma3nForCausalLM": Architecture(
        tied=True,
        norms=4,
        qk_norm=_YES,
        window_rule=WindowRule.PERIODIC,
        window_period=5,
        shared_kv=True,
        extra=ALTUP,
    ),
    "Phi3SmallForCausalLM": Architecture(
        attention_bias=_YES, mlp_bias=_YES, norm_bias=True, tied=True, width_keys=("ff_intermediate_size",)
    ),
    "PersimmonForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=_YES,
        mlp_bias=_YES,
        qk_norm=Flag(default=True, key="qk_layernorm"),
        qk_norm_bias=True,
        norm_bias=True,
        kv_heads=all_heads,
        undivided=("self_attn.", "mlp."),
    ),
    "BloomForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=_YES,
        mlp_bias=_YES,
        tied=True,
        norm_bias=True,
        embedding_norm=True,
        intermediate_factor=4,
        kv_heads=all_heads,
    ),
    "BioGptForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=_YES,
        mlp_bias=_YES,
        tied=True,
        norm_bias=True,
        learned_positions=True,
        extra_positions=2,
        kv_heads=all_heads,
        undivided=("self_attn.q_proj", "self_attn.o_proj", "mlp."),
    ),
    "GPTJForCausalLM": _GPTJ,
    "CodeGenForCausalLM": _GPTJ,
    "JAISLMHeadModel": Architecture(
        attention_bias=_YES,
        mlp_bias=_YES,
        tied=True,
        norm_bias=True,
        intermediate_factor=4,
        kv_heads=all_heads,
    ),
    "MptForCausalLM": _MPT,
    "MPTForCausalLM": _MPT,
    "DeciLMForCausalLM": Architecture(in_blocks=True),
    "QWenLMHeadModel": Architecture(
        attention_bias=_YES,
        output_bias=False,
        mlp_bias=_NO,
        kv_heads=all_heads,
        widths=half,
    ),
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
