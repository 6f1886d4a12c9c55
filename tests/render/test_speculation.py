"""Speculative decoding on the engine's command line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.engines.engine_choice import Speculation
from plimsoll.engines.vllm.launch import engine_arguments
from plimsoll.facts.models.drafts import as_engine_head
from tests.render.workloads import chosen_pool, options
from tests.support.planning import ENGINE, model, request
from tests.support.speculation import EAGLE3_HEAD, EAGLE_HEAD, facts_of


def told(speculation: Speculation, **draft: Any) -> dict[str, Any]:
    """The one JSON object that the engine is given."""
    wanted = request(engine=replace(ENGINE, speculation=speculation))
    arguments = engine_arguments(options(**draft), chosen_pool(wanted)[1])
    (at,) = (index for index, word in enumerate(arguments) if word == "--speculative-config")
    found: dict[str, Any] = json.loads(arguments[at + 1])
    return found


def head_of(config: dict[str, Any]) -> Speculation:
    found = as_engine_head(facts_of(config))
    assert found is not None
    return Speculation(3, found[1], head=found[0])


def test_an_engine_that_does_not_speculate_is_told_nothing() -> None:
    assert "--speculative-config" not in engine_arguments(options(), chosen_pool()[1])


def test_a_method_without_a_draft_is_told_with_its_tokens_alone() -> None:
    assert told(Speculation(4)) == {"method": "ngram", "num_speculative_tokens": 4}
    assert told(Speculation(1, uses_predictor=True)) == {"method": "mtp", "num_speculative_tokens": 1}


def test_a_draft_model_is_named_with_its_revision() -> None:
    small = Speculation(5, model("meta-llama/Llama-3.2-1B-Instruct"))
    assert told(small, draft_source="org/small", draft_revision="abc") == {
        "method": "draft_model",
        "num_speculative_tokens": 5,
        "model": "org/small",
        "revision": "abc",
    }


@pytest.mark.parametrize(("config", "method"), [(EAGLE_HEAD, "eagle"), (EAGLE3_HEAD, "eagle3")])
def test_a_head_is_named_with_the_method_of_its_generation(config: dict[str, Any], method: str) -> None:
    assert told(head_of(config), draft_source="/models/head") == {
        "method": method,
        "num_speculative_tokens": 3,
        "model": "/models/head",
    }
