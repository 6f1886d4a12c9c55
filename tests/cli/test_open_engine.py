"""``auto`` in ``estimate``, ``simulate`` and ``plan``: the same engine in each, with what the others offer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run, deployments

MODEL, L4 = "meta-llama/Llama-3.1-8B-Instruct", "l4-24gb"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOAD = ("--context-length", "1024", "--concurrency", "16")
"""16,384 tokens: on one L4 they fit beside vLLM, and not beside SGLang."""


def document(run: Run, *words: str) -> dict[str, Any]:
    status, out, err = run(*words, "-o", "json")
    assert status == 0, err
    return dict(json.loads(out))


def test_an_estimate_is_of_the_engine_that_does_best_and_says_what_the_others_offer(run: Run) -> None:
    place = (MODEL, "--gpu", L4, "--tp", "1", *LOAD)
    found = document(run, "estimate", *place, "--engine", "auto")
    fixed = {engine: document(run, "estimate", *place, "--engine", engine) for engine in ("vllm", "sglang")}
    assert [fixed[engine]["answers"][0]["fit"] for engine in fixed] == ["Sure", "No"]
    (answer,), (alone,) = found["answers"], fixed["vllm"]["answers"]
    first, second = answer["notes"]
    assert answer == alone | {"notes": [first, second]}
    assert answer["engine"]["name"] == "vllm"
    assert first.startswith("spec.engine.name auto: this is vLLM 0.32.0 on l4-24gb x 1: fits, ")
    assert second.startswith("Compared with SGLang 0.5.23 on l4-24gb x 1: does not fit, ")
    assert first.endswith(f", ${answer['hourlyPrice']:.2f}/h.")


def test_the_list_of_a_manifest_counts_where_something_fits(run: Run, tmp_path: Path) -> None:
    def engine_of(*prefer: str, concurrency: int) -> str:
        spec = {"model": {"name": MODEL}, "contextLength": 1024, "concurrency": concurrency}
        spec |= {"engine": {"name": "auto", "prefer": list(prefer)}}
        manifest = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment"}
        (tmp_path / "chat.yaml").write_text(yaml.safe_dump(manifest | {"metadata": {"name": "chat"}, "spec": spec}))
        status, out, err = run("estimate", str(tmp_path / "chat.yaml"), "--gpu", L4, "--tp", "1", "-o", "json")
        assert status == 0, err
        return str(json.loads(out)["answers"][0]["engine"]["name"])

    assert engine_of("sglang", concurrency=4) == "sglang"
    assert engine_of("vllm", concurrency=4) == "vllm"
    assert engine_of("sglang", concurrency=16) == "vllm"


def test_an_engine_that_is_named_replaces_the_choice_with_its_list(run: Run, tmp_path: Path) -> None:
    spec = {"model": {"name": MODEL}, "contextLength": 1024, "concurrency": 4}
    spec |= {"engine": {"name": "auto", "prefer": ["sglang"], "enforceEager": True}}
    manifest = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment"}
    (tmp_path / "chat.yaml").write_text(yaml.safe_dump(manifest | {"metadata": {"name": "chat"}, "spec": spec}))
    asked = ("estimate", "-f", str(tmp_path / "chat.yaml"), "--gpu", L4)
    alone = document(run, "estimate", MODEL, "--gpu", L4, "--context-length", "1024", "--concurrency", "4", "--eager")
    assert document(run, *asked, "--engine", "vllm")["answers"][0]["terms"] == alone["answers"][0]["terms"]
    assert document(run, *asked)["answers"][0]["engine"]["name"] == "sglang"


def test_an_option_that_one_engine_lacks_leaves_the_other_one(run: Run) -> None:
    found = document(run, "estimate", MODEL, "--gpu", L4, *LOAD, "--engine", "auto", "--cpu-offload", "1Gi")
    (answer,) = found["answers"]
    assert answer["engine"]["name"] == "vllm"
    assert any(note.startswith("SGLang does not take spec.engine.cpuOffload: '1Gi'. ") for note in answer["notes"])


def test_a_simulation_runs_the_engine_that_an_estimate_takes(run: Run) -> None:
    def tokens(engine: str) -> object:
        load = ("--gpu", "h100-sxm-80gb", "--minutes", "1", "--engine", engine)
        return document(run, "simulate", MODEL, *load)["input"]["kv_tokens"]

    assert tokens("auto") == tokens("vllm") != tokens("sglang")


def test_a_plan_says_why_and_the_neighbour_is_planned_as_ever(run: Run, tmp_path: Path) -> None:
    (usual,) = yaml.safe_load_all((EXAMPLES / "01-minimal" / "deployment.yaml").read_text())
    chosen = {"name": "auto", "prefer": ["sglang"]}
    mine = {**usual, "metadata": {"name": "chat"}, "spec": {**usual["spec"], "engine": chosen}}
    wrong = {**mine, "metadata": {"name": "wrong"}, "spec": {**mine["spec"], "engine": chosen | {"version": "0.5.23"}}}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([usual, mine, wrong]))
    named = {**mine, "spec": {**mine["spec"], "engine": {"name": "sglang"}}}
    (tmp_path / "named.yaml").write_text(yaml.safe_dump_all([usual, named]))
    words = ("--fleet", str(EXAMPLES / "fleet.yaml"), "-o", "json")
    status, out, err = run("plan", "-f", str(tmp_path / "all.yaml"), *words)
    assert status == 2
    assert "spec.engine.version: '0.5.23' cannot be used. It is about one engine, and spec.engine.name auto" in err
    found = {each["name"]: each for each in deployments(out)}
    engine = found["chat"]["engine"]
    assert (engine["name"], engine["version"], engine["reason"]) == ("sglang", "0.5.23", "Preferred")
    assert engine["message"] == "SGLang is listed in spec.engine.prefer, unlike vLLM, and has a place."
    assert "--model-path" in found["chat"]["engineArguments"]
    status, out, err = run("plan", "-f", str(tmp_path / "named.yaml"), *words)
    assert status == 0, err
    fixed = {each["name"]: each for each in deployments(out)}
    assert found[usual["metadata"]["name"]] == fixed[usual["metadata"]["name"]]
    assert {**found["chat"], "engine": None} == {**fixed["chat"], "engine": None}


@pytest.mark.parametrize(
    ("engine", "field", "fix"),
    [
        (
            {"prefer": ["sglang"]},
            "spec.engine.prefer",
            "engine.prefer is the order of the engines for engine.name auto",
        ),
        ({"name": "auto", "prefer": ["ollama"]}, "spec.engine.prefer", "no such engine; write one of vllm, sglang"),
        ({"name": "ollama"}, "spec.engine.name", "no such engine; write one of vllm, sglang, or auto"),
        ({"name": "auto", "image": "example.com/x:1"}, "spec.engine.image", "name the engine, or remove it."),
        ({"name": "auto", "gpuMemoryUtilizationPercent": 5}, "spec.engine.gpuMemoryUtilizationPercent", "10"),
    ],
    ids=str,
)
def test_a_wrong_choice_is_refused_with_field_value_and_fix(
    run: Run, tmp_path: Path, engine: dict[str, Any], field: str, fix: str
) -> None:
    (usual,) = yaml.safe_load_all((EXAMPLES / "01-minimal" / "deployment.yaml").read_text())
    wrong = {**usual, "metadata": {"name": "wrong"}, "spec": {**usual["spec"], "engine": engine}}
    (tmp_path / "both.yaml").write_text(yaml.safe_dump_all([usual, wrong]))
    status, out, err = run(
        "plan", "-f", str(tmp_path / "both.yaml"), "--fleet", str(EXAMPLES / "fleet.yaml"), "-o", "json"
    )
    assert status == 2
    assert field in err
    assert fix in err
    assert [each["placed"] for each in deployments(out)] == [True]


def test_room_is_counted_for_one_engine(run: Run, tmp_path: Path) -> None:
    (usual,) = yaml.safe_load_all((EXAMPLES / "01-minimal" / "deployment.yaml").read_text())
    chosen = {**usual, "spec": {**usual["spec"], "engine": {"name": "auto"}}}
    (tmp_path / "chat.yaml").write_text(yaml.safe_dump(chosen))
    status, _, err = run("capacity", "-f", str(tmp_path / "chat.yaml"), "--fleet", str(EXAMPLES / "fleet.yaml"))
    assert status == 2
    assert "spec.engine.name: 'auto' cannot be used. Replicas are counted for one engine: write vllm or sglang." in err
