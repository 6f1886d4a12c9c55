"""The model classes whose memory is known, one row each.

Sources: the configuration and modelling files of these classes in Hugging Face Transformers and in vLLM's model
executor; each row was checked by counting parameters against published totals if one is known, or by building the
class's modules in vLLM 0.32 and counting theirs. Of the drafts that read hidden states of their model (EAGLE):
``models/registry.py``, ``models/llama_eagle.py``, ``models/llama_eagle3.py`` and ``models/qwen3_eagle3.py``.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.engines.engine_choice import DraftMethod
from plimsoll.facts.models.extras.gemma import ALTUP
from plimsoll.facts.models.families.encoders import ENCODERS
from plimsoll.facts.models.families.experts import EXPERTS
from plimsoll.facts.models.families.hybrid import HYBRID
from plimsoll.facts.models.families.latent import LATENT
from plimsoll.facts.models.layers.expert_layers import after_first, sparse_step
from plimsoll.facts.models.layers.mlps import half
from plimsoll.facts.models.mixers.attention import cross_attention_layers, looped_layers
from plimsoll.facts.models.mixers.kv_heads import all_heads, chatglm, falcon, multi_query
from plimsoll.facts.models.traits import NO, YES, Architecture, Flag, Gate, Moe, WindowRule

_LLAMA = Architecture()
_MISTRAL = Architecture(window_rule=WindowRule.ALL)
_GLM = Architecture(attention_bias=Flag(default=False, key="attention_bias"), output_bias=False)
_CHATGLM = Architecture(
    attention_bias=Flag(default=False, key="add_qkv_bias"),
    output_bias=False,
    mlp_bias=Flag(default=False, key="add_bias_linear"),
    kv_heads=chatglm,
)
_BAICHUAN = Architecture(attention_bias=NO, mlp_bias=NO, kv_heads=all_heads)
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
_GPT = Architecture(
    gated_mlp=False,
    attention_bias=YES,
    mlp_bias=YES,
    tied=True,
    norm_bias=True,
    intermediate_factor=4,
    kv_heads=all_heads,
)
_PLAIN_LLAMA = Architecture(attention_bias=NO, mlp_bias=NO)
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
    attention_bias=NO,
    mlp_bias=YES,
    norms=1,
    norm_bias=True,
    lm_head_bias=True,
    intermediate_factor=4,
    kv_heads=all_heads,
)
_LLAMA_EAGLE3 = Architecture(eagle=DraftMethod.EAGLE3)
_QWEN_EAGLE3 = Architecture(eagle=DraftMethod.EAGLE3, qk_norm=YES)
_SHARED_GRANITE = Moe(width_keys=("intermediate_size",), shared_width_key="shared_intermediate_size")

ARCHITECTURES: dict[str, Architecture] = {
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
        attention_bias=YES,
        mlp_bias=YES,
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
    "GraniteSWAForCausalLM": Architecture(window_rule=WindowRule.ALL, sinks=YES),
    "InternLMForCausalLM": Architecture(attention_bias=Flag(default=False, key="bias"), mlp_bias=NO),
    "MinistralForCausalLM": Architecture(window_rule=WindowRule.ALL),
    "Ernie4_5ForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="use_bias"), mlp_bias=Flag(default=False, key="use_bias"), tied=True
    ),
    "HunYuanDenseV1ForCausalLM": Architecture(qk_norm=YES),
    "HyperCLOVAXForCausalLM": Architecture(norms=4),
    "PanguEmbeddedForCausalLM": Architecture(attention_bias=Flag(default=False, key="bias")),
    "Step1ForCausalLM": Architecture(spellings=(("num_key_value_heads", "num_attention_groups"),), tied=True),
    "TeleChat2ForCausalLM": _PLAIN_LLAMA,
    "TeleChatForCausalLM": _PLAIN_LLAMA,
    "ApertusForCausalLM": Architecture(gated_mlp=False, qk_norm=YES),
    "ArceeForCausalLM": Architecture(gated_mlp=False),
    "NanoChatForCausalLM": Architecture(gated_mlp=False, norms=0),
    "BitNetForCausalLM": Architecture(norms=3),
    "MuseGlimmerForCausalLM": Architecture(norms=4, gate=Gate.ELEMENTS, window_rule=WindowRule.ROPE_LAYERS),
    "Plamo3ForCausalLM": Architecture(qk_norm=YES, norms=4, window_rule=WindowRule.PERIODIC, window_period=8),
    "Rnj1ForCausalLM": Architecture(tied=True, norms=4, qk_norm=YES, window_rule=WindowRule.PERIODIC, window_period=4),
    "VaultGemmaForCausalLM": Architecture(tied=True, window_rule=WindowRule.PERIODIC, window_period=2),
    "Gemma3nForCausalLM": Architecture(
        tied=True,
        norms=4,
        qk_norm=YES,
        window_rule=WindowRule.PERIODIC,
        window_period=5,
        shared_kv=True,
        extra=ALTUP,
    ),
    "Phi3SmallForCausalLM": Architecture(
        attention_bias=YES, mlp_bias=YES, norm_bias=True, tied=True, width_keys=("ff_intermediate_size",)
    ),
    "PersimmonForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=YES,
        mlp_bias=YES,
        qk_norm=Flag(default=True, key="qk_layernorm"),
        qk_norm_bias=True,
        norm_bias=True,
        kv_heads=all_heads,
        undivided=("self_attn.", "mlp."),
    ),
    "BloomForCausalLM": replace(_GPT, embedding_norm=True),
    "BioGptForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=YES,
        mlp_bias=YES,
        tied=True,
        norm_bias=True,
        learned_positions=True,
        extra_positions=2,
        kv_heads=all_heads,
        undivided=("self_attn.q_proj", "self_attn.o_proj", "mlp."),
    ),
    "GPTJForCausalLM": _GPTJ,
    "CodeGenForCausalLM": _GPTJ,
    "JAISLMHeadModel": replace(_GPT, gated_mlp=True),
    "MptForCausalLM": _MPT,
    "MPTForCausalLM": _MPT,
    "DeciLMForCausalLM": Architecture(in_blocks=True),
    "QWenLMHeadModel": Architecture(
        attention_bias=YES,
        output_bias=False,
        mlp_bias=NO,
        kv_heads=all_heads,
        widths=half,
    ),
    **ENCODERS,
    **EXPERTS,
    "EagleLlamaForCausalLM": Architecture(eagle=DraftMethod.EAGLE),
    "LlamaForCausalLMEagle3": _LLAMA_EAGLE3,
    "Eagle3LlamaForCausalLM": _LLAMA_EAGLE3,
    "Eagle3MiniMaxM2ForCausalLM": _LLAMA_EAGLE3,
    "Eagle3Qwen2_5vlForCausalLM": _LLAMA_EAGLE3,
    "Eagle3Qwen3vlForCausalLM": _LLAMA_EAGLE3,
    "Eagle3Qwen3ForCausalLM": _QWEN_EAGLE3,
    **LATENT,
    "LlamaForCausalLM": _LLAMA,
    "MistralForCausalLM": _MISTRAL,
    "Ministral3ForCausalLM": _MISTRAL,
    "MixtralForCausalLM": Architecture(window_rule=WindowRule.ALL, moe=Moe(width_keys=("intermediate_size",))),
    "Qwen2ForCausalLM": Architecture(attention_bias=YES, output_bias=False, window_rule=WindowRule.QWEN),
    "Qwen3ForCausalLM": Architecture(qk_norm=YES, window_rule=WindowRule.QWEN),
    "Qwen2MoeForCausalLM": Architecture(
        attention_bias=Flag(default=True, key="qkv_bias"),
        output_bias=False,
        window_rule=WindowRule.QWEN,
        moe=Moe(holds=sparse_step, shared_width_key="shared_expert_intermediate_size", shared_gate=True),
    ),
    "Qwen3MoeForCausalLM": Architecture(qk_norm=YES, window_rule=WindowRule.QWEN, moe=Moe(holds=sparse_step)),
    "MiMoForCausalLM": Architecture(attention_bias=YES, output_bias=False, window_rule=WindowRule.QWEN),
    "SeedOssForCausalLM": Architecture(attention_bias=Flag(default=True, key="attention_bias"), output_bias=False),
    "SmolLM3ForCausalLM": Architecture(tied=True),
    "PhiForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=YES,
        mlp_bias=YES,
        qk_norm=Flag(default=False, key="qk_layernorm"),
        parallel_residual=YES,
        norms_if_parallel=1,
        norm_bias=True,
        lm_head_bias=True,
        intermediate_factor=4,
    ),
    "Phi3ForCausalLM": Architecture(window_rule=WindowRule.ALL),
    "GemmaForCausalLM": Architecture(tied=True),
    "Gemma2ForCausalLM": _GEMMA2,
    "Gemma3ForCausalLM": Architecture(
        tied=True, norms=4, qk_norm=YES, window_rule=WindowRule.PERIODIC, window_period=6
    ),
    "GptOssForCausalLM": Architecture(
        attention_bias=Flag(default=True, key="attention_bias"),
        window_rule=WindowRule.PERIODIC,
        window_period=2,
        sinks=YES,
        moe=Moe(
            width_keys=("intermediate_size",),
            router_bias=YES,
            expert_bias=True,
        ),
    ),
    "GraniteForCausalLM": _LLAMA,
    "GraniteMoeForCausalLM": Architecture(moe=Moe(width_keys=("intermediate_size",))),
    "GraniteMoeSharedForCausalLM": Architecture(moe=_SHARED_GRANITE),
    "OlmoForCausalLM": Architecture(norms=0),
    "Olmo2ForCausalLM": Architecture(qk_norm=YES, qk_norm_spans_heads=True),
    "Olmo3ForCausalLM": Architecture(
        qk_norm=YES, qk_norm_spans_heads=True, window_rule=WindowRule.PERIODIC, window_period=4
    ),
    "OlmoeForCausalLM": Architecture(qk_norm=YES, qk_norm_spans_heads=True, moe=Moe(width_keys=("intermediate_size",))),
    "Starcoder2ForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=Flag(default=True, key="use_bias"),
        mlp_bias=Flag(default=True, key="use_bias"),
        tied=True,
        norm_bias=True,
        window_rule=WindowRule.ALL,
    ),
    "InternLM2ForCausalLM": Architecture(attention_bias=Flag(default=False, key="bias"), mlp_bias=NO),
    "InternLM3ForCausalLM": Architecture(
        attention_bias=Flag(default=False, key="qkv_bias"),
        output_bias=False,
        mlp_bias=Flag(default=False, key="bias"),
    ),
    "CohereForCausalLM": Architecture(
        qk_norm=Flag(default=False, key="use_qk_norm"),
        qk_norm_spans_heads=True,
        tied=True,
        parallel_residual=YES,
        norms_if_parallel=1,
    ),
    "Cohere2ForCausalLM": Architecture(
        tied=True,
        parallel_residual=YES,
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
            router_bias=YES,
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
            router_bias=YES,
            router_fp32=True,
        ),
    ),
    "ChatGLMModel": _CHATGLM,
    "ChatGLMForConditionalGeneration": _CHATGLM,
    "FalconForCausalLM": _FALCON,
    "RWForCausalLM": _FALCON,
    "GPTBigCodeForCausalLM": replace(_GPT, learned_positions=True, kv_heads=multi_query, undivided=("mlp.",)),
    "GPT2LMHeadModel": replace(_GPT, learned_positions=True),
    "GPTNeoXForCausalLM": Architecture(
        gated_mlp=False,
        attention_bias=Flag(default=True, key="attention_bias"),
        mlp_bias=YES,
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
    "XverseForCausalLM": Architecture(attention_bias=NO, mlp_bias=NO),
    "ExaoneForCausalLM": _LLAMA,
    "Exaone4ForCausalLM": Architecture(qk_norm=YES, window_rule=WindowRule.PERIODIC, window_period=4),
    "BaichuanForCausalLM": _BAICHUAN,
    "BaiChuanForCausalLM": _BAICHUAN,
    **HYBRID,
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
