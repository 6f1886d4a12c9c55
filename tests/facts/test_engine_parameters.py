"""Parameters of a rank against the engine: its own modules, built from the same configuration and counted.

Each row has the fields of one class that matter, and how many parameters vLLM's modules have on one rank by
tensor-parallel degree.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.models.model import Evidence, FactsSource, ModelFacts, Weight
from plimsoll.facts.models import model_class
from plimsoll.facts.models.architectures import ARCHITECTURES
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.weights import rank_shape
from tests.support.tables import every_case

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "engine_parameters.json").read_text())["rows"]
RANKS = [(row, int(degree)) for row in ROWS for degree in row["parameters"]]

LARGEST_DIFFERENCE = 2e-4
"""What classes fix in their code and no field tells: a bias here, a sub-layer's norm there."""

GUESSED_WITHIN = 0.01
GUESSED_SHARE = 0.85
"""Without its row, a class's configuration reads within a hundredth of its parameters; so in most classes."""


def _read(row: dict[str, Any]) -> ModelFacts:
    return read_model_facts("org/model", row["config"], revision=None, source=FactsSource.INLINE)


def _class(row: dict[str, Any]) -> str:
    return str(row["config"]["architectures"][0])


def _elements(weight: Weight, split: Split) -> int:
    count, outputs, inputs = rank_shape(weight, split)
    return count * outputs * inputs


def _on_one_rank(facts: ModelFacts, degree: int) -> int:
    split = Split(degree)
    kinds = [sum(_elements(weight, split) for weight in kind.weights) for kind in facts.kinds]
    outside = sum(_elements(weight, split) for weight in (*facts.embedding, *facts.head))
    return outside + sum(kinds[kind] for kind in facts.order)


@every_case(("row", "degree"), RANKS, ids=lambda value: _class(value) if isinstance(value, dict) else f"tp{value}")
def test_a_rank_holds_what_the_engine_s_modules_hold(row: dict[str, Any], degree: int) -> None:
    expected = row["parameters"][str(degree)]
    assert _on_one_rank(_read(row), degree) == pytest.approx(expected, rel=LARGEST_DIFFERENCE)


def test_most_classes_agree_to_the_unit() -> None:
    exact = [row for row in ROWS if _on_one_rank(_read(row), 1) == row["parameters"]["1"]]
    assert len(exact) >= 0.9 * len(ROWS)


def test_every_class_has_a_row_of_its_own() -> None:
    assert {_class(row) for row in ROWS} <= set(ARCHITECTURES)


def test_a_class_without_a_row_is_read_from_its_fields_and_errs_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_class, "ARCHITECTURES", {})
    guesses = [_guess(row) for row in ROWS]
    near = [
        guess
        for guess, row in zip(guesses, ROWS, strict=True)
        if guess is not None and _on_one_rank(guess, 1) == pytest.approx(row["parameters"]["1"], rel=GUESSED_WITHIN)
    ]
    assert {guess.evidence for guess in guesses if guess is not None} == {Evidence.GENERIC}
    assert len(near) >= GUESSED_SHARE * len(ROWS)


def _guess(row: dict[str, Any]) -> ModelFacts | None:
    """The model as its fields alone tell it, from a file that the usual library saved; None where that is refused."""
    try:
        return _read({"config": {"transformers_version": "5.0.0", **row["config"]}})
    except PlimsollError:
        return None
