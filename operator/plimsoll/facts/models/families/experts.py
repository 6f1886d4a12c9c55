"""Classes of mixture-of-experts decoders with attention; others are in :mod:`plimsoll.facts.models.architectures`.

Sources: the same as in :mod:`plimsoll.facts.models.architectures`.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.facts.models.extras.gemma import LAYER_INPUTS
from plimsoll.facts.models.layers.expert_layers import after_first, all_but_first, every_nth, interval, sparse_step
from plimsoll.facts.models.layers.mlps import double_if_shared
from plimsoll.facts.models.mixers.attention import factored_layers
from plimsoll.facts.models.mixers.heads import global_own, listed, other_setting, sliding_own
from plimsoll.facts.models.mixers.sparse import block_sparse_layers
from plimsoll.facts.models.traits import NO, YES, Architecture, Flag, Gate, Moe, WindowRule

_BAILING_MOE = Moe(
    holds=after_first,
    shared_width_key="moe_shared_expert_intermediate_size",
    shared_count_key="num_shared_experts",
    router_bias=Flag(default=False, key="moe_router_enable_expert_bias"),
)
_BAILING = Architecture(
    attention_bias=Flag(default=False, key="use_qkv_bias"),
    output_bias=False,
    mlp_bias=Flag(default=False, key="use_bias"),
    qk_norm=Flag(default=False, key="use_qk_norm"),
    moe=_BAILING_MOE,
)
_EXAONE_MOE = Architecture(
    qk_norm=YES,
    window_rule=WindowRule.PERIODIC,
    window_period=4,
    moe=Moe(holds=after_first, shared_count_key="num_shared_experts", router_bias=YES),
)
_PHI_MOE = Architecture(
    attention_bias=YES,
    norm_bias=True,
    lm_head_bias=True,
    window_rule=WindowRule.ALL,
    moe=Moe(width_keys=("intermediate_size",)),
)
_MIMO_V2 = Architecture(
    output_bias=False,
    heads=sliding_own,
    window_rule=WindowRule.HYBRID_PATTERN,
    sinks=Flag(default=False, key="add_swa_attention_sink_bias"),
    sinks_local_only=True,
    moe=Moe(holds=after_first, router_bias=YES, router_fp32=True),
    predictors=1,
    predicts_locally=True,
)
_STEP35 = Architecture(
    spellings=(
        ("num_key_value_heads", "num_attention_groups"),
        ("num_experts", "moe_num_experts"),
        ("num_experts_per_tok", "moe_top_k"),
    ),
    output_bias=False,
    qk_norm=YES,
    gate=Gate.BY_FIELD,
    heads=other_setting,
    window_rule=WindowRule.PERIODIC,
    window_period=2,
    moe=Moe(
        holds=all_but_first,
        shared_width_key="share_expert_dim",
        router_bias=Flag(default=False, key="use_moe_router_bias"),
        router_fp32=True,
    ),
)
_MINIMAX_M3 = Architecture(
    mixer=block_sparse_layers,
    qk_norm=Flag(default=True, key="use_qk_norm"),
    width_keys=("dense_intermediate_size", "intermediate_size"),
    moe=Moe(
        holds=after_first,
        width_keys=("intermediate_size",),
        shared_count_key="n_shared_experts",
        router_bias=Flag(default=False, key="use_routing_bias"),
        router_fp32=True,
    ),
)
_GROK = Architecture(norms=4, attention_bias=NO, moe=Moe(width_keys=("moe_intermediate_size", "intermediate_size")))

EXPERTS: dict[str, Architecture] = {
    "AfmoeForCausalLM": Architecture(
        qk_norm=YES,
        gate=Gate.ELEMENTS,
        norms=4,
        window_rule=WindowRule.PERIODIC,
        window_period=4,
        moe=Moe(holds=after_first, shared_count_key="num_shared_experts", router_bias=YES, router_fp32=True),
    ),
    "ArcticForCausalLM": Architecture(
        norms=3,
        width_keys=("hidden_size",),
        moe=Moe(width_keys=("intermediate_size",), beside_dense=True),
    ),
    "BailingMoeForCausalLM": _BAILING,
    "BailingMoeV2ForCausalLM": _BAILING,
    "SarvamMoEForCausalLM": _BAILING,
    "Param2MoEForCausalLM": replace(
        _BAILING,
        moe=replace(
            _BAILING_MOE,
            shared_count_default=1,
            router_bias=Flag(default=True, key="moe_router_enable_expert_bias"),
            router_fp32=True,
        ),
    ),
    "Cohere2MoeForCausalLM": Architecture(
        tied=True,
        parallel_residual=YES,
        norms_if_parallel=1,
        window_rule=WindowRule.PERIODIC,
        window_period=4,
        moe=Moe(
            holds=after_first,
            width_keys=("intermediate_size",),
            shared_count_key="num_shared_experts",
        ),
    ),
    "DbrxForCausalLM": Architecture(
        spellings=(
            ("hidden_size", "d_model"),
            ("num_attention_heads", "n_heads"),
            ("num_hidden_layers", "n_layers"),
            ("max_position_embeddings", "max_seq_len"),
            ("num_key_value_heads", "attn_config.kv_n_heads"),
            ("num_experts", "ffn_config.moe_num_experts"),
            ("num_experts_per_tok", "ffn_config.moe_top_k"),
            ("moe_intermediate_size", "ffn_config.ffn_hidden_size"),
        ),
        moe=Moe(),
    ),
    "DeepseekForCausalLM": Architecture(
        moe=Moe(holds=after_first, shared_count_key="n_shared_experts"),
    ),
    "Dots1ForCausalLM": Architecture(
        qk_norm=YES,
        window_rule=WindowRule.QWEN,
        moe=Moe(holds=after_first, shared_count_key="n_shared_experts", router_bias=YES),
    ),
    "Ernie4_5_MoeForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="use_bias"),
        mlp_bias=Flag(default=False, key="use_bias"),
        tied=True,
        moe=Moe(
            holds=interval,
            shared_count_key="moe_num_shared_experts",
            router_bias=YES,
            router_fp32=True,
        ),
    ),
    "ExaoneMoeForCausalLM": _EXAONE_MOE,
    "ExaoneMoEForCausalLM": _EXAONE_MOE,
    "FlexOlmoForCausalLM": Architecture(
        qk_norm=YES, qk_norm_spans_heads=True, moe=Moe(width_keys=("intermediate_size",))
    ),
    "Gemma4ForCausalLM": Architecture(
        tied=True,
        norms=4,
        qk_norm=YES,
        window_rule=WindowRule.PERIODIC,
        window_period=6,
        heads=global_own,
        widths=double_if_shared,
        shared_kv=True,
        extra=LAYER_INPUTS,
        moe=Moe(width_keys=("moe_intermediate_size", "expert_intermediate_size"), beside_dense=True, optional=True),
    ),
    "GraniteMoeSWAForCausalLM": Architecture(
        window_rule=WindowRule.ALL,
        sinks=YES,
        moe=Moe(width_keys=("intermediate_size",), shared_width_key="shared_intermediate_size"),
    ),
    "Grok1ForCausalLM": _GROK,
    "Grok1ModelForCausalLM": _GROK,
    "HunYuanMoEV1ForCausalLM": Architecture(
        qk_norm=YES,
        moe=Moe(
            width_keys=("moe_intermediate_size", "intermediate_size"),
            shared_count_key="num_shared_expert",
            shared_count_default=1,
        ),
    ),
    "HYV3ForCausalLM": Architecture(
        qk_norm=Flag(default=False, key="qk_norm"),
        moe=Moe(
            holds=after_first,
            width_keys=("expert_hidden_dim", "moe_intermediate_size"),
            shared_count_key="num_shared_experts",
            router_bias=YES,
            router_fp32=True,
        ),
    ),
    "K2HorizonForCausalLM": Architecture(
        qk_norm=Flag(default=False, key="query_key_norm"),
        moe=Moe(
            holds=sparse_step,
            shared_count_key="num_shared_experts",
            router_bias=Flag(default=False, key="moe_gate_bias"),
        ),
    ),
    "LagunaForCausalLM": Architecture(
        qk_norm=YES,
        gate=Gate.BY_FIELD,
        heads=listed,
        sinks=Flag(default=False, key="swa_attention_sink_enabled"),
        sinks_local_only=True,
        moe=Moe(shared_width_key="shared_expert_intermediate_size", router_bias=YES),
    ),
    "Llama4ForCausalLM": Architecture(
        attention_bias=NO,
        width_keys=("intermediate_size_mlp",),
        window_rule=WindowRule.CHUNKED,
        moe=Moe(holds=every_nth, width_keys=("intermediate_size",), shared_width_key="intermediate_size"),
    ),
    "MiMoV2FlashForCausalLM": _MIMO_V2,
    "MiMoV2ForCausalLM": _MIMO_V2,
    "MiniMaxM3ForCausalLM": _MINIMAX_M3,
    "MiniMaxM3SparseForCausalLM": _MINIMAX_M3,
    "PhiMoEForCausalLM": _PHI_MOE,
    "PhimoeForCausalLM": _PHI_MOE,
    "Step3TextForCausalLM": Architecture(
        spellings=(
            ("num_experts", "moe_num_experts"),
            ("num_experts_per_tok", "moe_top_k"),
            ("max_position_embeddings", "max_position_embedding"),
        ),
        mixer=factored_layers,
        moe=Moe(holds=all_but_first, shared_width_key="share_expert_dim"),
    ),
    "Step3p5ForCausalLM": _STEP35,
    "Step3p7FlashForCausalLM": _STEP35,
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
