"""Hybrid and recurrent decoders: weights and states of a rank against the engine's own modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.models.caches import AttentionCache, LatentCache, StateCache, StatePart
from plimsoll.domain.models.model import Evidence, FactsSource, ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.weights import rank_shape
from tests.support.tables import every_case

ENGINE: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "engine_hybrids.json").read_text())
ROWS: list[dict[str, Any]] = ENGINE["rows"]
RANKS = [(row, int(degree)) for row in ROWS for degree in row["ranks"]]

ROUNDING = 1e-5
"""The engine pads one projection of Kimi-K3 to a multiple of 16 rows; everything else agrees to the unit."""


def _facts(config: dict[str, Any]) -> ModelFacts:
    return read_model_facts("example/model", config, revision=None, source=FactsSource.INLINE)


def _named(name: str, **changes: object) -> ModelFacts:
    config = next(row["config"] for row in ROWS if row["name"] == name)
    return _facts({key: value for key, value in {**config, **changes}.items() if value is not None})


def _weights(facts: ModelFacts) -> list[tuple[int, Weight]]:
    outside = [(1, weight) for weight in (*facts.embedding, *facts.head)]
    inside = [(facts.order.count(number), weight) for number, kind in enumerate(facts.kinds) for weight in kind.weights]
    return outside + inside


def _elements(weight: Weight, split: Split) -> int:
    count, outputs, inputs = rank_shape(weight, split)
    return count * outputs * inputs


def _states(facts: ModelFacts) -> set[StateCache]:
    return {cache for cache in facts.caches() if isinstance(cache, StateCache)}


def _state_bytes(cache: StateCache, degree: int) -> int:
    parts: list[StatePart] = [part for tensor in cache.parts for part in tensor]
    return sum(max(1, part.units // degree) * part.unit_elements * (part.dtype_bytes or 2) for part in parts)


def _case(value: object) -> str:
    return f"tp{value}" if isinstance(value, int) else str(value["name"]) if isinstance(value, dict) else ""


@every_case(("row", "degree"), RANKS, ids=_case)
def test_parameters_and_bytes_of_a_rank_are_the_engines(row: dict[str, Any], degree: int) -> None:
    facts = _facts(row["config"])
    split = Split(tensor_parallel=degree)
    sizes = [(layers * _elements(weight, split), weight) for layers, weight in _weights(facts)]
    expected = row["ranks"][str(degree)]
    assert sum(size for size, _ in sizes) == pytest.approx(expected["parameters"], rel=ROUNDING)
    in_bytes = sum(size * (4 if weight.storage == FP32 else 2) for size, weight in sizes)
    assert in_bytes == pytest.approx(expected["bytes"], rel=ROUNDING)


@every_case(("row", "degree"), RANKS, ids=_case)
def test_the_state_of_a_request_in_one_layer_is_the_engines(row: dict[str, Any], degree: int) -> None:
    sizes = {_state_bytes(cache, degree) for cache in _states(_facts(row["config"]))}
    assert sizes == ({row["ranks"][str(degree)]["stateBytes"]} - {0})


@every_case("row", ROWS, ids=_case)
def test_as_many_layers_keep_a_state_as_in_the_engine(row: dict[str, Any]) -> None:
    facts = _facts(row["config"])
    recurrent = [kind for kind in facts.order if any(isinstance(it, StateCache) for it in facts.kinds[kind].caches)]
    assert len(recurrent) == row["recurrentLayers"]


def test_every_class_here_has_laws_of_its_own() -> None:
    assert {_facts(row["config"]).evidence for row in ROWS} == {Evidence.KNOWN}


@pytest.mark.parametrize("row", ENGINE["predictors"], ids=_case)
def test_the_predictor_of_a_rank_is_the_engines(row: dict[str, Any]) -> None:
    facts = _facts(row["config"]) if "config" in row else _named(row["name"])
    for degree, expected in row["parameters"].items():
        split = Split(tensor_parallel=int(degree))
        assert sum(_elements(weight, split) for kind in facts.predictor for weight in kind.weights) == expected


def test_no_predictor_stands_where_the_file_has_none() -> None:
    assert _named("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", num_nextn_predict_layers=0).predictor == ()
    assert _named("granite-4.0-h-small").predictor == ()


def test_layers_of_nemotron_h_hold_one_part_each_under_one_name() -> None:
    facts = _named("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8")
    assert len(facts.kinds) == 3
    outer = {weight.name.split(".")[0] for kind in facts.kinds for weight in kind.weights}
    assert outer == {"mixer", "norm_0"}
    mixture = next(kind for kind in facts.kinds if not kind.caches)
    by_name = {weight.name: weight for weight in mixture.weights}
    assert by_name["mixer.experts.up_proj"].inputs == 1024
    assert by_name["mixer.shared_expert.up_proj"].inputs == 4096


def test_layers_side_by_side_keep_a_state_and_tokens() -> None:
    (kind,) = _named("falcon-h1-7b").kinds
    assert [type(cache) for cache in kind.caches] == [StateCache, AttentionCache]


def test_a_shared_block_counts_once_and_caches_in_every_layer_that_passes_it() -> None:
    facts = _named("zamba2-7b")
    caching = [number for number in facts.order if len(facts.kinds[number].caches) == 2]
    owning = [
        number
        for number in caching
        if any(weight.name == "shared_transformer.self_attn.q_proj" for weight in facts.kinds[number].weights)
    ]
    assert (len(caching), len(owning)) == (13, 2)


def test_latent_attention_stands_beside_kimi_delta_attention() -> None:
    facts = _named("kimi-linear-48b")
    latent = [number for number in facts.order if any(isinstance(it, LatentCache) for it in facts.kinds[number].caches)]
    assert len(latent) == 7


def test_a_model_without_attention_has_no_heads_and_no_mlp() -> None:
    facts = _named("mamba-2.8b")
    assert (facts.heads, facts.intermediate, facts.kv_heads) == (0, 0, 1)
    assert facts.max_context_tokens == 2048


def test_the_fewer_groups_are_copied_to_every_rank() -> None:
    (kind,) = _named("mamba2-1g").kinds
    groups = [
        weight for weight in kind.weights if weight.sharding is Sharding.HEADS and weight.name.endswith("in_proj")
    ]
    assert [_elements(weight, Split(tensor_parallel=8)) for weight in groups] == [2 * 128 * 2560]


def test_a_narrow_share_of_kimis_experts_is_padded_unless_experts_stay_whole() -> None:
    mixture = next(kind for kind in _named("kimi-linear-48b").kinds if any(w.count > 1 for w in kind.weights))
    up = next(weight for weight in mixture.weights if weight.name == "mlp.experts.up_proj")
    assert rank_shape(up, Split(tensor_parallel=8)) == (256, 256, 2304)
    assert rank_shape(up, Split(tensor_parallel=8, expert_parallel=True)) == (32, 1024, 2304)


@pytest.mark.parametrize(
    ("name", "grows"),
    [("mamba-2.8b", 0), ("mamba-codestral-7b", 64), ("lfm2-1.2b", 0), ("kimi-linear-48b", 3 * 128)],
)
def test_a_convolution_keeps_a_column_for_each_speculative_token_where_the_engine_does(name: str, grows: int) -> None:
    (cache,) = _states(_named(name))
    assert cache.parts[0][0].grows_with_speculation == grows


def test_the_state_has_the_type_that_the_file_names() -> None:
    (named,) = _states(_named("nemotron-h-8b", mamba_ssm_cache_dtype="float16"))
    (default,) = _states(_named("nemotron-h-8b"))
    assert (named.parts[1][0].dtype_bytes, default.parts[1][0].dtype_bytes) == (2, 4)


def test_a_state_of_no_type_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="mamba_ssm_cache_dtype"):
        _named("nemotron-h-8b", mamba_ssm_cache_dtype="int3")


def test_layer_types_go_before_the_interval() -> None:
    types = ["linear_attention"] * 47 + ["full_attention"]
    facts = _named("Qwen/Qwen3-Next-80B-A3B-Instruct", layer_types=types)
    assert facts.order == (0,) * 47 + (1,)


def test_types_renamed_by_transformers_5_mean_the_same() -> None:
    renamed = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
    pattern = next(row for row in ROWS if row["name"] == "nemotron-h-8b")["config"]["hybrid_override_pattern"]
    types = [renamed[character] for character in pattern]
    facts = _named("nemotron-h-8b", hybrid_override_pattern=None, layers_block_type=types, num_hidden_layers=None)
    assert facts == _named("nemotron-h-8b")


def test_a_layer_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="'X'"):
        _named("nemotron-h-8b", hybrid_override_pattern="X" * 52)
    with pytest.raises(UnsupportedModel, match="hyena"):
        _named("granite-4.0-h-micro", layer_types=["hyena"] * 40)


@pytest.mark.parametrize(
    ("name", "field", "short"),
    [
        ("nemotron-h-8b", "hybrid_override_pattern", "M*"),
        ("granite-4.0-h-micro", "layer_types", ["mamba"]),
        ("kimi-linear-48b", "linear_attn_config", {"kda_layers": [1]}),
    ],
)
def test_a_pattern_that_is_too_short_is_refused_by_name(name: str, field: str, short: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        _named(name, **{field: short})


MINIMAX = {
    "architectures": ["MiniMaxText01ForCausalLM"],
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 0,
    "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
    "max_position_embeddings": 10240000,
    "vocab_size": 200064,
}


BAMBA = {
    "architectures": ["BambaForCausalLM"],
    "attn_layer_indices": [9, 18, 27],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 128,
    "max_position_embeddings": 262144,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}


def test_bamba_has_the_parameters_its_name_says() -> None:
    facts = _facts(BAMBA)
    assert sum(layers * weight.parameters for layers, weight in _weights(facts)) == pytest.approx(9.78e9, rel=0.001)
    assert facts.order.count(facts.order[9]) == 3


def test_minimax_text_01_has_the_parameters_its_report_names() -> None:
    facts = _facts(MINIMAX)
    total = sum(layers * weight.parameters for layers, weight in _weights(facts))
    assert total == pytest.approx(456e9, rel=0.002)
    assert facts.order.count(facts.order[0]) == 70
