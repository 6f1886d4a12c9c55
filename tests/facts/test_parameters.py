"""The count of parameters against totals that others published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.model import CheckpointFacts, FactsSource, ModelFacts
from plimsoll.domain.precision import Precision
from plimsoll.facts.config_json import read_model_facts
from plimsoll.facts.parameters import ParameterGroup, Sharding, count_parameters, parameter_groups

PUBLISHED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "parameter_totals.json").read_text())
PLAIN = [row for row in PUBLISHED if "stored_otherwise" not in row]
OTHERWISE = [row for row in PUBLISHED if "stored_otherwise" in row]


def _facts(row: dict[str, Any]) -> ModelFacts:
    return read_model_facts(row["name"], row["config"], revision=None, source=FactsSource.CATALOG)


def _groups(facts: ModelFacts) -> dict[str, ParameterGroup]:
    return {group.name: group for group in parameter_groups(facts)}


def _named(name: str) -> ModelFacts:
    return _facts(next(row for row in PUBLISHED if row["name"] == name))


@pytest.mark.parametrize("row", PLAIN, ids=lambda row: row["name"])
def test_the_count_is_within_a_thousandth_of_the_published_total(row: dict[str, Any]) -> None:
    assert count_parameters(_facts(row)) == pytest.approx(row["total"], rel=0.001)


@pytest.mark.parametrize("row", OTHERWISE, ids=lambda row: row["name"])
def test_where_a_checkpoint_stores_something_else_the_difference_is_that_to_the_unit(row: dict[str, Any]) -> None:
    facts = _facts(row)
    table = facts.vocabulary * facts.hidden
    experts = sum(group.parameters for group in parameter_groups(facts) if group.quantizable)
    difference = {
        "tied output projection stored as well": table,
        "output projection left out": -table,
        "scales of the experts counted": experts // 32,
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
    groups = _groups(_named("meta-llama/Llama-3.1-8B-Instruct"))
    assert groups["k_proj"].sharding is groups["v_proj"].sharding is Sharding.KV_HEADS
    assert groups["k_proj"].parameters == 32 * 4096 * 8 * 128
    assert groups["q_proj"].sharding is groups["down_proj"].sharding is Sharding.SHARDED
    assert groups["layer_norms"].sharding is Sharding.REPLICATED
    assert groups["embeddings"].sharding is groups["lm_head"].sharding is Sharding.VOCABULARY


def test_only_linear_layers_are_quantizable() -> None:
    groups = _groups(_named("Qwen/Qwen3-235B-A22B"))
    quantizable = {name for name, group in groups.items() if group.quantizable}
    experts = {"experts.gate_proj", "experts.up_proj", "experts.down_proj"}
    assert quantizable == {"q_proj", "k_proj", "v_proj", "o_proj"} | experts
    assert groups["router"].sharding is Sharding.REPLICATED


def test_mxfp4_leaves_attention_in_sixteen_bits() -> None:
    groups = _groups(_named("openai/gpt-oss-20b"))
    assert not groups["q_proj"].quantizable
    assert groups["experts.up_proj"].quantizable
    assert not groups["experts.up.bias"].quantizable
    assert groups["experts.down.bias"].sharding is Sharding.REPLICATED
    assert groups["sinks"].parameters == 24 * 64


def test_a_shared_expert_and_its_gate_are_counted() -> None:
    groups = _groups(_named("Qwen/Qwen1.5-MoE-A2.7B"))
    assert groups["shared_expert.up_proj"].parameters == 24 * 5632 * 2048
    assert groups["router"].parameters == 24 * (60 * 2048 + 2048)


def test_a_model_class_without_a_row_counts_like_llama() -> None:
    llama = _named("meta-llama/Llama-3.1-8B-Instruct")
    checkpoint = CheckpointFacts(Precision.FP8, Precision.BF16, quantizes_lm_head=True)
    other = ModelFacts(
        name="other",
        revision=None,
        architecture="SomethingElse",
        source=FactsSource.INLINE,
        layers=llama.layers,
        hidden=llama.hidden,
        heads=llama.heads,
        vocabulary=llama.vocabulary,
        intermediate=llama.intermediate,
        attention=llama.attention,
        checkpoint=checkpoint,
        max_context_tokens=4096,
    )
    assert count_parameters(other) == count_parameters(llama)
    assert _groups(other)["lm_head"].quantizable
