"""The count of parameters against totals that others published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import FactsSource, ModelFacts, Sharding, Weight
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.refusals import count_parameters
from tests.support.tables import every_case

PUBLISHED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "parameter_totals.json").read_text())
PLAIN = [row for row in PUBLISHED if "stored_otherwise" not in row]
OTHERWISE = [row for row in PUBLISHED if "stored_otherwise" in row]


def _facts(row: dict[str, Any]) -> ModelFacts:
    return read_model_facts(row["name"], row["config"], revision=None, source=FactsSource.CATALOG)


def _named(name: str) -> ModelFacts:
    return _facts(next(row for row in PUBLISHED if row["name"] == name))


def _layer(facts: ModelFacts, layer: int = 0) -> dict[str, Weight]:
    return {weight.name: weight for weight in facts.kinds[facts.order[layer]].weights}


def _expert_matrices(facts: ModelFacts) -> int:
    """Elements of the experts' matrices in all layers, without biases."""
    per_kind = [
        sum(weight.parameters for weight in kind.weights if "experts." in weight.name and weight.inputs > 1)
        for kind in facts.kinds
    ]
    return sum(per_kind[kind] for kind in facts.order)


@every_case("row", PLAIN, ids=lambda row: row["name"])
def test_the_count_is_within_a_thousandth_of_the_published_total(row: dict[str, Any]) -> None:
    assert count_parameters(_facts(row)) == pytest.approx(row["total"], rel=0.001)


@pytest.mark.parametrize("row", OTHERWISE, ids=lambda row: row["name"])
def test_where_a_checkpoint_stores_something_else_the_difference_is_that_to_the_unit(row: dict[str, Any]) -> None:
    facts = _facts(row)
    table = facts.vocabulary * facts.hidden
    difference = {
        "tied output projection stored as well": table,
        "output projection left out": -table,
        "scales of the experts counted": _expert_matrices(facts) // 32,
    }[row["stored_otherwise"]]
    assert row["total"] - count_parameters(facts) == difference


def test_a_tied_output_projection_that_is_stored_as_well_is_taken_off_the_metadata_total() -> None:
    row = next(row for row in OTHERWISE if row["name"] == "Qwen/Qwen3-0.6B")
    facts = read_model_facts(row["name"], row["config"], revision=None, source=FactsSource.HUB, parameters=row["total"])
    assert facts.parameters == count_parameters(facts) == 596_049_920


def test_metadata_totals_of_quantized_checkpoints_are_not_kept() -> None:
    row = next(row for row in OTHERWISE if row["name"] == "openai/gpt-oss-20b")
    facts = read_model_facts(row["name"], row["config"], revision=None, source=FactsSource.HUB, parameters=row["total"])
    assert facts.parameters is None


def test_key_and_value_projections_are_split_by_their_heads_only() -> None:
    facts = _named("meta-llama/Llama-3.1-8B-Instruct")
    layer = _layer(facts)
    keys, values = layer["self_attn.k_proj"], layer["self_attn.v_proj"]
    assert keys.sharding is values.sharding is Sharding.HEADS
    assert (keys.units, keys.parameters) == (8, 4096 * 8 * 128)
    assert layer["self_attn.q_proj"].sharding is Sharding.OUTPUTS
    assert layer["mlp.down_proj"].sharding is Sharding.INPUTS
    assert layer["norm_0"].sharding is Sharding.REPLICATED
    assert [weight.sharding for weight in facts.embedding] == [Sharding.VOCABULARY]
    assert {weight.name: weight.sharding for weight in facts.head}["lm_head"] is Sharding.VOCABULARY


def test_only_linear_layers_are_quantized_at_load() -> None:
    layer = _layer(_named("Qwen/Qwen3-235B-A22B"))
    linear = {name for name, weight in layer.items() if weight.linear}
    experts = {f"mlp.experts.{name}_proj" for name in ("gate", "up", "down")}
    assert linear == {f"self_attn.{name}_proj" for name in "qkvo"} | experts
    assert layer["mlp.gate"].sharding is Sharding.REPLICATED


def test_biases_of_experts_and_sinks_are_counted() -> None:
    layer = _layer(_named("openai/gpt-oss-20b"))
    assert layer["mlp.experts.up_proj.bias"].parameters == 32 * 2880
    assert layer["mlp.experts.down_proj.bias"].parameters == 32 * 2880
    assert layer["self_attn.sinks"].parameters == 64
    assert not layer["mlp.experts.up_proj.bias"].linear


def test_a_shared_expert_and_its_gate_are_counted() -> None:
    layer = _layer(_named("Qwen/Qwen1.5-MoE-A2.7B"))
    assert layer["mlp.shared_expert.up_proj"].parameters == 5632 * 2048
    assert layer["mlp.gate"].parameters + layer["mlp.shared_expert_gate"].parameters == 60 * 2048 + 2048


def test_a_width_that_counts_gate_and_up_together_is_halved() -> None:
    layer = _layer(_named("Qwen/Qwen-7B-Chat"))
    assert layer["mlp.gate_proj"].outputs == layer["mlp.up_proj"].outputs == 22_016 // 2
    assert layer["self_attn.k_proj.bias"].parameters == 4096


def test_the_multimodal_variant_of_the_same_class_is_refused() -> None:
    config = next(row for row in PUBLISHED if row["name"] == "Qwen/Qwen-7B-Chat")["config"]
    with pytest.raises(UnsupportedModel, match="vision tower"):
        _facts({"name": "Qwen/Qwen-VL", "config": {**config, "visual": {"width": 1664}}})


def test_the_first_files_of_falcon_40b_name_their_key_value_heads_without_the_flag() -> None:
    config = next(row for row in PUBLISHED if row["name"] == "tiiuae/falcon-40b")["config"]
    early = {key: value for key, value in config.items() if key not in ("new_decoder_architecture", "num_kv_heads")}
    renamed = {**early, "architectures": ["RWForCausalLM"], "model_type": "RefinedWeb", "n_head_kv": 8}
    assert count_parameters(_facts({"name": "org/early", "config": renamed})) == count_parameters(
        _named("tiiuae/falcon-40b")
    )
