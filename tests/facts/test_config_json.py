"""Reading a configuration: what is read, what is refused, and that nothing crashes."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, IndexerCache, LatentCache
from plimsoll.domain.models.model import Evidence, FactsSource, ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import FP32, KvPrecision, Precision
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.refusals import count_parameters
from tests.support.tables import every_case, examples

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

DEEPSEEK: dict[str, Any] = {
    **LLAMA,
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 4,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "topk_method": "noaux_tc",
}


def read(config: dict[str, Any], **changes: Any) -> ModelFacts:
    return read_model_facts("org/model", {**config, **changes}, revision=None, source=FactsSource.INLINE)


def caches(facts: ModelFacts) -> list[tuple[CacheSpec, ...]]:
    """What each layer keeps, first to last."""
    return [facts.kinds[kind].caches for kind in facts.order]


def windows(facts: ModelFacts) -> Counter[int | None]:
    """How many layers see how far."""
    every = (cache for layer in caches(facts) for cache in layer)
    return Counter(cache.window_tokens for cache in every if isinstance(cache, AttentionCache))


def weights(facts: ModelFacts, layer: int) -> dict[str, Weight]:
    return {weight.name: weight for weight in facts.kinds[facts.order[layer]].weights}


def test_a_llama_is_read_in_full() -> None:
    facts = read(LLAMA)
    assert (facts.layers, facts.hidden, facts.heads, facts.vocabulary) == (32, 4096, 32, 128256)
    assert caches(facts) == [(AttentionCache(8, 128, 128),)] * 32
    assert len(facts.kinds) == 1
    assert facts.evidence is Evidence.KNOWN
    assert facts.checkpoint.precision is Precision.BF16
    assert facts.max_context_tokens == 131072
    assert not facts.tied_embeddings
    assert count_parameters(facts) == 8_030_261_248


def test_head_dim_is_the_files_where_it_differs_from_the_quotient() -> None:
    assert caches(read(LLAMA, head_dim=96))[0] == (AttentionCache(8, 96, 96),)


@every_case(
    ("architecture", "changes", "expected"),
    [
        ("MistralForCausalLM", {"sliding_window": 4096}, {4096: 32}),
        ("MistralForCausalLM", {"sliding_window": None}, {None: 32}),
        ("MistralForCausalLM", {"sliding_window": 131072}, {131072: 32}),
        ("LlamaForCausalLM", {"sliding_window": 4096}, {None: 32}),
        ("Qwen2ForCausalLM", {"sliding_window": 4096, "use_sliding_window": False}, {None: 32}),
        (
            "Qwen2ForCausalLM",
            {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 20},
            {None: 20, 4096: 12},
        ),
        ("Gemma2ForCausalLM", {"sliding_window": 4096}, {None: 16, 4096: 16}),
        ("Gemma3ForCausalLM", {"sliding_window": 512}, {None: 5, 512: 27}),
        ("Gemma3ForCausalLM", {"sliding_window": 512, "sliding_window_pattern": 4}, {None: 8, 512: 24}),
        ("Exaone4ForCausalLM", {"sliding_window": 4096, "sliding_window_pattern": "LLLG"}, {None: 8, 4096: 24}),
        (
            "Olmo3ForCausalLM",
            {"sliding_window": 4096, "layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 30},
            {None: 2, 4096: 30},
        ),
    ],
)
def test_windows_make_kinds_of_layers(
    architecture: str, changes: dict[str, Any], expected: dict[int | None, int]
) -> None:
    facts = read(LLAMA, architectures=[architecture], **changes)
    assert windows(facts) == expected
    assert len(facts.kinds) == len(expected)


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
    assert caches(facts) == [(AttentionCache(2, 128, 128),)] * 28
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


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_seq_len": 8192}, 8192),
        ({"seq_length": 32768, "max_target_positions": 448}, 448),
        ({"n_positions": 1024}, 1024),
        ({}, 2048),
    ],
)
def test_the_context_is_what_the_engine_takes_from_the_file(fields: dict[str, Any], tokens: int) -> None:
    assert read({**LLAMA, "max_position_embeddings": None, **fields}).max_context_tokens == tokens


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
    assert (facts.experts.layers, facts.layers) == (15, 32)
    assert "mlp.experts.up_proj" in weights(facts, 1)
    assert "mlp.up_proj" in weights(facts, 3)
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


@every_case(
    ("changes", "missing"),
    [
        ({"vision_config": {}}, "vision tower"),
        ({"audio_config": {"x": 1}}, "audio encoder"),
        ({"mamba_d_state": 128}, "Mamba"),
        ({"linear_num_value_heads": 32}, "linear-attention"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"layer_types": ["linear_attention"] * 32}, "linear_attention"),
        ({"attn_type_list": [0, 1]}, "attn_type_list"),
        ({"mlp_type": "other", "architectures": ["LlamaForCausalLM"]}, "mlp_type"),
        ({"architectures": ["OPTForCausalLM"], "word_embed_proj_dim": 512}, "word_embed_proj_dim"),
    ],
)
def test_what_has_no_memory_law_is_named(changes: dict[str, Any], missing: str) -> None:
    with pytest.raises(UnsupportedModel, match="org/model: no memory law for") as refusal:
        read({**LLAMA, "architectures": ["NobodyKnowsThisForCausalLM"]}, **changes)
    assert missing in refusal.value.missing


def test_an_unknown_class_is_read_from_its_fields_and_says_so() -> None:
    facts = read(LLAMA, architectures=["NobodyKnowsThisForCausalLM"])
    assert facts.evidence is Evidence.GENERIC
    assert count_parameters(facts) == count_parameters(read(LLAMA))
    latent = read(DEEPSEEK, architectures=["NobodyKnowsThisForCausalLM"])
    assert caches(latent) == caches(read(DEEPSEEK))


def test_latent_attention_keeps_one_vector_and_copies_what_leads_to_it() -> None:
    facts = read(DEEPSEEK)
    assert caches(facts) == [(LatentCache(512, 64),)] * 4
    first, second = weights(facts, 0), weights(facts, 1)
    for name in ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"):
        assert first[name].sharding is Sharding.REPLICATED
    assert first["self_attn.q_b_proj"].outputs == 32 * 192
    assert first["self_attn.kv_b_proj"].outputs == 32 * 256
    assert (first["self_attn.o_proj"].inputs, first["self_attn.o_proj"].sharding) == (32 * 128, Sharding.INPUTS)
    assert "mlp.up_proj" in first
    assert second["mlp.shared_expert.up_proj"].outputs == 2 * 1408
    assert second["mlp.gate.bias"].storage is FP32
    assert "self_attn.q_proj" in weights(read(DEEPSEEK, q_lora_rank=None), 0)


@pytest.mark.parametrize(
    ("changes", "indexed"),
    [
        ({}, [True] * 4),
        ({"index_topk_freq": 2}, [True, True, False, True]),
        ({"index_topk_pattern": "FSSF"}, [True, False, False, True]),
        ({"indexer_types": ["full", "shared", "full", "shared"]}, [True, False, True, False]),
    ],
)
def test_sparse_attention_has_an_indexer_where_the_file_says(changes: dict[str, Any], indexed: list[bool]) -> None:
    facts = read(
        {**DEEPSEEK, "architectures": ["DeepseekV32ForCausalLM"]},
        **{"index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128, **changes},
    )
    assert [any(isinstance(cache, IndexerCache) for cache in layer) for layer in caches(facts)] == indexed
    assert all(layer[0] == LatentCache(512, 64, sparse=True) for layer in caches(facts))
    assert weights(facts, 0)["self_attn.indexer.wq_b"].sharding is Sharding.REPLICATED


def test_gemma_4_gives_full_attention_its_own_heads_and_lets_late_layers_borrow() -> None:
    facts = read(
        LLAMA,
        architectures=["Gemma4ForCausalLM"],
        num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        sliding_window=512,
        head_dim=256,
        global_head_dim=512,
        num_global_key_value_heads=2,
        attention_k_eq_v=True,
        num_kv_shared_layers=1,
        use_double_wide_mlp=True,
        hidden_size_per_layer_input=64,
    )
    assert caches(facts) == [
        (AttentionCache(8, 256, 256, window_tokens=512),),
        (AttentionCache(2, 512, 512),),
        (AttentionCache(8, 256, 256, window_tokens=512),),
        (),
    ]
    assert "self_attn.k_proj" not in weights(facts, 3)
    assert weights(facts, 3)["mlp.up_proj"].outputs == 2 * weights(facts, 0)["mlp.up_proj"].outputs
    tables = {weight.name: weight for weight in facts.embedding}
    assert (tables["embed_tokens_per_layer"].outputs, tables["embed_tokens_per_layer"].inputs) == (128256, 4 * 64)


def test_llama_4_keeps_chunks_where_it_rotates_positions() -> None:
    facts = read(
        MIXTRAL,
        architectures=["Llama4ForCausalLM"],
        attention_chunk_size=8192,
        intermediate_size_mlp=16384,
        interleave_moe_layer_step=2,
    )
    chunks = [cache.chunk_tokens for (cache,) in caches(facts) if isinstance(cache, AttentionCache)]
    assert chunks == [8192, 8192, 8192, None] * 8
    assert weights(facts, 0)["mlp.up_proj"].outputs == 16384
    assert weights(facts, 1)["mlp.shared_expert.up_proj"].outputs == 14336


def test_deci_lm_says_for_each_block_what_it_has() -> None:
    blocks = [
        {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 2.625}},
        {"attention": {"no_op": True}, "ffn": {"intermediate_size": 512}},
        {"attention": {"n_heads_in_group": 16}, "ffn": {"no_op": True}},
    ]
    facts = read(LLAMA, architectures=["DeciLMForCausalLM"], num_hidden_layers=3, block_configs=blocks)
    assert caches(facts) == [(AttentionCache(4, 128, 128),), (), (AttentionCache(2, 128, 128),)]
    assert weights(facts, 0)["mlp.up_proj"].outputs == 7168
    assert weights(facts, 1)["mlp.up_proj"].outputs == 512
    assert "mlp.up_proj" not in weights(facts, 2)
    with pytest.raises(InvalidInput, match="block_configs"):
        read(LLAMA, architectures=["DeciLMForCausalLM"], block_configs=blocks)


def test_mimo_v2_has_more_heads_and_sinks_where_it_slides() -> None:
    facts = read(
        LLAMA,
        architectures=["MiMoV2FlashForCausalLM"],
        num_hidden_layers=2,
        hybrid_layer_pattern=[0, 1],
        sliding_window=128,
        head_dim=192,
        v_head_dim=128,
        swa_num_key_value_heads=16,
        swa_head_dim=192,
        swa_v_head_dim=128,
        add_swa_attention_sink_bias=True,
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        moe_layer_freq=[0, 1],
    )
    assert caches(facts) == [(AttentionCache(8, 192, 128),), (AttentionCache(16, 192, 128, window_tokens=128),)]
    assert "self_attn.sinks" in weights(facts, 1)
    assert "self_attn.sinks" not in weights(facts, 0)


def test_a_class_may_spell_its_fields_in_its_own_way() -> None:
    facts = read_model_facts(
        "dbrx",
        {
            "architectures": ["DbrxForCausalLM"],
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "max_seq_len": 32768,
            "vocab_size": 100352,
            "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        revision=None,
        source=FactsSource.CATALOG,
    )
    assert count_parameters(facts) == pytest.approx(131_596_523_520, rel=1e-4)
    assert facts.max_context_tokens == 32768


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_hidden_layers": 2000, "hidden_size": 10**7, "num_attention_heads": 10**7}, "hidden_size"),
        ({"num_local_experts": 10**7, "architectures": ["MixtralForCausalLM"]}, "num_local_experts"),
        ({"num_local_experts": 10**9, "architectures": ["MixtralForCausalLM"]}, "num_local_experts"),
        ({"vocab_size": 10**7, "hidden_size": 8 * 10**6, "intermediate_size": 1, "head_dim": 1}, "vocab_size"),
    ],
)
def test_sizes_that_pass_alone_and_make_no_model_together_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read({**LLAMA, "num_key_value_heads": None, "num_experts_per_tok": 2, **changes})
    assert refusal.value.field == f"config.json: {field}"


@every_case(
    ("field", "value"),
    [
        ("num_hidden_layers", None),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 0),
        ("num_hidden_layers", 2_001),
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
    {*LLAMA, *FALCON, *MIXTRAL, *DEEPSEEK}
    | {"quantization_config", "rope_scaling", "layer_types", "sliding_window", "head_dim", "text_config"}
    | {"mlp_only_layers", "decoder_sparse_step", "sliding_window_pattern", "attn_type_list", "mlp_type"}
    | {"block_configs", "mlp_layer_types", "moe_layers_enum", "no_rope_layers", "hybrid_layer_pattern", "gating"}
    | {"index_topk", "indexer_types", "index_topk_pattern", "num_kv_shared_layers", "attention_other_setting"}
    | {"hidden_size_per_layer_input", "hidden_act", "sparse_attention_config", "compress_ratios", "moe_layer_freq"}
)
CLASSES = st.sampled_from(
    [
        "DeciLMForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV4ForCausalLM",
        "FalconForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3nForCausalLM",
        "Gemma4ForCausalLM",
        "Llama4ForCausalLM",
        "LlamaForCausalLM",
        "LongcatFlashNgramForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiniMaxM3SparseForCausalLM",
        "MixtralForCausalLM",
        "NobodyKnowsThisForCausalLM",
        "Qwen3MoeForCausalLM",
        "Step3p5ForCausalLM",
    ]
)


@settings(max_examples=examples(300), deadline=None)
@given(changes=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), architecture=CLASSES)
def test_any_json_gives_facts_or_a_named_refusal(changes: dict[str, Any], architecture: str) -> None:
    config = {**DEEPSEEK, **MIXTRAL, "num_experts": 8, "architectures": [architecture], **changes}
    facts: ModelFacts | None = None
    with contextlib.suppress(InvalidInput, UnsupportedModel):
        facts = read(config)
    assert facts is None or count_parameters(facts) > 0


@settings(max_examples=examples(50), deadline=None)
@given(config=JSON)
def test_any_document_gives_facts_or_a_named_refusal(config: Any) -> None:
    with pytest.raises((InvalidInput, UnsupportedModel)):
        read_model_facts("org/model", config, revision=None, source=FactsSource.INLINE)
