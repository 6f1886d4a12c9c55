"""Defaults for the section of a language model: its ``model_type`` implies a class and default sizes.

Source: the configuration classes of these types in Hugging Face Transformers 5.19. Only defaults of sizes are listed,
and not those that every published file names.
"""

from __future__ import annotations

from collections.abc import Mapping

LANGUAGE_CLASSES: Mapping[str, str] = {
    "cohere": "CohereForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
    "falcon": "FalconForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3n_text": "Gemma3nForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm4v_text": "Glm4ForCausalLM",
    "glm4v_moe_text": "Glm4MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granite": "GraniteForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM",
    "glm5_next_text": "Glm5NextForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "granitemoeshared": "GraniteMoeSharedForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "internlm3": "InternLM3ForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "kimi_linear": "KimiLinearForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "minicpm": "MiniCPMForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "minimax_m3_text": "MiniMaxM3SparseForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "muse_glimmer_text": "MuseGlimmerForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "opt": "OPTForCausalLM",
    "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_5_omni_text": "Qwen2ForCausalLM",
    "qwen2_5_vl_text": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen2_vl_text": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_omni_moe_text": "Qwen3MoeForCausalLM",
    "qwen3_vl_moe_text": "Qwen3MoeForCausalLM",
    "qwen3_vl_text": "Qwen3ForCausalLM",
    "qwen4_exp_text": "Qwen4ExpForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "stablelm": "StableLmForCausalLM",
}
"""Class of the language model by ``model_type`` of its section."""


def _sizes(
    vocabulary: int,
    hidden: int,
    intermediate: int | None,
    layers: int,
    heads: int,
    kv_heads: int | None,
    positions: int,
    **more: int,
) -> Mapping[str, object]:
    sizes = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": positions,
        **more,
    }
    return {key: value for key, value in sizes.items() if value is not None}


_LLAMA = _sizes(32_000, 4096, 11_008, 32, 32, None, 2048)
_COHERE = _sizes(256_000, 8192, 22_528, 40, 64, None, 8192)
_QWEN2_VL = _sizes(152_064, 8192, 29_568, 80, 64, 8, 32_768)

SECTION_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "cohere": _COHERE,
    "cohere2": {**_COHERE, "sliding_window": 4096},
    "gemma": _sizes(256_000, 3072, 24_576, 28, 16, 16, 8192, head_dim=256),
    "gemma2": _sizes(256_000, 2304, 9216, 26, 8, 4, 8192, head_dim=256, sliding_window=4096),
    "gemma3_text": {
        **_sizes(262_208, 2304, 9216, 26, 8, 4, 131_072, head_dim=256, sliding_window=4096),
        "rope_local_base_freq": 10_000.0,
    },
    "gemma3n_text": {
        **_sizes(262_400, 2048, 16_384, 35, 8, 2, 32_768, head_dim=256, sliding_window=512),
        "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262_144,
        "num_kv_shared_layers": 15,
        "altup_num_inputs": 4,
        "laurel_rank": 64,
    },
    "gemma4_text": _sizes(262_144, 2304, 9216, 30, 8, 4, 131_072, head_dim=256, sliding_window=512),
    "glm4v_text": {**_sizes(151_552, 4096, 13_696, 40, 32, 2, 32_768), "attention_bias": True},
    "glm4v_moe_text": {
        **_sizes(151_424, 4096, 10_944, 46, 96, 8, 65_536, moe_intermediate_size=1408),
        "attention_bias": True,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "n_routed_experts": 128,
        "first_k_dense_replace": 1,
    },
    "granite": _LLAMA,
    "llama": _LLAMA,
    "llama4_text": _sizes(202_048, 5120, 8192, 48, 40, 8, 131_072, head_dim=128, intermediate_size_mlp=16_384),
    "ministral3": _sizes(131_072, 4096, 14_336, 34, 32, 8, 262_144, head_dim=128),
    "mistral": _sizes(32_000, 4096, 14_336, 32, 32, 8, 131_072),
    "opt": _sizes(50_272, 768, None, 12, 12, None, 2048, ffn_dim=3072),
    "phi": _sizes(51_200, 2048, 8192, 24, 32, None, 2048),
    "phi3": _sizes(32_064, 3072, 8192, 32, 32, None, 4096),
    "qwen2": _sizes(151_936, 4096, 22_016, 32, 32, 32, 32_768),
    "qwen2_5_omni_text": _sizes(152_064, 3584, 18_944, 28, 28, 4, 32_768),
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen2_vl_text": _QWEN2_VL,
    "qwen3": _sizes(151_936, 4096, 22_016, 32, 32, 32, 32_768, head_dim=128),
    "qwen3_vl_text": _sizes(151_936, 4096, 22_016, 32, 32, 32, 128_000, head_dim=128),
    "smollm3": _sizes(128_256, 2048, 11_008, 36, 16, 4, 32_768),
}
"""Sizes by ``model_type``. A number of KV heads that is left out means as many as query heads."""
