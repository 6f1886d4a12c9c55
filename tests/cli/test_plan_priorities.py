"""``plimsoll plan --fleet`` with PriorityClasses in the file of the fleet: who comes first, and who gives way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.fleet import gpu_node
from tests.cli.conftest import Run, deployments

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
    return (
        status,
        {entry["name"]: entry["placed"] for entry in deployments(shown)},
        said,
    )


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


LOW_CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: spare}
value: -10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: polite}
value: 100
preemptionPolicy: Never
"""


def balloon(priority: int) -> str:
    """A pod that holds the only GPU of the node."""
    requests = {"nvidia.com/gpu": "1", "cpu": "1"}
    spec = {"nodeName": "n0", "priority": priority, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return yaml.safe_dump({"kind": "Pod", "metadata": {"name": "b", "namespace": "balloon"}, "spec": spec})


@pytest.mark.parametrize(
    ("priority", "name", "is_served"),
    [
        pytest.param(-10, None, True, id="it gives way"),
        pytest.param(-10, "spare", False, id="to no equal"),
        pytest.param(-10, "polite", False, id="to none that waits"),
        pytest.param(0, None, False, id="a neighbour stays"),
        pytest.param(0, "polite", False, id="a neighbour stays, whatever the priority is"),
    ],
)
def test_a_placeholder_gives_way_to_a_higher_priority(
    run: Run, tmp_path: Path, priority: int, name: str | None, *, is_served: bool
) -> None:
    classes = "---" + LOW_CLASSES + "---\n" + balloon(priority)
    assert placed(run, tmp_path, classes, manifest("one", name))[1] == {"one": is_served}


def test_a_placeholder_that_does_not_give_way_to_all_is_held_for_all(run: Run, tmp_path: Path) -> None:
    classes = "---" + LOW_CLASSES + "---\n" + balloon(-10)
    both = manifest("one"), manifest("two", "spare")
    assert placed(run, tmp_path, classes, *both)[1] == {"one": False, "two": False}
