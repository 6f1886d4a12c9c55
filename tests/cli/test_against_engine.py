"""``plimsoll estimate --against-engine``: two engines on one GPU type; what one refuses costs the other nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run
from tests.support.sglang_logs import QWEN3_32B, arguments, log

MODEL, H100 = "Qwen/Qwen3-8B", ("--gpu", "h100-sxm-80gb")
OTHER = ("--against-engine", "sglang:0.5.23")


def answers(run: Run, *words: str) -> Any:
    status, out, err = run("estimate", "-o", "json", *words)
    assert status == 0, err
    return json.loads(out)["answers"]


def test_the_other_engines_answer_is_that_of_a_question_about_it(run: Run) -> None:
    (alone,) = answers(run, MODEL, *H100, "--engine", "sglang:0.5.23")
    (both,) = answers(run, MODEL, *H100, *OTHER)
    other = both.pop("againstEngine")
    assert other["engine"] == {"name": "sglang", "version": "0.5.23"}
    assert other["kvCapacityTokens"] == alone["kvCapacityTokens"]["expected"]
    assert other["tpotSeconds"] == alone["performance"]["tpotSeconds"]["expected"]
    assert (other["fit"], other["validated"], other["tensorParallel"]) == (alone["fit"], False, 1)
    assert [both] == answers(run, MODEL, *H100), "the answer itself stays as it is"


def test_sentences_say_what_each_holds_and_which_is_ahead(run: Run) -> None:
    (found,) = answers(run, MODEL, *H100, *OTHER)
    own, other = found["kvCapacityTokens"]["expected"], found["againstEngine"]["kvCapacityTokens"]
    status, out, _ = run("estimate", MODEL, *H100, *OTHER)
    assert status == 0
    said = " ".join(out.split())
    assert f"vLLM 0.32.0 on h100-sxm-80gb x 1: fits, {own:,} KV tokens" in said
    assert f"SGLang 0.5.23 on h100-sxm-80gb x 1: fits, {other:,} KV tokens" in said
    assert "ms a token (not validated)" in said
    assert own > other
    assert f"vLLM 0.32.0 holds {100 * (own / other - 1):.0f} % more tokens than SGLang 0.5.23." in said


def test_several_gpu_types_get_a_table_with_two_rows_each(run: Run) -> None:
    status, out, _ = run("estimate", MODEL, *H100, "--gpu", "l4-24gb", *OTHER)
    assert status == 0
    rows = [line for line in out.splitlines() if "SGLang 0.5.23" in line]
    assert len(rows) == 2
    assert all("?" in row for row in rows), "its speed there is not validated"
    assert out.count("vLLM 0.32.0  ") == 2
    assert "SGLang" not in run("estimate", MODEL, *H100, "--gpu", "l4-24gb")[1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cpu-offload", "1Gi"), "spec.engine.cpuOffload: '1Gi' cannot be used"),
        (("--lora", "4", "16"), "spec.engine.lora: 4 cannot be used. SGLang gets no adapters"),
        (("--kv-precision", "int8"), "spec.kvCache.precision: 'int8' cannot be used"),
    ],
)
def test_what_the_other_engine_does_not_get_is_a_note(run: Run, words: tuple[str, ...], why: str) -> None:
    (found,) = answers(run, MODEL, *H100, *words, *OTHER)
    (alone,) = answers(run, MODEL, *H100, *words)
    assert found["againstEngine"] is None
    assert any(note.startswith("SGLang is not compared: ") and why in note for note in found["notes"])
    assert {**found, "againstEngine": 0, "notes": 0} == {**alone, "againstEngine": 0, "notes": 0}


NO_LAW = "deepseek-ai/DeepSeek-V4-Flash"
H200 = ("--gpu", "h200-sxm-141gb")


def test_an_engine_without_a_memory_law_for_the_model_is_a_note(run: Run) -> None:
    assert run("estimate", NO_LAW, *H200, "--engine", "sglang")[0] == 2
    (found,), (alone,) = answers(run, NO_LAW, *H200, *OTHER), answers(run, NO_LAW, *H200)
    (refusal,) = (note for note in found["notes"] if note.startswith("SGLang is not compared: "))
    assert NO_LAW in refusal
    assert {**found, "againstEngine": None, "notes": alone["notes"]} == {**alone, "againstEngine": None}


@pytest.mark.parametrize(
    ("model", "taken", "other"),
    [(NO_LAW, "vllm", None), ("Qwen/Qwen3-8B", "sglang", "vllm")],
    ids=["the preferred engine has no law", "the preferred engine is taken"],
)
def test_an_engine_is_compared_with_the_one_that_auto_takes(
    run: Run, tmp_path: Path, model: str, taken: str, other: str | None
) -> None:
    spec = {"model": {"name": model}, "contextLength": 8192, "concurrency": 4}
    spec |= {"engine": {"name": "auto", "prefer": ["sglang"]}}
    manifest = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": {"name": "chat"}}
    (tmp_path / "chat.yaml").write_text(yaml.safe_dump(manifest | {"spec": spec}))
    asked = ("-f", str(tmp_path / "chat.yaml"), *H200)
    (found,) = answers(run, *asked, "--against-engine", "sglang" if taken == "vllm" else "vllm")
    against = found["againstEngine"]
    assert (found["engine"]["name"], against and against["engine"]["name"]) == (taken, other)
    refused = any("SGLang is not compared: " in note and "prefer" not in note for note in found["notes"])
    assert refused == (other is None)
    status, _, err = run("estimate", *asked, "--against-engine", taken)
    assert status == 2
    assert "Name another engine than " in err


def test_a_manifest_from_standard_input_is_asked_of_both_engines(run: Run) -> None:
    spec = {"model": {"name": MODEL}, "contextLength": 8192, "concurrency": 4}
    manifest = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": {"name": "chat"}}
    for name, engine in (("vllm", "sglang"), ("sglang", "vllm")):
        text = yaml.safe_dump(manifest | {"spec": spec | {"engine": {"name": name}}})
        status, out, err = run("estimate", "-f", "-", *H100, "-o", "json", "--against-engine", engine, stdin=text)
        assert status == 0, err
        (found,) = json.loads(out)["answers"]
        assert (found["engine"]["name"], found["againstEngine"]["engine"]["name"]) == (name, engine)


def test_both_engines_know_what_engines_of_their_kind_have_taught(run: Run, tmp_path: Path) -> None:
    """The start has 9,000 tokens fewer than the real one, so that its lesson moves the figures."""
    kept, log_of = str(tmp_path / "kept.json"), arguments("Qwen/Qwen3-32B", context_length=40_960)
    fewer = log(log_of, *QWEN3_32B).replace("39078", "30000")
    status, _, err = run("learn", "-", *H100, "--engine", "0.5.23", "--save", kept, stdin=fewer)
    assert status == 0, err
    asked = ("Qwen/Qwen3-32B", *H100, "--tp", "1", "--context-length", "8192", "--concurrency", "1")

    def tokens(*words: str) -> Any:
        return answers(run, *asked, *words)[0]

    plain, lesson = tokens("--engine", "sglang"), ("--observations", kept)
    taught = tokens("--engine", "sglang", *lesson)["kvCapacityTokens"]["expected"]
    assert taught < plain["kvCapacityTokens"]["expected"]
    against = tokens("--against-engine", "sglang", *lesson)
    assert against["againstEngine"]["kvCapacityTokens"] == taught
    assert "learned" not in against
    assert not any("No engine of this kind" in note or "do not apply" in note for note in against["notes"])
    chosen = tokens("--engine", "auto", *lesson)
    (noted,) = (note for note in chosen["notes"] if "SGLang 0.5.23 on " in note)
    assert f" {taught:,} KV tokens" in noted


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (
            ("--against-engine", "slide-rule"),
            "than vLLM, with its release if you like: sglang:0.5.23.",
        ),
        (("--against-engine", "vllm:0.31.0"), "Name another engine than vLLM"),
        (("--engine", "sglang", "--against-engine", "sglang"), "Name another engine than SGLang"),
    ],
)
def test_an_engine_that_there_is_not_or_the_same_one_is_refused(run: Run, words: tuple[str, ...], field: str) -> None:
    status, _, err = run("estimate", MODEL, *H100, *words)
    assert status == 2
    assert "--against-engine" in err
    assert field in " ".join(err.split())


def test_a_command_is_of_one_engine_and_so_is_a_manifest(run: Run) -> None:
    status, _, err = run("estimate", *H100, *OTHER, "--", "vllm", "serve", MODEL)
    assert status == 2
    assert "--against-engine" in err
    status, out, err = run("estimate", MODEL, *H100, *OTHER, "-o", "manifest")
    assert status == 0
    assert "--against-engine is left out" in err
    assert "sglang" not in out
