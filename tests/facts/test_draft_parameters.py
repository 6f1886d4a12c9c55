"""Parameters of drafts against the engine: its own modules of EAGLE heads and of prediction layers, counted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import DraftMethod
from plimsoll.domain.models.model import FactsSource, ModelFacts, Weight
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.drafts import as_engine_head
from plimsoll.memory.weights import rank_shape
from tests.support.tables import every_case

ROWS: dict[str, dict[str, Any]] = {
    row["name"]: row
    for row in json.loads((Path(__file__).parent / "data" / "draft_parameters.json").read_text())["rows"]
}
RANKS = [(name, int(degree)) for name, row in ROWS.items() for degree in row["parameters"]]
EAGLE = "an EAGLE head of Llama 3.1 8B"
EAGLE3 = "an EAGLE-3 head of Llama 3.1 8B"


def _read(config: dict[str, Any], name: str = "org/draft") -> ModelFacts:
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE)


def _head(config: dict[str, Any], name: str = "org/draft") -> tuple[DraftMethod, ModelFacts]:
    found = as_engine_head(_read(config, name))
    assert found is not None
    return found


def _own_weights(row: dict[str, Any]) -> Iterable[Weight]:
    if row["draft"] == "predictor":
        return [weight for kind in _read(row["config"]).predictor for weight in kind.weights]
    _, head = _head(row["config"])
    layers = [weight for kind in head.order for weight in head.kinds[kind].weights]
    return [*head.embedding, *layers, *head.head]


def _elements(weight: Weight, degree: int) -> int:
    count, outputs, inputs = rank_shape(weight, Split(degree))
    return count * outputs * inputs


@every_case(("name", "degree"), RANKS)
def test_a_rank_holds_of_the_draft_what_the_engine_s_modules_hold(name: str, degree: int) -> None:
    row = ROWS[name]
    assert sum(_elements(weight, degree) for weight in _own_weights(row)) == row["parameters"][str(degree)]


def test_the_generation_is_that_of_the_class() -> None:
    assert _head(ROWS[EAGLE]["config"])[0] is DraftMethod.EAGLE
    assert _head(ROWS[EAGLE3]["config"])[0] is DraftMethod.EAGLE3


def test_a_plain_class_is_a_head_of_the_generation_that_its_name_tells() -> None:
    config = ROWS[EAGLE]["config"]
    method, head = _head(config, "org/EAGLE3-Llama-8B")
    assert (method, head.architecture) == (DraftMethod.EAGLE3, "Eagle3LlamaForCausalLM")
    (projection,) = head.embedding
    assert (projection.outputs, projection.inputs) == (4096, 3 * 4096)


def test_a_head_that_lists_its_layers_or_needs_none_says_so_in_its_section() -> None:
    config = ROWS[EAGLE3]["config"]
    (projection,) = _read(config | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 16]}}).embedding
    assert projection.inputs == 2 * 4096
    assert _read(config | {"eagle_config": {"use_aux_hidden_state": False}}).embedding == ()


def test_a_head_whose_target_is_wider_reads_the_target_s_width() -> None:
    (projection,) = _read(ROWS[EAGLE3]["config"] | {"target_hidden_size": 8192}).embedding
    assert (projection.outputs, projection.inputs) == (4096, 3 * 8192)


def test_a_head_of_a_class_without_one_in_the_engine_is_none() -> None:
    assert as_engine_head(_read(ROWS[EAGLE]["config"] | {"architectures": ["Qwen2ForCausalLM"]})) is None


def test_the_predictor_of_mimo_v2_slides_as_its_local_layers_do() -> None:
    (kind,) = _read(ROWS["XiaomiMiMo/MiMo-V2-Flash"]["config"]).predictor
    (cache,) = kind.caches
    assert cache.window_tokens == 128  # type: ignore[union-attr]
