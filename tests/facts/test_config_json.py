"""Reading a configuration: what is read, what is refused, and that nothing crashes."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.model import AttentionLayers, FactsSource, ModelFacts
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.facts.config_json import read_model_facts
from plimsoll.facts.parameters import count_parameters

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
FALCON: dict[str, Any] = {
    "architectures": ["FalconForCausalLM"],
    "hidden_size": 4544,
    "num_attention_heads": 71,
    "num_hidden_layers": 32,
    "vocab_size": 65024,
    "bias": False,
    "multi_query": True,
    "parallel_attn": True,
    "new_decoder_architecture": False,
}
MIXTRAL: dict[str, Any] = {
    **LLAMA,
    "architectures": ["MixtralForCausalLM"],
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def read(config: dict[str, Any], **changes: Any) -> ModelFacts:
    return read_model_facts("org/model", {**config, **changes}, revision=None, source=FactsSource.INLINE)


def test_a_llama_is_read_in_full() -> None:
    facts = read(LLAMA)
    assert (facts.layers, facts.hidden, facts.heads, facts.vocabulary) == (32, 4096, 32, 128256)
    assert facts.attention == (AttentionLayers(32, 8, 128),)
    assert facts.checkpoint.precision is Precision.BF16
    assert facts.max_context_tokens == 131072
    assert not facts.tied_embeddings
    assert count_parameters(facts) == 8_030_261_248


def test_head_dim_is_the_files_where_it_differs_from_the_quotient() -> None:
    assert read(LLAMA, head_dim=96).head_dim == 96


@pytest.mark.parametrize(
    ("architecture", "changes", "expected"),
    [
        ("MistralForCausalLM", {"sliding_window": 4096}, [(32, 4096)]),
        ("MistralForCausalLM", {"sliding_window": None}, [(32, None)]),
        ("MistralForCausalLM", {"sliding_window": 131072}, [(32, None)]),
        ("LlamaForCausalLM", {"sliding_window": 4096}, [(32, None)]),
        ("Qwen2ForCausalLM", {"sliding_window": 4096, "use_sliding_window": False}, [(32, None)]),
        (
            "Qwen2ForCausalLM",
            {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 20},
            [(20, None), (12, 4096)],
        ),
        ("Gemma2ForCausalLM", {"sliding_window": 4096}, [(16, None), (16, 4096)]),
        ("Gemma3ForCausalLM", {"sliding_window": 512}, [(5, None), (27, 512)]),
        ("Gemma3ForCausalLM", {"sliding_window": 512, "sliding_window_pattern": 4}, [(8, None), (24, 512)]),
        ("Exaone4ForCausalLM", {"sliding_window": 4096, "sliding_window_pattern": "LLLG"}, [(8, None), (24, 4096)]),
        (
            "Olmo3ForCausalLM",
            {"sliding_window": 4096, "layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 30},
            [(2, None), (30, 4096)],
        ),
    ],
)
def test_windows_make_groups_of_layers(
    architecture: str, changes: dict[str, Any], expected: list[tuple[int, int | None]]
) -> None:
    facts = read(LLAMA, architectures=[architecture], **changes)
    assert [(group.count, group.window_tokens) for group in facts.attention] == expected


@pytest.mark.parametrize(
    ("changes", "kv_heads"),
    [
        ({}, 1),
        ({"multi_query": False}, 71),
        ({"new_decoder_architecture": True, "num_attention_heads": 64, "hidden_size": 4096, "num_kv_heads": 8}, 8),
        ({"new_decoder_architecture": True, "num_attention_heads": 64, "hidden_size": 4096}, 64),
    ],
)
def test_falcon_writes_its_heads_in_its_own_way(changes: dict[str, Any], kv_heads: int) -> None:
    facts = read(FALCON, **changes)
    assert facts.kv_heads == kv_heads
    assert facts.intermediate == 4 * facts.hidden
    assert facts.tied_embeddings


def test_chatglm_writes_its_heads_in_its_own_way() -> None:
    config = {
        "architectures": ["ChatGLMModel"],
        "hidden_size": 4096,
        "ffn_hidden_size": 13696,
        "num_attention_heads": 32,
        "num_layers": 28,
        "kv_channels": 128,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "padded_vocab_size": 65024,
        "seq_length": 8192,
        "add_qkv_bias": True,
    }
    facts = read(config)
    assert facts.attention == (AttentionLayers(28, 2, 128),)
    assert count_parameters(facts) == 6_243_584_000


@pytest.mark.parametrize(
    ("scaling", "tokens"),
    [
        ({"rope_type": "llama3", "factor": 8.0}, 131072),
        ({"rope_type": "longrope", "factor": 32.0}, 131072),
        ({"type": "linear", "factor": 4.0}, 524288),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}, 131072),
    ],
)
def test_the_context_follows_the_rotary_scaling(scaling: dict[str, Any], tokens: int) -> None:
    assert read(LLAMA, rope_scaling=scaling).max_context_tokens == tokens


def test_command_r_states_its_context_elsewhere() -> None:
    assert read(LLAMA, model_max_length=131072, max_position_embeddings=8192).max_context_tokens == 131072


def test_experts_are_read_with_their_layers() -> None:
    qwen = {
        **LLAMA,
        "architectures": ["Qwen2MoeForCausalLM"],
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
    }
    facts = read(qwen)
    assert facts.experts is not None
    assert (facts.experts.layers, facts.dense_layers) == (15, 17)
    assert facts.experts.shared_intermediate == 5632
    assert facts.intermediate == 14336
    assert read(MIXTRAL).intermediate == 0


def test_glm_moe_starts_with_dense_layers_and_drops_totals_with_prediction_layers() -> None:
    glm = {
        **LLAMA,
        "architectures": ["Glm4MoeForCausalLM"],
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 1,
    }
    facts = read_model_facts("glm", glm, revision=None, source=FactsSource.HUB, parameters=110_000_000_000)
    assert facts.experts is not None
    assert (facts.experts.layers, facts.experts.shared_intermediate) == (31, 1408)
    assert facts.parameters is None


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"kv_lora_rank": 512}, "multi-head latent attention"),
        ({"vision_config": {}}, "vision tower"),
        ({"audio_config": {"x": 1}}, "audio encoder"),
        ({"text_config": {"hidden_size": 1}}, "composite model"),
        ({"mamba_d_state": 128}, "Mamba"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"layer_types": ["linear_attention"] * 32}, "linear_attention"),
        ({"attn_type_list": [0, 1]}, "lightning attention"),
        ({"architectures": ["JambaForCausalLM"]}, "JambaForCausalLM"),
        ({"architectures": ["MyModel"], "auto_map": {"AutoModel": "x"}}, "auto_map"),
        ({"architectures": ["MiniCPMForCausalLM"], "num_experts": 8}, "MiniCPM's mixture of experts"),
        ({"architectures": ["OPTForCausalLM"], "word_embed_proj_dim": 512}, "word_embed_proj_dim"),
        ({"mlp_type": "other"}, "mlp_type"),
    ],
)
def test_what_has_no_memory_law_is_named(changes: dict[str, Any], missing: str) -> None:
    with pytest.raises(UnsupportedModel, match="org/model: no memory law for") as refusal:
        read(LLAMA, **changes)
    assert missing in refusal.value.missing


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", None),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 0),
        ("num_hidden_layers", 20_000_000),
        ("num_hidden_layers", "32"),
        ("num_hidden_layers", True),
        ("num_hidden_layers", 32.0),
        ("hidden_size", math.nan),
        ("hidden_size", 10**4000),
        ("num_attention_heads", 24),
        ("num_key_value_heads", 5),
        ("num_key_value_heads", 0),
        ("vocab_size", []),
        ("intermediate_size", {}),
        ("max_position_embeddings", -5),
        ("torch_dtype", "int3"),
        ("torch_dtype", 16),
        ("tie_word_embeddings", "yes"),
        ("architectures", None),
        ("architectures", [None]),
        ("architectures", "LlamaForCausalLM"),
        ("layer_types", ["full_attention"]),
        ("rope_scaling", 4),
        ("quantization_config", []),
    ],
)
def test_an_unusable_field_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(LLAMA, **{field: value})
    assert refusal.value.field == f"config.json: {field}"
    assert refusal.value.fix.endswith(".")


@pytest.mark.parametrize("factor", [math.nan, math.inf, -1, 0, "4"])
def test_an_absurd_rotary_factor_is_named(factor: object) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(LLAMA, rope_scaling={"type": "linear", "factor": factor})
    assert refusal.value.field == "config.json: rope_scaling: factor"


def test_a_window_must_be_there_where_layers_slide() -> None:
    with pytest.raises(InvalidInput, match="sliding_window"):
        read(LLAMA, layer_types=["sliding_attention"] * 32)


def test_more_experts_for_a_token_than_there_are_is_refused() -> None:
    with pytest.raises(InvalidInput, match="num_experts_per_tok"):
        read(MIXTRAL, num_experts_per_tok=9)


def test_the_checkpoint_can_fix_the_kv_cache() -> None:
    modelopt = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "ignore": ["lm_head"]}
    assert read(LLAMA, quantization_config=modelopt).checkpoint.kv_precision is KvPrecision.FP8


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)
FIELDS = sorted(
    {*LLAMA, *FALCON, *MIXTRAL}
    | {"quantization_config", "rope_scaling", "layer_types", "sliding_window", "head_dim", "text_config"}
    | {"mlp_only_layers", "decoder_sparse_step", "sliding_window_pattern", "attn_type_list", "mlp_type"}
)
CLASSES = st.sampled_from(
    ["LlamaForCausalLM", "MixtralForCausalLM", "Qwen3MoeForCausalLM", "Gemma3ForCausalLM", "FalconForCausalLM"]
)


@settings(max_examples=150, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), architecture=CLASSES)
def test_any_json_gives_facts_or_a_named_refusal(changes: dict[str, Any], architecture: str) -> None:
    config = {**MIXTRAL, "architectures": [architecture], "num_experts": 8, "moe_intermediate_size": 64, **changes}
    facts: ModelFacts | None = None
    with contextlib.suppress(InvalidInput, UnsupportedModel):
        facts = read(config)
    assert facts is None or count_parameters(facts) > 0


@settings(max_examples=50, deadline=None)
@given(config=JSON)
def test_any_document_gives_facts_or_a_named_refusal(config: Any) -> None:
    with pytest.raises((InvalidInput, UnsupportedModel)):
        read_model_facts("org/model", config, revision=None, source=FactsSource.INLINE)
