"""Models that do not generate: encoders, embeddings, rerankers and reward models, against the engine's own modules."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import FactsSource, ModelFacts, Task
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.weights import rank_shape
from tests.support.tables import every_case

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "engine_pooling.json").read_text())["rows"]
RANKS = [(row["name"], int(degree)) for row in ROWS for degree in row["parameters"]]

WITHIN = 2e-5
"""One norm of ModernBERT's first layer."""

ENCODERS = {"bert", "bert-seq", "bert-tok", "xlmr", "xlmr-seq", "roberta-mlm", "roberta-tok", "nomic"}
ENCODERS |= {"modern", "modern-seq", "modern-tok", "qwen2-both", "gemma3"}


def _row(name: str) -> dict[str, Any]:
    return next(row for row in ROWS if row["name"] == name)


def _facts(name: str, **changes: object) -> ModelFacts:
    config = {**_row(name)["config"], **changes}
    return read_model_facts("org/model", config, revision=None, source=FactsSource.INLINE)


def _on_one_rank(facts: ModelFacts, degree: int) -> int:
    split = Split(degree)
    kinds = [sum(math.prod(rank_shape(weight, split)) for weight in kind.weights) for kind in facts.kinds]
    outside = sum(math.prod(rank_shape(weight, split)) for weight in (*facts.embedding, *facts.head))
    return outside + sum(kinds[kind] for kind in facts.order)


@every_case(("name", "degree"), RANKS)
def test_a_rank_holds_what_the_engine_s_modules_hold(name: str, degree: int) -> None:
    expected = _row(name)["parameters"][str(degree)]
    assert _on_one_rank(_facts(name), degree) == pytest.approx(expected, rel=WITHIN)


@every_case("name", [row["name"] for row in ROWS])
def test_all_of_them_pool_and_have_no_output_projection(name: str) -> None:
    facts = _facts(name)
    assert facts.task is Task.POOL
    assert "lm_head" not in {weight.name for weight in facts.head}


@every_case("name", [row["name"] for row in ROWS])
def test_only_those_that_read_in_both_directions_keep_no_cache(name: str) -> None:
    assert _facts(name).keeps_cache is (name not in ENCODERS)


def test_the_same_layers_with_an_output_projection_generate() -> None:
    facts = _facts("qwen3-untied", architectures=["Qwen3ForCausalLM"])
    assert (facts.task, facts.keeps_cache) == (Task.GENERATE, True)
    assert "lm_head" in {weight.name for weight in facts.head}


def test_heads_are_in_32_bits() -> None:
    assert {weight.storage for weight in _facts("llama-seq").head if weight.name == "score"} == {FP32}


@pytest.mark.parametrize(("labels", "rows"), [({"num_labels": 5}, 5), ({"id2label": {"0": "a", "1": "b"}}, 2)])
def test_the_number_of_labels_is_read(labels: dict[str, object], rows: int) -> None:
    facts = _facts("llama", architectures=["LlamaForSequenceClassification"], **labels)
    assert next(weight.outputs for weight in facts.head if weight.name == "score") == rows


def test_positions_behind_padding_are_no_part_of_the_context() -> None:
    assert _facts("xlmr").max_context_tokens == 8192
    assert _facts("bert").max_context_tokens == 512


@pytest.mark.parametrize(
    "listed", ["DistilBertModel", "BertForMaskedLM", "NewModel", "UnheardOfForSequenceClassification"]
)
def test_unknown_encoders_are_refused_and_not_read_as_decoders(listed: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"{listed}: it does not generate"):
        _facts("bert", architectures=[listed])


def test_an_unknown_class_that_generates_is_still_read() -> None:
    assert _facts("llama", architectures=["UnheardOfForCausalLM"]).task is Task.GENERATE


def test_an_encoder_with_experts_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="experts in an encoder"):
        _facts("nomic", num_experts=8)
    assert not _facts("nomic", num_experts=0).keeps_cache
