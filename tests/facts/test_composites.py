"""Models with a tower: every weight against the modules the engine builds, on every rank, and measured weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.models.caches import AttentionCache, CrossCache
from plimsoll.domain.models.model import Evidence, FactsSource, ModelFacts, Weight
from plimsoll.domain.models.precision import Precision
from plimsoll.facts.models.composites import COMPOSITES
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.refusals import count_parameters
from plimsoll.memory.weights import rank_shape
from tests.support.tables import every_case

_DATA = Path(__file__).parent / "data" / "engine_composites.json"
_ROWS: list[dict[str, Any]] = json.loads(_DATA.read_text(encoding="utf-8"))["rows"]
_CONFIGS: dict[str, dict[str, Any]] = {row["name"]: row["config"] for row in _ROWS}
_COUNTS = [
    pytest.param(row["config"], int(degree), count, id=f"{row['name']}-tp{degree}")
    for row in _ROWS
    for degree, count in row["parameters"].items()
]
_GIB = 2**30


def _read(config: dict[str, Any]) -> ModelFacts:
    return read_model_facts("a/model", config, revision=None, source=FactsSource.INLINE)


def _weights(facts: ModelFacts) -> list[Weight]:
    layers = [weight for kind in facts.order for weight in facts.kinds[kind].weights]
    tower = [] if facts.encoder is None else list(facts.encoder.weights)
    return [*layers, *facts.embedding, *facts.head, *tower]


def _of_rank(facts: ModelFacts, degree: int) -> int:
    total = 0
    for weight in _weights(facts):
        count, outputs, inputs = rank_shape(weight, Split(tensor_parallel=degree))
        total += count * outputs * inputs
    return total


@every_case(("config", "degree", "counted"), _COUNTS)
def test_a_rank_holds_the_parameters_that_the_engine_creates(config: dict[str, Any], degree: int, counted: int) -> None:
    assert _of_rank(_read(config), degree) == pytest.approx(counted, rel=2e-4)


def test_most_rows_are_exact() -> None:
    exact = [row["name"] for row in _ROWS if _of_rank(_read(row["config"]), 1) == row["parameters"].get("1")]
    assert len(exact) >= len(_ROWS) - 2


@pytest.mark.parametrize(
    ("name", "logged_gib"),
    [("google/gemma-3-4b-it", 8.58), ("gemma-3-12b", 23.31), ("granite-vision-3.3-2b", 5.54)],
)
def test_weights_and_rotary_tables_are_what_the_engine_logs(name: str, logged_gib: float) -> None:
    """Loaded on an H100 by vLLM 0.19.0 in BF16, unquantized, one rank."""
    facts = _read(_CONFIGS[name])
    held = 2 * _of_rank(facts, 1) + facts.rotary_bytes
    assert held / _GIB == pytest.approx(logged_gib, rel=0.005)


@pytest.mark.parametrize(("hidden_layers", "published"), [(30, 5_439_438_272), (35, 7_849_978_192)])
def test_gemma_3n_counts_what_its_checkpoints_publish(hidden_layers: int, published: int) -> None:
    """The checkpoints hold keys and values of layers that borrow them, too: the engine does not load those."""
    borrowing, width = (10, 8192) if hidden_layers == 30 else (15, 16384)
    types = ["sliding_attention"] * 4 + ["full_attention"]
    text = {
        "model_type": "gemma3n_text",
        "num_hidden_layers": hidden_layers,
        "intermediate_size": [width] * hidden_layers,
        "num_kv_shared_layers": borrowing,
        "layer_types": types * (hidden_layers // 5),
    }
    config = {
        "architectures": ["Gemma3nForConditionalGeneration"],
        "text_config": text,
        "vision_config": {"model_type": "gemma3n_vision"},
        "audio_config": {"model_type": "gemma3n_audio"},
    }
    keys_and_values = 2 * 512 * 2048 + 256
    assert count_parameters(_read(config)) + borrowing * keys_and_values == published


def test_deepseek_vl2_counts_what_its_checkpoint_publishes() -> None:
    config = {
        "model_type": "deepseek_vl_v2",
        "candidate_resolutions": [[384, 384], [384, 768]],
        "language_config": {
            "architectures": ["DeepseekV2ForCausalLM"],
            "model_type": "deepseek_v2",
            "first_k_dense_replace": 1,
            "hidden_size": 1280,
            "intermediate_size": 6848,
            "kv_lora_rank": None,
            "max_position_embeddings": 4096,
            "moe_intermediate_size": 896,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_attention_heads": 10,
            "num_experts_per_tok": 6,
            "num_hidden_layers": 12,
            "num_key_value_heads": 10,
            "qk_nope_head_dim": 0,
            "qk_rope_head_dim": 0,
            "v_head_dim": 0,
            "vocab_size": 129280,
        },
        "projector_config": {"model_type": "mlp_projector", "n_embed": 1280},
        "vision_config": {"layers": 27, "mlp_ratio": 3.7362, "patch_size": 14, "width": 1152},
    }
    facts = _read(config)
    assert facts.architecture == "DeepseekVLV2ForCausalLM"
    assert count_parameters(facts) == pytest.approx(3.37e9, rel=0.002)


def test_every_composite_class_has_a_language_model_or_says_where_it_stands() -> None:
    for name, composite in COMPOSITES.items():
        assert composite.language is None or composite.language.endswith(("ForCausalLM", "Model", "Generation")), name


def test_a_section_takes_the_sizes_of_its_type_where_it_is_silent() -> None:
    facts = _read(_CONFIGS["llava-hf/llava-1.5-7b-hf"])
    assert (facts.hidden, facts.layers, facts.vocabulary) == (4096, 32, 32_064)
    assert facts.checkpoint.dtype is Precision.FP16


def test_the_type_of_the_whole_file_goes_before_that_of_a_section() -> None:
    config = _CONFIGS["mistral-small-3.1-24b"]
    text = {**config["text_config"], "torch_dtype": "float32"}
    assert _read({**config, "text_config": text}).checkpoint.dtype is Precision.BF16


def test_ties_outside_the_section_count() -> None:
    config = _CONFIGS["mistral-small-3.1-24b"]
    assert _read({**config, "tie_word_embeddings": True}).tied_embeddings
    assert not _read(config).tied_embeddings


def test_heads_that_the_degree_does_not_divide_leave_a_tower_whole() -> None:
    facts = _read(_CONFIGS["moonshotai/Kimi-K3"])
    assert facts.encoder is not None
    projection = next(weight for weight in facts.encoder.weights if weight.name.endswith("qkv_proj"))
    assert projection.units == 12
    whole = (projection.count, projection.outputs, projection.inputs)
    assert rank_shape(projection, Split(tensor_parallel=8)) == whole
    assert rank_shape(projection, Split(tensor_parallel=4)) == (whole[0], whole[1] // 4, whole[2])


def test_whisper_reads_its_encoder_in_every_layer() -> None:
    facts = _read(_CONFIGS["whisper-turbo"])
    assert facts.layers == 4
    assert facts.max_context_tokens == 448
    assert list(facts.caches()) == [AttentionCache(20, 64, 64), CrossCache(20, 64, 1500)]
    assert facts.encoder is not None
    assert (facts.encoder.layers, facts.encoder.item_tokens) == (32, 1500)


@pytest.mark.parametrize(
    ("name", "positions", "tokens"),
    [
        ("google/gemma-3-4b-it", 4096, 256),
        ("llava-hf/llava-1.5-7b-hf", 577, 576),
        ("Qwen/Qwen2-VL-7B-Instruct", 65_536, 16_384),
        ("OpenGVLab/InternVL2-2B", 13 * 1025, 13 * 256),
        ("Qwen/Qwen2-Audio-7B-Instruct", 1500, 750),
    ],
)
def test_the_largest_item_is_that_of_the_family(name: str, positions: int, tokens: int) -> None:
    encoder = _read(_CONFIGS[name]).encoder
    assert encoder is not None
    assert (encoder.item_tokens, encoder.output_tokens) == (positions, tokens)


_UNKNOWN = {
    "architectures": ["NovelForConditionalGeneration"],
    "text_config": {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28},
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14},
}


def test_an_unknown_tower_is_estimated_from_the_usual_fields() -> None:
    facts = _read(_UNKNOWN)
    assert facts.evidence is Evidence.GENERIC
    assert facts.encoder is not None
    tower = sum(weight.parameters for weight in facts.encoder.weights)
    assert tower == pytest.approx(430e6, rel=0.1), "SigLIP so400m has 428 million"


_KEYE = {
    "architectures": ["KeyeForConditionalGeneration"],
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14},
}
"""A class whose language model the engine fixes in code (Qwen3) and whose tower no row describes."""


def test_a_class_with_an_estimated_tower_has_the_language_model_that_the_engine_fixes() -> None:
    facts = _read(_KEYE)
    assert facts.evidence is Evidence.GENERIC
    text = _read({**_KEYE, "architectures": ["Qwen3ForCausalLM"], "vision_config": None})
    assert facts.encoder is not None
    tower = sum(weight.parameters for weight in facts.encoder.weights)
    assert _of_rank(facts, 1) - tower == _of_rank(text, 1)
    norms = [weight.name for kind in facts.order for weight in facts.kinds[kind].weights if "q_norm" in weight.name]
    assert norms, "Qwen3 normalises queries and keys; no field of the file says so"


@pytest.mark.parametrize("tower", [None, {"hidden_size": 1152}])
def test_a_class_with_a_tower_that_cannot_be_estimated_is_refused(tower: dict[str, int] | None) -> None:
    with pytest.raises(UnsupportedModel, match="KeyeForConditionalGeneration: its tower is unknown"):
        _read({**_KEYE, "vision_config": tower})


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"vision_config": {"model_name": "novel"}}, "NovelForConditionalGeneration: its tower is unknown"),
        ({"audio_config": {"d_model": 1280}}, "NovelForConditionalGeneration: its tower is unknown"),
        ({"text_config": {"model_type": "novel"}}, "neither its language model nor its tower"),
        ({"architectures": ["UltravoxModel"], "text_config": None}, "named nowhere"),
    ],
)
def test_what_cannot_be_estimated_is_named(changes: dict[str, Any], missing: str) -> None:
    with pytest.raises(UnsupportedModel, match=missing):
        _read({**_UNKNOWN, **changes})


@pytest.mark.parametrize(
    ("name", "section", "field", "value"),
    [
        ("google/gemma-3-4b-it", "vision_config", "hidden_size", -1),
        ("llava-hf/llava-1.5-7b-hf", None, "vision_feature_layer", 99),
        ("llava-hf/llava-1.5-7b-hf", None, "vision_feature_layer", "last"),
        ("OpenGVLab/InternVL2-2B", None, "select_layer", 99),
        ("kimi-vl-a3b", "vision_config", "merge_kernel_size", ["a", 2]),
    ],
)
def test_an_unusable_field_of_a_tower_is_named(name: str, section: str | None, field: str, value: object) -> None:
    config = _CONFIGS[name]
    changed = {**config, field: value} if section is None else {**config, section: {**config[section], field: value}}
    with pytest.raises(InvalidInput, match=field):
        _read(changed)
