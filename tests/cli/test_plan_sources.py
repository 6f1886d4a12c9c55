"""Options of ``plan`` and ``capacity`` that contradict each other: they are refused, or a note names the idle one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from testbed.fleet import gpu_node
from tests.cli.conftest import Run, deployments

MODEL = "Qwen/Qwen2.5-7B-Instruct"
COMMANDS = [("plan", "-f", "x.yaml"), ("capacity", MODEL)]


@pytest.fixture
def where(tmp_path: Path) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump(gpu_node("n0", "L40S", 2)), encoding="utf-8")
    return str(path)


def manifest(folder: Path, name: str, namespace: str | None = None) -> str:
    path = folder / f"{name}.yaml"
    body = {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": {"model": {"name": MODEL}, "contextLength": 4096, "concurrency": 8},
    }
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("file", ["--snapshot", "--fleet"])
@pytest.mark.parametrize("option", ["--context", "--kubeconfig"])
def test_a_cluster_and_a_file_exclude_each_other(
    run: Run, where: str, words: tuple[str, ...], file: str, option: str
) -> None:
    status, out, said = run(*words, file, where, option, where)
    assert (status, out) == (2, "")
    assert said == (
        f"error: {option}: {where!r} cannot be used. It names a cluster, and {file} replaces the cluster: "
        "leave one of them out.\n"
    )


def test_a_cluster_alone_is_asked(run: Run, tmp_path: Path) -> None:
    status, _, said = run("plan", "-f", manifest(tmp_path, "a"), "--context", "production")
    assert status == 2
    assert "replaces the cluster" not in said


@pytest.mark.parametrize("source", [("--snapshot", "absent.json"), ("--what-if", "+1 l4")], ids=lambda each: each[0])
def test_a_namespace_without_files_is_refused(run: Run, source: tuple[str, str]) -> None:
    status, _, said = run("plan", *source, "-n", "team")
    assert status == 2
    assert said.startswith("error: -n: 'team' cannot be used. It is for objects of -f that name no namespace")


def test_folders_below_without_files_are_refused(run: Run) -> None:
    status, _, said = run("plan", "--snapshot", "absent.json", "-R")
    assert (status, said.startswith("error: -R: True cannot be used. It is for folders that -f names")) == (2, True)


def test_node_groups_of_a_snapshot_are_those_of_the_operator(run: Run, where: str) -> None:
    status, _, said = run("plan", "--snapshot", "absent.json", "--node-groups", where)
    assert (status, "On a cluster and a snapshot those of the operator count" in said) == (2, True)


def test_with_a_fleet_the_namespace_is_for_objects_that_name_none(run: Run, where: str, tmp_path: Path) -> None:
    words = (
        "plan",
        "-f",
        manifest(tmp_path, "a"),
        "-f",
        manifest(tmp_path, "b", "own"),
        "--fleet",
        where,
        "-o",
        "json",
    )
    status, shown, said = run(*words, "-n", "team")
    assert (status, said) == (0, "")
    assert [(each["namespace"], each["name"]) for each in deployments(shown)] == [
        ("team", "a"),
        ("own", "b"),
    ]
    _, shown, _ = run(*words, "-n", "team", "--what-if", "a.replicas=1")
    assert [each["namespace"] for each in json.loads(shown)["changes"]] == ["team", "own"]
    _, shown, _ = run(*words)
    assert [each["namespace"] for each in deployments(shown)] == ["default", "own"]


@pytest.mark.parametrize("name", ["plan", "capacity"])
def test_a_namespace_without_effect_is_named_in_a_note(run: Run, where: str, tmp_path: Path, name: str) -> None:
    words = (name, "-f", manifest(tmp_path, "a", "own"), "--fleet", where)
    status, _, said = run(*words, "-n", "team")
    assert status == 0
    assert said == "note: -n team has no effect: every object of -f names its namespace (own).\n"
    assert run(*words, "-n", "own")[2] == run(*words)[2] == ""
    assert run(name, "-f", manifest(tmp_path, "b"), "--fleet", where, "-n", "team")[2] == ""


def test_capacity_takes_the_namespace_for_a_manifest_in_place_of_a_model(run: Run, where: str, tmp_path: Path) -> None:
    for name, namespace in ((manifest(tmp_path, "a"), "team"), (manifest(tmp_path, "b", "own"), "own")):
        status, shown, _ = run("capacity", name, "--fleet", where, "-n", "team", "-o", "json")
        assert (status, json.loads(shown)["namespace"]) == (0, namespace)
