"""``spec.engine.runner``: what arrives, and what is refused with field, value and fix."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts, Task
from tests.api.manifests import deployment
from tests.support.pooling import bge_m3, qwen3_embedding


@pytest.mark.parametrize(
    ("engine", "task"),
    [({}, Task.GENERATE), ({"runner": "Generate"}, Task.GENERATE), ({"runner": "Pooling"}, Task.POOL)],
)
def test_a_class_that_generates_pools_where_the_user_says_so(engine: dict[str, Any], task: Task) -> None:
    assert to_request(deployment(engine=engine), qwen3_embedding()).model.task is task


@pytest.mark.parametrize("engine", [{}, {"runner": "Pooling"}])
def test_an_encoder_pools_without_a_word(engine: dict[str, Any]) -> None:
    assert to_request(deployment(engine=engine), bge_m3()).model.task is Task.POOL


@pytest.mark.parametrize(
    ("model", "engine", "field", "fix"),
    [
        (bge_m3, {"runner": "Generate"}, "spec.engine.runner", "XLMRobertaModel does not generate: remove runner."),
        (bge_m3, {"version": "0.10.0"}, "spec.engine.version", "vLLM 0.10.0 does not support it: use 0.10.2 or newer."),
        (
            bge_m3,
            {"name": "sglang", "version": "0.5.15"},
            "spec.engine.version",
            "It is not supported with SGLang: set spec.engine.name to vllm.",
        ),
        (bge_m3, {"lora": {}}, "spec.engine.lora", "No law covers adapters of encoders; remove it."),
        (
            qwen3_embedding,
            {"runner": "Pooling", "speculation": {"method": "Ngram", "tokens": 2}},
            "spec.engine.speculation",
            "A model that pools drafts nothing: remove speculation.",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(model: Any, engine: dict[str, Any], field: str, fix: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        to_request(deployment(engine=engine), model())
    assert (refused.value.field, refused.value.fix) == (field, fix)


def test_an_older_release_still_generates() -> None:
    assert to_request(deployment(engine={"version": "0.10.0"}), qwen3_embedding()).model.task is Task.GENERATE


def _remarks(model: ModelFacts) -> str:
    return " ".join(model.remarks)


def test_a_name_that_speaks_of_embeddings_is_remarked_until_the_runner_is_named() -> None:
    assert "spec.engine.runner: Pooling" in _remarks(qwen3_embedding())
    served = to_request(deployment(engine={"runner": "Pooling"}), qwen3_embedding()).model
    assert "spec.engine.runner" not in _remarks(served)
    assert "spec.engine.runner" not in _remarks(bge_m3())
