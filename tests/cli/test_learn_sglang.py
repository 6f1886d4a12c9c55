"""``plimsoll learn`` on logs of SGLang: against its own law, kept apart by engine and release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.units import GIB
from tests.cli.conftest import Run
from tests.support.sglang_logs import AT, QWEN3_06B_MI355X, QWEN3_32B, QWEN38_27B_H100, arguments, log
from tests.support.start_logs import figures_0_11_0, log_0_11_0

H100 = ("--gpu", "h100-sxm-80gb")
QWEN3_32B_LOG = log(arguments("Qwen/Qwen3-32B", context_length=40_960), *QWEN3_32B)


def row(document: Any, name: str) -> Any:
    return next(each for each in document["rows"] if each["name"] == name)


def learned(run: Run, text: str, *words: str) -> Any:
    status, out, err = run("learn", "-", "-o", "json", *words, stdin=text)
    assert status == 0, err
    return json.loads(out)


def refused(run: Run, text: str, *words: str) -> str:
    status, _, err = run("learn", "-", *words, stdin=text)
    assert status == 2
    return err


@pytest.mark.parametrize(
    ("text", "words", "weights", "tokens"),
    [
        (QWEN3_32B_LOG, (*H100, "--engine", "sglang:0.5.19"), 61.07, 39_078),
        (
            log(arguments("Qwen/Qwen3.8-27B-FP8", mem_fraction_static=0.85), *QWEN38_27B_H100),
            (*H100, "--engine", "0.5.20"),
            28.47,
            330_323,
        ),
        (
            log(
                arguments("Qwen/Qwen3-0.6B", mem_fraction_static=0.6, attention_backend="aiter"),
                *QWEN3_06B_MI355X,
            ),
            ("--gpu", "mi355x-288gb", "--engine", "0.5.20"),
            1.21,
            1_360_288,
        ),
    ],
    ids=["windows none, H100", "states", "aiter lowers the share"],
)
def test_a_public_start_is_inside_the_band_and_the_estimate_after_it_has_its_tokens(
    run: Run, text: str, words: tuple[str, ...], weights: float, tokens: int
) -> None:
    found = learned(run, text, *words)
    assert row(found, "KV tokens")["logged"] == tokens
    assert row(found, "KV tokens")["inside"]
    assert row(found, "weights")["logged"] == int(weights * GIB)
    assert found["lesson"]["after"]["kvCapacityTokens"]["expected"] == pytest.approx(tokens, rel=0.001)
    assert found["engine"]["name"] == "sglang"


def test_the_log_names_no_release_so_the_user_does(run: Run) -> None:
    assert "does not log its release: name it, e.g. --engine sglang:0.5.23" in refused(run, QWEN3_32B_LOG, *H100)
    assert "0.5.19 and later" in refused(run, QWEN3_32B_LOG, *H100, "--engine", "0.5.18")
    older = log(arguments("Qwen/Qwen3-32B", before_0_5_19=True), *QWEN3_32B)
    assert "before 0.5.19" in refused(run, older, *H100, "--engine", "0.5.23")
    assert learned(run, older, *H100, "--engine", "0.5.18")["lesson"] is not None
    assert "This is about SGLang" in refused(run, QWEN3_32B_LOG, *H100, "--engine", "vllm:0.32.0")


def test_a_share_that_nobody_names_is_asked_for(run: Run) -> None:
    text = log(arguments("Qwen/Qwen3-32B", mem_fraction_static=None), *QWEN3_32B)
    words = (*H100, "--engine", "0.5.23")
    assert "name --utilization" in refused(run, text, *words)
    assert row(learned(run, text, *words, "--utilization", "90"), "KV tokens")["inside"]


def test_another_gpu_than_the_one_of_the_log_teaches_nothing(run: Run) -> None:
    assert "78.47 GiB were free" in refused(run, QWEN3_32B_LOG, "--gpu", "a10g-24gb", "--engine", "0.5.23")
    larger = learned(run, QWEN3_32B_LOG, "--gpu", "h200-sxm-141gb", "--engine", "0.5.23")
    assert larger["lesson"] is None
    assert "it is another GPU, or something else held memory" in larger["why"]


@pytest.mark.parametrize("tokens", ["0", "-5"])
def test_a_server_that_serves_without_a_token_of_cache_teaches_nothing(run: Run, tokens: str) -> None:
    found = learned(run, QWEN3_32B_LOG.replace("39078", tokens), *H100, "--engine", "0.5.23")
    assert found["lesson"] is None
    assert f"{tokens} tokens of KV cache, and no engine serves without any" in found["why"]
    assert learned(run, QWEN3_32B_LOG, *H100, "--engine", "0.5.23")["lesson"] is not None


def test_a_logged_request_does_not_replace_the_start(run: Run) -> None:
    lines = log(arguments("stranger/model"), *QWEN3_32B).replace("39078", "7").replace("\n", " ")
    request = f"{AT} Receive: obj=GenerateReqInput(text='{lines.replace(AT, '')}')\n"
    words = (*H100, "--engine", "0.5.23")
    assert learned(run, QWEN3_32B_LOG + request, *words) == learned(run, QWEN3_32B_LOG, *words)


def test_a_log_without_its_end_or_its_figures_is_refused(run: Run) -> None:
    begun = log(arguments("Qwen/Qwen3-32B"), *QWEN3_32B[:2])
    assert "ends before" in refused(run, begun, *H100, "--engine", "0.5.23")
    assert "no start-up log of vLLM or SGLang" in refused(run, log(*QWEN3_32B), *H100, "--engine", "0.5.23")


def test_a_failed_start_says_by_how_much_it_missed(run: Run) -> None:
    """Qwen3-32B with a share of 0.7 on the card of the start above: 54.93 GiB for weights of 61.07."""
    words = (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.7. Raise "
        "--mem-fraction-static above 0.779 (minimum viable = 1 - available/pre = 0.7783)."
    )
    text = log(arguments("Qwen/Qwen3-32B", mem_fraction_static=0.7), *QWEN3_32B[:2], words)
    found = learned(run, text, *H100, "--engine", "0.5.23")
    assert found["failure"]["reason"] == "NoMemoryForKvCache"
    assert found["fit"] == "No"
    assert row(found, "KV cache")["logged"] == pytest.approx(-6.14 * GIB, abs=0.02 * GIB)


def test_a_saved_lesson_corrects_the_engine_and_release_that_it_is_of_and_no_other(run: Run, tmp_path: Path) -> None:
    fewer = QWEN3_32B_LOG.replace("39078", "30000")
    kept = str(tmp_path / "kept.json")
    learned(run, fewer, *H100, "--engine", "0.5.23", "--save", kept)

    def tokens(engine: str, *more: str) -> Any:
        asked = ("Qwen/Qwen3-32B", *H100, "--tp", "1", "--context-length", "8192", "--concurrency", "1")
        status, out, err = run("estimate", "-o", "json", *asked, "--engine", engine, *more)
        assert status == 0, err
        return json.loads(out)["answers"][0]["kvCapacityTokens"]

    for other in ("sglang:0.5.22", "vllm:0.32.0"):
        assert tokens(other, "--observations", kept) == tokens(other)
    corrected, usual = tokens("sglang:0.5.23", "--observations", kept), tokens("sglang:0.5.23")
    missing = (39_002 - 30_000) * 64 * 8 * 128 * 2 * 2
    cell = 64 * 8 * 128 * 2 * 2
    assert usual["expected"] - corrected["expected"] == pytest.approx(missing / cell, rel=0.02)


def test_of_two_engines_in_one_log_the_later_start_counts(run: Run) -> None:
    vllm = log_0_11_0(*figures_0_11_0(50)) + "\n"
    assert learned(run, vllm + QWEN3_32B_LOG, *H100, "--engine", "0.5.23")["engine"]["name"] == "sglang"
    assert learned(run, QWEN3_32B_LOG + vllm, *H100)["engine"]["name"] == "vllm"
