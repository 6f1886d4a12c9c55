"""``plimsoll estimate --speculate`` and manifests that speculate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plimsoll.cli.main import cli, main
from tests.support.speculation import EAGLE_HEAD

MODEL = ("estimate", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h100-sxm-80gb", "--tp", "1")


def figures(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*MODEL, *words, "-o", "json"])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)["answers"]
    return dict(found)


@pytest.fixture
def head(tmp_path: Path) -> str:
    file = tmp_path / "head.json"
    file.write_text(json.dumps(EAGLE_HEAD))
    return str(file)


def test_a_head_costs_its_weights_and_one_layer_of_cache(head: str) -> None:
    plain, drafting = figures(), figures("--speculate", "eagle", "3", "--draft", head)
    # 51.63 GiB held 410,128 tokens of Llama 3.1 8B with an EAGLE head on one H100: 33 layers of 4,096 bytes.
    assert (plain["kvBytesPerToken"], drafting["kvBytesPerToken"]) == (32 * 4096, 33 * 4096)
    assert drafting["terms"]["weightsBytes"] - plain["terms"]["weightsBytes"] == pytest.approx(
        2 * 251_662_336, rel=0.01
    )


def test_a_prompt_drafts_without_weights_or_cache_but_graphs_cover_the_drafted_tokens() -> None:
    plain, drafting = figures(), figures("--speculate", "Ngram", "4")
    assert drafting["kvBytesPerToken"] == plain["kvBytesPerToken"]
    assert drafting["terms"]["weightsBytes"] == plain["terms"]["weightsBytes"]
    assert drafting["terms"]["cudaGraphsBytes"] > plain["terms"]["cudaGraphsBytes"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--draft", "org/head"), "Say how it drafts, e.g. --speculate Eagle 3"),
        (("--speculate", "Draft", "3"), "Name the head or the small model in draftModel"),
        (("--speculate", "Mtp", "1"), "has no multi-token-prediction layers"),
        (("--speculate", "Draft", "3", "--draft", "Qwen/Qwen2.5-0.5B-Instruct"), "151936"),
    ],
)
def test_what_cannot_be_is_said(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["plimsoll", *MODEL, *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
