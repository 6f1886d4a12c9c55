"""A second engine is asked about, planned, simulated and learned from by its name, and the usual one stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.manifest_options import with_options
from plimsoll.engines.registry import ENGINES
from tests.cli.conftest import Run, deployments
from tests.support.toy_engine import ABACUS

MODEL, GPU = "meta-llama/Llama-3.1-8B-Instruct", "h100-sxm-80gb"
PLACE = ("--gpu", GPU, "--tp", "1")
TERMS = ("weightsBytes", "kvCacheBytes", "activationsBytes", "cudaGraphsBytes", "overheadBytes", "marginBytes")
TOYS = {"weightsBytes", "kvCacheBytes"}
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one row that a second engine needs outside its folder."""
    monkeypatch.setitem(ENGINES, ABACUS.name, ABACUS)


def estimated(run: Run, *words: str) -> dict[str, Any]:
    """The figures of the only GPU type."""
    status, out, err = run("estimate", "-o", "json", *words)
    assert status == 0, err
    (found,) = json.loads(out)["answers"]
    return dict(found)


def counts(found: dict[str, Any]) -> set[str]:
    """The terms that are counted."""
    return {name for name in TERMS if found.get(name, 0) > 0}


def test_an_estimate_is_of_the_engine_that_is_named(run: Run) -> None:
    size = ("--context-length", "4096", "--concurrency", "4")
    toy = estimated(run, MODEL, *PLACE, *size, "--engine", "abacus:2.1")
    assert counts(toy["terms"]) == TOYS
    for usual in ((), ("--engine", "vllm"), ("--engine", "vllm:0.32.0"), ("--engine", "0.32.0")):
        assert estimated(run, MODEL, *PLACE, *size, *usual) == estimated(run, MODEL, *PLACE, *size)


@pytest.mark.parametrize(
    ("written", "option", "meant"),
    [
        ({}, "vllm", ("vllm", None)),
        ({"version": "0.30.0"}, "vllm", ("vllm", "0.30.0")),
        ({"version": "0.30.0"}, "0.31.0", (None, "0.31.0")),
        ({"version": "0.30.0"}, "sglang", ("sglang", "0.5.23")),
        ({"version": "0.30.0"}, "abacus", ("abacus", "1.0.0")),
        ({"name": "sglang", "version": "0.5.20"}, "sglang", ("sglang", "0.5.20")),
        ({"name": "sglang", "version": "0.5.20"}, "sglang:0.5.22", ("sglang", "0.5.22")),
        ({"name": "sglang", "version": "0.5.20"}, "vllm", ("vllm", "0.32.0")),
    ],
    ids=str,
)
def test_an_engine_that_replaces_another_does_not_keep_its_release(
    written: dict[str, str], option: str, meant: tuple[str | None, str | None]
) -> None:
    found = with_options({"engine": written}, TypedOptions(engine=option))["engine"]
    assert (found.get("name"), found.get("version")) == meant


def test_a_command_is_that_of_the_engine_which_it_starts(run: Run) -> None:
    words = ("abacus", "serve", "--weights", MODEL, "--longest", "4096", "--slots", "4")
    toy = estimated(run, *PLACE[:2], "--engine", "2.1", "--concurrency", "4", "--", *words)
    load = ("--context-length", "4096", "--concurrency", "4")
    asked = estimated(run, MODEL, *PLACE, *load, "--engine", "abacus:2.1", "--utilization", "90")
    assert toy["terms"] == asked["terms"]
    status, _, err = run("estimate", "--gpu", GPU, "--engine", "vllm:0.32.0", "--", *words)
    assert status == 2
    assert "This is about Abacus: name a release of it, or leave it out." in err
    usual = estimated(run, *PLACE[:2], "--", "vllm", "serve", MODEL, "--max-model-len", "4096")
    assert counts(usual["terms"]) == set(TERMS)


def test_a_pod_is_that_of_the_engine_which_its_image_runs(run: Run, tmp_path: Path) -> None:
    container = {"name": "engine", "image": "example.com/abacus:2", "args": ["--weights", MODEL, "--longest", "4096"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "toy"}, "spec": {"containers": [container]}}
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    found = estimated(run, "-f", str(tmp_path / "pod.yaml"), *PLACE[:2], "--engine", "2.1")
    assert counts(found["terms"]) == TOYS


def test_a_plan_places_each_object_with_its_own_engine(run: Run, tmp_path: Path) -> None:
    (usual,) = yaml.safe_load_all((EXAMPLES / "01-minimal" / "deployment.yaml").read_text())
    toy = {
        **usual,
        "metadata": {"name": "toy"},
        "spec": {**usual["spec"], "engine": {"name": "abacus", "version": "2.1"}},
    }
    (tmp_path / "both.yaml").write_text(yaml.safe_dump_all([usual, toy]))
    status, out, err = run(
        "plan", "-f", str(tmp_path / "both.yaml"), "--fleet", str(EXAMPLES / "fleet.yaml"), "-o", "json"
    )
    assert status == 0, err
    found = {each["name"]: each for each in deployments(out)}
    assert counts(found["toy"]["estimate"]) == TOYS
    assert counts(found["llama-8b"]["estimate"]) == set(TERMS)


def test_a_load_is_simulated_on_the_engine_that_is_named(run: Run) -> None:
    def capacity(*engine: str) -> object:
        status, out, err = run("simulate", MODEL, "--gpu", GPU, "--minutes", "1", "-o", "json", *engine)
        assert status == 0, err
        return json.loads(out)["input"]["kv_tokens"]

    assert capacity("--engine", "vllm:0.32.0") == capacity()
    assert capacity("--engine", "abacus:2.1") != capacity()


def test_a_log_is_read_by_the_engine_that_wrote_it(run: Run) -> None:
    log = f"starting\nabacus 2.1: {MODEL} holds 400000 tokens\nready\n"
    status, out, err = run("learn", "-", "--gpu", GPU, "-o", "json", stdin=log)
    assert status == 0, err
    assert json.loads(out)["engine"] == {"name": "abacus", "build": "2.1", "version": "2.1.0"}
    status, _, err = run("learn", "-", "--gpu", GPU, "--engine", "vllm:0.32.0", stdin=log)
    assert status == 2
    assert "This is about Abacus" in err
    status, _, err = run("learn", "-", "--gpu", GPU, stdin="nothing\n")
    assert status == 2
    assert "no start-up log of vLLM or SGLang or Abacus" in err


@pytest.mark.parametrize(
    ("named", "fix"),
    [
        (
            "slide-rule:1.0",
            "Write a release, or an engine and its release: 0.32.0, vllm:0.32.0, sglang:0.5.23, abacus:1.0.0.",
        ),
        ("abacus:0.5", "Use 1.0.0 or newer"),
    ],
)
def test_an_engine_that_cannot_be_meant_is_refused_with_the_fix(run: Run, named: str, fix: str) -> None:
    status, _, err = run("estimate", MODEL, *PLACE, "--engine", named)
    assert status == 2
    assert fix in err
