"""The model classes whose memory is known, one row each.

Sources: the configuration and modelling files of these classes in Hugging Face Transformers and in vLLM's model
executor; each row was checked by counting parameters against published totals where one is known.
"""

from __future__ import annotations

from plimsoll.facts.models.families.coupled import COUPLED
from plimsoll.facts.models.families.dense import DENSE
from plimsoll.facts.models.families.encoders import ENCODERS
from plimsoll.facts.models.families.experts import EXPERTS
from plimsoll.facts.models.families.heads import HEADS
from plimsoll.facts.models.families.hybrid import HYBRID
from plimsoll.facts.models.families.latent import LATENT
from plimsoll.facts.models.layers.expert_layers import after_first, sparse_step
from plimsoll.facts.models.mixers.kv_heads import all_heads, chatglm, falcon, multi_query
from plimsoll.facts.models.traits import Architecture, Flag, Moe, WindowRule

_YES = Flag(default=True)
_NO = Flag(default=False)

_LLAMA = Architecture()
_MISTRAL = Architecture(window_rule=WindowRule.ALL)
_GLM = Architecture(attention_bias=Flag(default=False, key="attention_bias"), output_bias=False)
_CHATGLM = Architecture(
    attention_bias=Flag(default=False, key="add_qkv_bias"),
    output_bias=False,
    mlp_bias=Flag(default=False, key="add_bias_linear"),
    kv_heads=chatglm,
)
_BAICHUAN = Architecture(attention_bias=_NO, mlp_bias=_NO, kv_heads=all_heads)
_GEMMA2 = Architecture(tied=True, norms=4, window_rule=WindowRule.PERIODIC, window_period=2)
_FALCON = Architecture(
    gated_mlp=False,
    attention_bias=Flag(default=False, key="bias"),
    mlp_bias=Flag(default=False, key="bias"),
    tied=True,
    parallel_residual=Flag(default=True, key="parallel_attn"),
    norm_bias=True,
    intermediate_factor=4,
    kv_heads=falcon,
    keeps_cache_type=True,
)
_STABLE_LM = Architecture(
    attention_bias=Flag(default=False, key="use_qkv_bias"),
    output_bias=False,
    qk_norm=Flag(default=False, key="qk_layernorm"),
    qk_norm_spans_heads=True,
    parallel_residual=Flag(default=False, key="use_parallel_residual"),
    norms_if_parallel=1,
    norm_bias=True,
)
_SHARED_GRANITE = Moe(width_keys=("intermediate_size",), shared_width_key="shared_intermediate_size")

ARCHITECTURES: dict[str, Architecture] = {
    **COUPLED,
    **DENSE,
    **ENCODERS,
    **EXPERTS,
    **HEADS,
    **LATENT,
    "LlamaForCausalLM": _LLAMA,
    "MistralForCausalLM": _MISTRAL,
    "Ministral3ForCausalLM": _MISTRAL,
    "MixtralForCausalLM": Architecture(window_rule=WindowRule.ALL, moe=Moe(width_keys=("intermediate_size",))),
    "Qwen2ForCausalLM": Architecture(attention_bias=_YES, output_bias=False, window_rule=WindowRule.QWEN),
    "Qwen3ForCausalLM": Architecture(qk_norm=_YES, window_rule=WindowRule.QWEN),
    "Qwen2MoeForCausalLM": Architecture(
        attention_bias=Flag(default=True, key="qkv_bias"),
        output_bias=False,
        window_rule=WindowRule.QWEN,
        moe=Moe(holds=sparse_step, shared_width_key="shared_expert_intermediate_size", shared_gate=True),
    ),
    "Qwen3MoeForCausalLM": Architecture(qk_norm=_YES, window_rule=WindowRule.QWEN, moe=Moe(holds=sparse_step)),
    "MiMoForCausalLM": Architecture(attention_bias=_YES, output_bias=False, window_rule=WindowRule.QWEN),
    "SeedOssForCausalLM": Architecture(attention_bias=Flag(default=True, key="attention_bias"), output_bias=False),
    "SmolLM3ForCausalLM": Architecture(tied=True),
    "PhiForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=_YES,
        mlp_bias=_YES,
        qk_norm=Flag(default=False, key="qk_layernorm"),
        parallel_residual=_YES,
        norms_if_parallel=1,
        norm_bias=True,
        lm_head_bias=True,
        intermediate_factor=4,
    ),
    "Phi3ForCausalLM": Architecture(window_rule=WindowRule.ALL),
    "GemmaForCausalLM": Architecture(tied=True),
    "Gemma2ForCausalLM": _GEMMA2,
    "Gemma3ForCausalLM": Architecture(
        tied=True, norms=4, qk_norm=_YES, window_rule=WindowRule.PERIODIC, window_period=6
    ),
    "GptOssForCausalLM": Architecture(
        attention_bias=Flag(default=True, key="attention_bias"),
        window_rule=WindowRule.PERIODIC,
        window_period=2,
        sinks=_YES,
        moe=Moe(
            width_keys=("intermediate_size",),
            router_bias=_YES,
            expert_bias=True,
        ),
    ),
    "GraniteForCausalLM": _LLAMA,
    "GraniteMoeForCausalLM": Architecture(moe=Moe(width_keys=("intermediate_size",))),
    "GraniteMoeSharedForCausalLM": Architecture(moe=_SHARED_GRANITE),
    "OlmoForCausalLM": Architecture(norms=0),
    "Olmo2ForCausalLM": Architecture(qk_norm=_YES, qk_norm_spans_heads=True),
    "Olmo3ForCausalLM": Architecture(
        qk_norm=_YES, qk_norm_spans_heads=True, window_rule=WindowRule.PERIODIC, window_period=4
    ),
    "OlmoeForCausalLM": Architecture(
        qk_norm=_YES, qk_norm_spans_heads=True, moe=Moe(width_keys=("intermediate_size",))
    ),
    "Starcoder2ForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=Flag(default=True, key="use_bias"),
        mlp_bias=Flag(default=True, key="use_bias"),
        tied=True,
        norm_bias=True,
        window_rule=WindowRule.ALL,
    ),
    "InternLM2ForCausalLM": Architecture(attention_bias=Flag(default=False, key="bias"), mlp_bias=_NO),
    "InternLM3ForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="qkv_bias"),
        output_bias=False,
        mlp_bias=Flag(default=False, key="bias"),
    ),
    "CohereForCausalLM": Architecture(
        qk_norm=Flag(default=False, key="use_qk_norm"),
        qk_norm_spans_heads=True,
        tied=True,
        parallel_residual=_YES,
        norms_if_parallel=1,
    ),
    "Cohere2ForCausalLM": Architecture(
        tied=True,
        parallel_residual=_YES,
        norms_if_parallel=1,
        window_rule=WindowRule.PERIODIC,
        window_period=4,
    ),
    "StableLmForCausalLM": _STABLE_LM,
    "StableLMEpochForCausalLM": _STABLE_LM,
    "MiniCPMForCausalLM": Architecture(tied=True, moe=Moe(width_keys=("intermediate_size",), optional=True)),
    "MiniMaxM2ForCausalLM": Architecture(
        qk_norm=Flag(default=True, key="use_qk_norm"),
        qk_norm_spans_heads=True,
        moe=Moe(
            width_keys=("intermediate_size",),
            shared_width_key="shared_intermediate_size",
            router_bias=_YES,
            router_fp32=True,
        ),
    ),
    "GlmForCausalLM": _GLM,
    "Glm4ForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="attention_bias"), output_bias=False, norms=4
    ),
    "Glm4MoeForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="attention_bias"),
        output_bias=False,
        qk_norm=Flag(default=False, key="use_qk_norm"),
        moe=Moe(
            holds=after_first,
            shared_count_key="n_shared_experts",
            router_bias=_YES,
            router_fp32=True,
        ),
    ),
    "ChatGLMModel": _CHATGLM,
    "ChatGLMForConditionalGeneration": _CHATGLM,
    "FalconForCausalLM": _FALCON,
    "RWForCausalLM": _FALCON,
    "GPTBigCodeForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=_YES,
        mlp_bias=_YES,
        tied=True,
        norm_bias=True,
        learned_positions=True,
        intermediate_factor=4,
        kv_heads=multi_query,
        undivided=("mlp.",),
    ),
    "GPT2LMHeadModel": Architecture(
        gated_mlp=False,
        attention_bias=_YES,
        mlp_bias=_YES,
        tied=True,
        norm_bias=True,
        learned_positions=True,
        intermediate_factor=4,
        kv_heads=all_heads,
    ),
    "GPTNeoXForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=Flag(default=True, key="attention_bias"),
        mlp_bias=_YES,
        parallel_residual=Flag(default=True, key="use_parallel_residual"),
        norm_bias=True,
        kv_heads=all_heads,
    ),
    "OPTForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=Flag(default=True, key="enable_bias"),
        mlp_bias=Flag(default=True, key="enable_bias"),
        tied=True,
        norm_bias=True,
        learned_positions=True,
        extra_positions=2,
        kv_heads=all_heads,
    ),
    "NemotronForCausalLM": Architecture(gated_mlp=False, norm_bias=True),
    "OrionForCausalLM": Architecture(norm_bias=True),
    "XverseForCausalLM": Architecture(attention_bias=_NO, mlp_bias=_NO),
    "ExaoneForCausalLM": _LLAMA,
    "Exaone4ForCausalLM": Architecture(qk_norm=_YES, window_rule=WindowRule.PERIODIC, window_period=4),
    "BaichuanForCausalLM": _BAICHUAN,
    "BaiChuanForCausalLM": _BAICHUAN,
    **HYBRID,
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
