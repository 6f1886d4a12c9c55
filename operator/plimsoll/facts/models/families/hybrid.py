"""The classes with recurrent layers whose memory is known, one row each.

Sources: the configuration and modelling files of these classes in Hugging Face Transformers and in vLLM 0.32's model
executor; each row was checked by counting the parameters and state bytes of a rank against vLLM's own modules, except
for Bamba and MiniMax, which that version no longer has.
"""

from __future__ import annotations

from plimsoll.facts.models.extras.gated_streams import GATED_STREAMS
from plimsoll.facts.models.layers.expert_layers import after_first, period_offset, sparse_step
from plimsoll.facts.models.layers.layer_patterns import (
    by_characters,
    by_codes,
    by_numbers,
    by_period,
    every_nth,
    expert_characters,
    outside_kda_layers,
    parallel,
    recurrent_only,
    shared_block,
)
from plimsoll.facts.models.layers.mlps import two_thirds
from plimsoll.facts.models.mixers.latent import latent_layers
from plimsoll.facts.models.mixers.linear_attention import gated_delta_part, kimi_delta_part, lightning_part
from plimsoll.facts.models.mixers.mamba import mamba1_part, mamba2_part
from plimsoll.facts.models.mixers.sparse import group_sparse_layers
from plimsoll.facts.models.mixers.states import short_conv_part
from plimsoll.facts.models.traits import NO, YES, Architecture, Flag, Moe, Recurrent

_QWEN_GATE = Flag(default=True, key="attn_output_gate")
_QWEN_EXPERTS = Moe(
    holds=sparse_step, shared_width_key="shared_expert_intermediate_size", shared_gate=True, optional=True
)
_QWEN_NEXT = Architecture(
    ties=False,
    qk_norm=YES,
    output_gate=_QWEN_GATE,
    predictors=1,
    recurrent=Recurrent(gated_delta_part, every_nth, "linear_attn"),
    moe=_QWEN_EXPERTS,
)
_QWEN3_5 = Architecture(
    qk_norm=YES,
    output_gate=_QWEN_GATE,
    predictors=1,
    recurrent=Recurrent(gated_delta_part, every_nth, "linear_attn", state_dtype_key="mamba_ssm_dtype"),
    moe=_QWEN_EXPERTS,
)
_NEMOTRON_H = Architecture(
    ties=False,
    gated_mlp=False,
    attention_bias=NO,
    norms=1,
    recurrent=Recurrent(
        mamba2_part,
        by_characters,
        "mixer",
        state_dtype_key="mamba_ssm_cache_dtype",
        state_dtype="float32",
    ),
    moe=Moe(
        holds=expert_characters,
        shared_count_key="n_shared_experts",
        shared_width_key="moe_shared_expert_intermediate_size",
        router_bias=YES,
        latent_keys=("moe_latent_size",),
        optional=True,
    ),
)
_KIMI_SHARE = 256
"""vLLM, ``models/kimi_k3/nvidia/model.py`` (``min_moe_intermediate_per_partition``)."""
_MAMBA = Architecture(norms=1, tied=True, recurrent=Recurrent(mamba1_part, recurrent_only, "mixer"))
_MINIMAX = Architecture(
    attention_bias=NO,
    recurrent=Recurrent(lightning_part, by_codes, "self_attn"),
    moe=Moe(
        width_keys=("intermediate_size",), shared_width_key="shared_intermediate_size", router_fp32=True, optional=True
    ),
)

HYBRID: dict[str, Architecture] = {
    "Qwen3NextForCausalLM": _QWEN_NEXT,
    "Qwen3_5ForCausalLM": _QWEN3_5,
    "Qwen3_5MoeForCausalLM": _QWEN3_5,
    "Qwen4ExpForCausalLM": Architecture(
        ties=False,
        mixer=group_sparse_layers,
        attention_bias=NO,
        qk_norm=YES,
        output_gate=YES,
        norms=0,
        extra=GATED_STREAMS,
        recurrent=Recurrent(gated_delta_part, every_nth, "linear_attn", state_dtype_key="mamba_ssm_dtype"),
        moe=_QWEN_EXPERTS,
    ),
    "OlmoHybridForCausalLM": Architecture(
        qk_norm=YES,
        qk_norm_spans_heads=True,
        recurrent=Recurrent(gated_delta_part, every_nth, "linear_attn"),
    ),
    "NemotronHForCausalLM": _NEMOTRON_H,
    "MambaForCausalLM": _MAMBA,
    "FalconMambaForCausalLM": _MAMBA,
    "Mamba2ForCausalLM": Architecture(norms=1, recurrent=Recurrent(mamba2_part, recurrent_only, "mixer")),
    "JambaForCausalLM": Architecture(
        ties=False,
        attention_bias=NO,
        recurrent=Recurrent(mamba1_part, by_period, "mamba", step_norms=True),
        moe=Moe(holds=period_offset, width_keys=("intermediate_size",), optional=True),
    ),
    "BambaForCausalLM": Architecture(recurrent=Recurrent(mamba2_part, by_numbers, "mamba")),
    "GraniteMoeHybridForCausalLM": Architecture(
        width_keys=("shared_intermediate_size", "intermediate_size"),
        recurrent=Recurrent(mamba2_part, by_numbers, "mamba"),
        moe=Moe(width_keys=("intermediate_size",), shared_width_key="shared_intermediate_size", optional=True),
    ),
    "FalconH1ForCausalLM": Architecture(
        recurrent=Recurrent(
            mamba2_part,
            parallel,
            "mamba",
            group_norm=Flag(default=False, key="mamba_rms_norm"),
        ),
    ),
    "Zamba2ForCausalLM": Architecture(
        ties=False, norms=1, tied=True, recurrent=Recurrent(mamba2_part, shared_block, "mamba")
    ),
    "Lfm2ForCausalLM": Architecture(
        ties=False,
        qk_norm=YES,
        tied=True,
        width_keys=("block_ff_dim", "intermediate_size"),
        widths=two_thirds,
        recurrent=Recurrent(short_conv_part, by_numbers, "conv"),
    ),
    "Lfm2MoeForCausalLM": Architecture(
        qk_norm=YES,
        tied=True,
        recurrent=Recurrent(short_conv_part, by_numbers, "conv"),
        moe=Moe(holds=after_first, router_bias=Flag(default=True, key="use_expert_bias")),
    ),
    "KimiLinearForCausalLM": Architecture(
        ties=False,
        mixer=latent_layers,
        attention_bias=NO,
        recurrent=Recurrent(kimi_delta_part, outside_kda_layers, "self_attn", state_dtype="float32"),
        moe=Moe(
            holds=after_first,
            per_token_keys=("num_experts_per_token", "num_experts_per_tok"),
            shared_count_key="num_shared_experts",
            router_bias=YES,
            latent_keys=("routed_expert_hidden_size",),
            latent_norm=Flag(default=False, key="latent_moe_use_norm"),
            smallest_share=_KIMI_SHARE,
            optional=True,
        ),
    ),
    "BailingMoeV2_5ForCausalLM": Architecture(
        ties=False,
        mixer=latent_layers,
        attention_bias=NO,
        recurrent=Recurrent(lightning_part, every_nth, "self_attn", every=1),
        moe=Moe(
            holds=after_first,
            shared_count_key="num_shared_experts",
            shared_width_key="moe_shared_expert_intermediate_size",
            router_bias=Flag(default=False, key="moe_router_enable_expert_bias"),
            router_fp32=True,
        ),
    ),
    "BailingMoeV3ForCausalLM": Architecture(
        ties=False,
        mixer=latent_layers,
        attention_bias=NO,
        recurrent=Recurrent(kimi_delta_part, every_nth, "self_attn", state_dtype="float32", rest_attends=True),
        moe=Moe(
            holds=after_first,
            shared_count_key="num_shared_experts",
            shared_width_key="moe_shared_expert_intermediate_size",
            router_bias=YES,
            router_fp32=True,
        ),
    ),
    "Glm5NextForCausalLM": Architecture(
        mixer=latent_layers,
        attention_bias=NO,
        recurrent=Recurrent(kimi_delta_part, every_nth, "self_attn", state_dtype="float32"),
        moe=Moe(holds=after_first, shared_count_key="n_shared_experts", router_bias=YES),
    ),
    "MiniMaxForCausalLM": _MINIMAX,
    "MiniMaxText01ForCausalLM": _MINIMAX,
    "MiniMaxM1ForCausalLM": _MINIMAX,
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
