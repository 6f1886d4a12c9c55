"""The testbed's judge refuses the configurations that the engine itself refuses, in the engine's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plimsoll.adapters.catalog import catalogued_models
from testbed.judged_models import MODELS
from testbed.verdict import read_arguments, refused
from tests.engine.questions import start, starts
from tests.engine.recording import Recording
from tests.engine.rendered_starts import EVERY_MODEL_ON, card_of, published
from tests.support.planning import gpu


def commands(positions: int) -> Iterator[list[str]]:
    """Commands on both sides of each condition."""
    for length in (positions, positions + 1):
        yield ["--max-model-len", str(length), "--max-num-seqs", "1", "--max-num-batched-tokens", "2048"]
    for tokens in (255, 256):
        yield ["--max-model-len", "128", "--max-num-seqs", "256", "--max-num-batched-tokens", str(tokens)]


def test_what_the_judge_refuses_the_engine_refuses_and_nothing_else(recording: Recording) -> None:
    known = {name: model for name, model in MODELS.items() if name in published()}
    assert len(known) >= 3, sorted(set(MODELS) & set(catalogued_models()))
    asked: list[tuple[str, list[str]]] = [
        (name, words) for name, model in known.items() for words in commands(model.max_context)
    ]
    questions = [start(name, published()[name], card_of(gpu(EVERY_MODEL_ON)), words) for name, words in asked]
    said = {}
    for (name, words), answer in zip(asked, starts(recording, questions), strict=True):
        said[name, *words] = _judged(name, words), answer.get("error")
    wrong = {key: both for key, both in said.items() if not _agree(*both)}
    assert wrong == {}
    assert {judged is None for judged, _ in said.values()} == {True, False}


def _judged(name: str, words: list[str]) -> str | None:
    return refused(MODELS[name], read_arguments([name, *words]))


def _agree(judged: str | None, error: Any) -> bool:
    return error is None if judged is None else error is not None and judged in error
