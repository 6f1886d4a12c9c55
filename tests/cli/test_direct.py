"""A plain question makes the same request with a manifest and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plimsoll.adapters.catalog import catalogued_models
from plimsoll.cli.questions.asked import Asked, Question
from plimsoll.cli.questions.direct import direct_question
from plimsoll.cli.questions.estimate import question_for
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from tests.support.tables import every_case

MODEL = "Qwen/Qwen3-8B"

PLAIN = (
    Asked(context=4096, concurrency=3),
    Asked(precision="fp8", kv_precision="fp8"),
    Asked(precision="auto", kv_precision="auto", engine="0.19.1"),
    Asked(precision="fp16"),
    Asked(engine="0.31", utilization=85, batched_tokens=4096, eager=True),
    Asked(text_only=True, gpus=("h100-sxm-80gb",), split=Split(4, 2, expert_parallel=True)),
)


def _answer(ask: Callable[[str, Asked], Question | None], name: str, asked: Asked) -> Question | str | None:
    """The question, or the words of the refusal."""
    try:
        return ask(name, asked)
    except InvalidInput as error:
        return str(error)


@every_case("name", catalogued_models())
def test_every_catalogued_model_is_asked_for_as_by_a_manifest(name: str) -> None:
    assert direct_question(name, Asked()) == question_for(name, Asked())


@every_case("asked", PLAIN, ids=str)
@every_case("name", [MODEL, "Qwen/Qwen2.5-VL-7B-Instruct", "deepseek-ai/DeepSeek-V3"])
def test_every_plain_option_means_what_it_means_in_a_manifest(name: str, asked: Asked) -> None:
    assert name in catalogued_models()
    assert _answer(direct_question, name, asked) == _answer(question_for, name, asked)


@every_case(
    "asked",
    [
        Asked(context=100_000_001),
        Asked(concurrency=65_537),
        Asked(batched_tokens=1_048_577),
        Asked(precision="fp32"),
        Asked(precision="half"),
        Asked(kv_precision="half"),
        Asked(engine="newest"),
        Asked(engine="0.16.0", text_only=True),
        Asked(cpu_offload="8Gi"),
        Asked(lora=(4, 16)),
        Asked(speculate=("Ngram", 4)),
        Asked(draft="nobody/draft"),
        Asked(prompt=10),
        Asked(output=10),
    ],
    ids=str,
)
def test_what_a_manifest_might_refuse_is_left_to_it(asked: Asked) -> None:
    assert direct_question(MODEL, asked) is None
    assert direct_question(MODEL, Asked()) is not None


@pytest.mark.parametrize("name", ["nobody/model", "a" * 5000, "a\0b", ""], ids=["unknown", "long", "null", "empty"])
def test_a_name_that_nobody_catalogued_is_left_to_the_manifest(name: str) -> None:
    assert direct_question(name, Asked()) is None


def test_a_folder_of_the_name_of_a_catalogued_model_is_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert direct_question(MODEL, Asked()) is not None
    (tmp_path / MODEL).mkdir(parents=True)
    assert direct_question(MODEL, Asked()) is None
