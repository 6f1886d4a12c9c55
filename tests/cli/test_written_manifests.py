"""``plimsoll estimate -o manifest`` and ``plimsoll init``: manifests that the other commands take."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.api.bounds import OBJECTIVES, USUAL_OBJECTIVE
from plimsoll.api.crd.rules import check_rules
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1.spec import ObjectiveChoice
from plimsoll.cli.questions.written_manifest import object_name
from tests.cli.conftest import Run, deployments
from tests.support.alone import ROOT
from tests.support.model_configs import CONFIGS

QWEN = "Qwen/Qwen3-8B"
FLEET = str(ROOT / "examples" / "fleet.yaml")

QUESTIONS = {
    "a model": (QWEN,),
    "a load": (QWEN, "--context-length", "4096", "--concurrency", "4", "--tp", "2"),
    "formats": (QWEN, "--precision", "fp8", "--kv-precision", "fp8", "--engine", "0.31.0"),
    "an expected load": (QWEN, "--prompt", "900", "--output-tokens", "200"),
    "settings of the engine": (QWEN, "--utilization", "85", "--batched-tokens", "4096", "--eager", "--lora", "2", "16"),
    "a model with a short context": (str(CONFIGS / "Qwen__Qwen2.5-0.5B.json"), "--concurrency", "2"),
    "a configuration": (str(CONFIGS / "Qwen__Qwen2.5-7B-Instruct.json"),),
    "a manifest": (str(ROOT / "examples" / "03-long-context" / "deployment.yaml"), "--concurrency", "2"),
}


@pytest.mark.parametrize("gpu", ["h100-sxm-80gb", "l40s-48gb"])
@pytest.mark.parametrize("case", QUESTIONS)
def test_a_plan_of_the_manifest_needs_what_the_estimate_says(run: Run, tmp_path: Path, case: str, gpu: str) -> None:
    words = ("estimate", *QUESTIONS[case], "--gpu", gpu)
    status, text, said = run(*words, "-o", "manifest")
    assert status == 0, said
    body = yaml.safe_load(text)
    parse_inference_deployment(body)
    check_rules(body)
    file = tmp_path / "written.yaml"
    file.write_text(text, encoding="utf-8")
    (answer,), (again,) = (answers(run, *each) for each in (words, ("estimate", str(file), "--gpu", gpu)))
    degree = answer["tensorParallel"]
    assert needs(answer) == needs(again)
    (entry,) = deployments(run("plan", "-f", "-", "--fleet", FLEET, "-o", "json", stdin=text)[1])
    if "estimate" not in entry:
        assert answer["fit"] != "Sure" or entry["reason"] != "NoGpuFits", degree
        return
    chosen, engine = entry["estimate"], entry["placement"]["engine"]
    same = ("--tp", str(chosen["tensorParallel"]), "--max-num-seqs", str(engine["maxNumSeqs"]))
    (of_choice,) = answers(run, "estimate", *without_degree(QUESTIONS[case]), "--gpu", gpu, *same)
    assert (chosen["gpuType"], chosen["computedBytes"]) == (gpu, of_choice["bandBytes"]["high"])
    assert chosen["budgetBytes"] == of_choice["budgetBytes"]


def answers(run: Run, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*words, "-o", "json")[1])["answers"]
    return found


def needs(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        name: answer.get(name) for name in ("terms", "bandBytes", "budgetBytes", "kvCapacityTokens", "tensorParallel")
    }


def without_degree(words: tuple[str, ...]) -> tuple[str, ...]:
    at = words.index("--tp") if "--tp" in words else len(words)
    return (*words[:at], *words[at + 2 :])


@pytest.mark.parametrize(
    "words",
    [
        ("--", "vllm", "serve", QWEN),
        (QWEN, "--tp", "2", "--pp", "2"),
    ],
    ids=["a command", "stages"],
)
def test_what_no_manifest_can_say_is_refused(run: Run, words: tuple[str, ...]) -> None:
    status, out, said = run("estimate", "-o", "manifest", *words)
    assert (status, out) == (2, "")
    assert said.splitlines()[-1].startswith("error: -o: 'manifest' cannot be used. ")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (QWEN, "qwen3-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3-1-8b-instruct"),
        ("someone/7B_model", "model-7b-model"),
        ("x/" + "Long-" * 30, "long-long-long-long-long-long-long-long"),
    ],
)
def test_an_object_is_named_after_its_model(model: str, name: str) -> None:
    assert object_name(model) == name


def test_the_words_of_the_goal_are_those_of_the_api() -> None:
    assert tuple(ObjectiveChoice) == OBJECTIVES
    assert USUAL_OBJECTIVE in OBJECTIVES


class TestInit:
    def test_options_answer_without_a_terminal(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "qwen.yaml"
        words = ("--context-length", "4096", "--concurrency", "3", "--objective", "Batch", "--name", "chat")
        status, out, said = run("init", QWEN, *words, "--save", str(file))
        assert (status, said) == (0, "")
        assert f"plimsoll plan -f {file}" in out
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert body["metadata"] == {"name": "chat"}
        assert body["spec"] == {
            "model": {"name": QWEN}, "contextLength": 4096, "concurrency": 3, "objective": "Batch"
        }  # fmt: skip
        assert run("plan", "-f", str(file), "--fleet", FLEET)[0] == 0

    def test_no_file_is_overwritten(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "deployment.yaml"
        file.write_text("mine", encoding="utf-8")
        status, _, said = run("init", QWEN, "--save", str(file))
        assert (status, "nothing is overwritten" in said, file.read_text("utf-8")) == (2, True, "mine")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "The model is missing"),
            ((QWEN, "--context-length", "999999"), "spec.contextLength: 999999 cannot be used. Qwen/Qwen3-8B has"),
            ((QWEN, "--concurrency", "70000"), "spec.concurrency: 70000 cannot be used"),
            ((QWEN, "--name", "No Name"), "metadata.name: 'No Name' cannot be used"),
            (("no model",), "spec.model.name: 'no model' cannot be used"),
        ],
        ids=["nothing", "context", "concurrency", "name", "model"],
    )  # fmt: skip
    def test_what_cannot_be_used_is_refused_as_the_api_server_would(
        self, run: Run, tmp_path: Path, words: tuple[str, ...], said: str
    ) -> None:
        status, _, heard = run("init", *words, "--save", str(tmp_path / "x.yaml"))
        assert (status, said in heard, list(tmp_path.glob("*.yaml"))) == (2, True, []), heard

    def test_in_a_terminal_four_questions_are_asked_and_a_bad_answer_again_with_the_reason(
        self, tmp_path: Path
    ) -> None:
        typed = ("no model", QWEN, "many", "1,000,000", "8,192", "4", "Fast", "Interactive")
        status, said = at_a_terminal(tmp_path, typed, "init", "--save", "mine.yaml")
        assert status == 0, said
        body: Any = yaml.safe_load((tmp_path / "mine.yaml").read_text(encoding="utf-8"))
        assert body["spec"] == {
            "model": {"name": QWEN}, "contextLength": 8192, "concurrency": 4, "objective": "Interactive"
        }  # fmt: skip
        assert re.findall(r"error: (spec\.\w+(?:\.name)?): ", said) == [
            "spec.model.name", "spec.contextLength", "spec.contextLength", "spec.objective"
        ]  # fmt: skip


def at_a_terminal(folder: Path, typed: tuple[str, ...], *words: str) -> tuple[int, str]:
    """Run the command with a terminal for its input. Return its status and what it says."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, "".join(f"{line}\n" for line in typed).encode())
        ran = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "plimsoll", *words],
            cwd=folder, stdin=theirs, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return ran.returncode, ran.stderr
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_long_says_so_on_a_terminal_alone(terminal: bool) -> None:  # noqa: FBT001 - a parameter
    words = ("simulate", QWEN, "--gpu", "h100-sxm-80gb", "--minutes", "1")
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    try:
        ran = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "plimsoll", *words], cwd=ROOT, check=True, text=True, timeout=120,
            stdout=subprocess.PIPE, stderr=theirs if terminal else subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )  # fmt: skip
        said = os.read(ours, 100_000).decode() if terminal else ran.stderr
    finally:
        os.close(ours)
        os.close(theirs)
    assert ("simulating 1 min of requests" in said) is terminal
    assert "simulating" not in ran.stdout
