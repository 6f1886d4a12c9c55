"""A plain question makes the same request with a manifest and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plimsoll.adapters.catalog import catalogued_models
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.direct import direct_question
from plimsoll.cli.questions.estimate import question_for
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from tests.support.tables import every_case

MODEL = "Qwen/Qwen3-8B"

PLAIN = (
    TypedOptions(context_length=4096, concurrency=3),
    TypedOptions(precision="fp8", kv_precision="fp8"),
    TypedOptions(precision="auto", kv_precision="auto", engine="0.19.1"),
    TypedOptions(precision="fp16"),
    TypedOptions(engine="0.31", utilization=85, batched_tokens=4096, eager=True),
    TypedOptions(text_only=True, gpus=("h100-sxm-80gb",), split=Split(4, 2, expert_parallel=True)),
)


def _answer(
    ask: Callable[[str, TypedOptions], EstimateQuestion | None], name: str, asked: TypedOptions
) -> EstimateQuestion | str | None:
    """The question, or the words of the refusal."""
    try:
        return ask(name, asked)
    except InvalidInput as error:
        return str(error)


@every_case("name", catalogued_models())
def test_every_catalogued_model_is_asked_for_as_by_a_manifest(name: str) -> None:
    assert direct_question(name, TypedOptions()) == question_for(name, TypedOptions())


@every_case("asked", PLAIN, ids=str)
@every_case("name", [MODEL, "Qwen/Qwen2.5-VL-7B-Instruct", "deepseek-ai/DeepSeek-V3"])
def test_every_plain_option_means_what_it_means_in_a_manifest(name: str, asked: TypedOptions) -> None:
    assert name in catalogued_models()
    assert _answer(direct_question, name, asked) == _answer(question_for, name, asked)


@every_case(
    "asked",
    [
        TypedOptions(context_length=100_000_001),
        TypedOptions(concurrency=65_537),
        TypedOptions(batched_tokens=1_048_577),
        TypedOptions(precision="fp32"),
        TypedOptions(precision="half"),
        TypedOptions(kv_precision="half"),
        TypedOptions(engine="newest"),
        TypedOptions(engine="0.16.0", text_only=True),
        TypedOptions(cpu_offload="8Gi"),
        TypedOptions(lora=(4, 16)),
        TypedOptions(speculate=("Ngram", 4)),
        TypedOptions(draft="nobody/draft"),
        TypedOptions(prompt=10),
        TypedOptions(shared_prefix=10),
        TypedOptions(shared_percent=10),
        TypedOptions(output=10),
    ],
    ids=str,
)
def test_what_a_manifest_might_refuse_is_left_to_it(asked: TypedOptions) -> None:
    assert direct_question(MODEL, asked) is None
    assert direct_question(MODEL, TypedOptions()) is not None


@pytest.mark.parametrize("name", ["nobody/model", "a" * 5000, "a\0b", ""], ids=["unknown", "long", "null", "empty"])
def test_a_name_that_nobody_catalogued_is_left_to_the_manifest(name: str) -> None:
    assert direct_question(name, TypedOptions()) is None


def test_a_folder_of_the_name_of_a_catalogued_model_is_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert direct_question(MODEL, TypedOptions()) is not None
    (tmp_path / MODEL).mkdir(parents=True)
    assert direct_question(MODEL, TypedOptions()) is None
