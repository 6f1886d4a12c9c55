"""``plimsoll plan --fleet`` with PriorityClasses in the file of the fleet: those of the higher class come first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from testbed.fleet import gpu_node
from tests.cli.conftest import Run

CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: production}
value: 1000
"""


def manifest(name: str, priority_class: str | None = None) -> dict[str, Any]:
    template = {} if priority_class is None else {"podTemplate": {"priorityClassName": priority_class}}
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"model": {"name": "Qwen/Qwen2.5-7B-Instruct"}, "contextLength": 4096, "concurrency": 8, **template},
    }


def placed(run: Run, folder: Path, classes: str, *manifests: dict[str, Any]) -> tuple[int, dict[str, bool], str]:
    """The exit status, which objects get the only GPU, and the errors."""
    fleet, files = folder / "fleet.yaml", folder / "files.yaml"
    fleet.write_text(yaml.safe_dump(gpu_node("n0", "L40S", 1)) + classes)
    files.write_text(yaml.safe_dump_all(manifests))
    status, shown, said = run("plan", "-f", str(files), "--fleet", str(fleet), "-o", "json")
    return status, {entry["name"]: entry["placed"] for entry in json.loads(shown or "[]")}, said


def test_the_object_of_the_higher_class_gets_the_last_gpu_and_without_classes_the_first_one(
    run: Run, tmp_path: Path
) -> None:
    both = manifest("first"), manifest("second", "production")
    assert placed(run, tmp_path, "---" + CLASSES, *both)[:2] == (1, {"first": False, "second": True})
    assert placed(run, tmp_path, "", *both)[:2] == (1, {"first": True, "second": False})


def test_a_class_that_the_file_does_not_have_is_named_and_the_other_object_is_planned(run: Run, tmp_path: Path) -> None:
    status, served, said = placed(run, tmp_path, "---" + CLASSES, manifest("lost", "gold"), manifest("plain"))
    assert (status, served) == (2, {"plain": True})
    assert "InferenceDeployment team/lost: spec.podTemplate.priorityClassName: 'gold' cannot be used." in said
