"""``--fleet`` with ResourceQuotas in the file: a namespace gets what they leave, as on the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll import __version__
from plimsoll.app.exports.document import Export, text_of
from testbed.fleet import gpu_node
from tests.cli.conftest import Run, deployments

GPUS = "requests.nvidia.com/gpu"
MODEL = "Qwen/Qwen2.5-7B-Instruct"


def manifest(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": {"name": MODEL}, "contextLength": 4096, "concurrency": 8, **spec},
    }


def quota(hard: dict[str, Any], used: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": "bound"},
        "spec": {"hard": hard, **fields},
        "status": {"hard": hard, "used": used or {}},
    }


def fleet(folder: Path, *objects: dict[str, Any], as_list: bool = False) -> str:
    """The file of a node with four GPUs and these objects: YAML documents, or a List as kubectl writes it."""
    path, bodies = folder / "fleet.yaml", [gpu_node("n0", "L40S", 4), *objects]
    listed = [{"apiVersion": "v1", "kind": "List", "items": bodies}] if as_list else bodies
    path.write_text(yaml.safe_dump_all(listed))
    return str(path)


def files(folder: Path, *manifests: dict[str, Any]) -> str:
    path = folder / "files.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)


def planned(run: Run, filename: str, where: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    status, shown, said = run("plan", "-f", filename, "--fleet", where, "-o", "json")
    return (
        status,
        {entry["namespace"]: entry for entry in deployments(shown)},
        said,
    )


@pytest.mark.parametrize("as_list", [False, True], ids=["documents", "List"])
def test_a_used_up_quota_binds_its_namespace_with_figures_and_fix_and_no_other(
    run: Run, tmp_path: Path, *, as_list: bool
) -> None:
    both = files(tmp_path, manifest("a", "bound", replicas=2), manifest("a", "free", replicas=2))
    where = fleet(tmp_path, quota({GPUS: "4"}, {GPUS: "3"}), as_list=as_list)
    status, found, said = planned(run, both, where)
    assert (status, said) == (1, "")
    assert (found["bound"]["placed"], found["bound"]["reason"]) == (False, "WaitingForQuota")
    rejection = next(each for each in found["bound"]["rejections"] if each["gpuType"] == "l40s-48gb")
    assert rejection["reason"] == "QuotaExceeded"
    assert rejection["message"] == (
        "fits, but takes 1 GPU and the namespace's ResourceQuota leaves 0 of nvidia.com/gpu"
    )
    assert [each["message"] for each in found["bound"]["remedies"] if each["kind"] == "RaiseQuota"] == [
        "raise the ResourceQuota's requests.nvidia.com/gpu by 1: it fits on 1 l40s-48gb"
    ]
    assert sum(pool["replicas"] for pool in found["bound"]["pools"]) == 1
    assert (found["free"]["placed"], sum(pool["replicas"] for pool in found["free"]["pools"])) == (True, 2)


@pytest.mark.parametrize("entry", ["pods", "count/pods"])
def test_a_quota_on_the_number_of_pods_binds_its_namespace(run: Run, tmp_path: Path, entry: str) -> None:
    both = files(tmp_path, manifest("a", "bound"), manifest("a", "free"))
    status, found, said = planned(run, both, fleet(tmp_path, quota({entry: "8"}, {entry: "8"})))
    assert (status, said) == (1, "")
    assert (found["bound"]["placed"], found["bound"]["reason"]) == (False, "WaitingForQuota")
    rejection = next(each for each in found["bound"]["rejections"] if each["gpuType"] == "l40s-48gb")
    assert rejection["message"] == f"fits, but takes 1 pod and the namespace's ResourceQuota leaves 0 of {entry}"
    assert [each["message"] for each in found["bound"]["remedies"] if each["kind"] == "RaiseQuota"] == [
        f"raise the ResourceQuota's {entry} by 1: it fits on 1 l40s-48gb"
    ]
    assert found["free"]["placed"]


def test_a_quota_that_leaves_enough_changes_nothing(run: Run, tmp_path: Path) -> None:
    filename = files(tmp_path, manifest("a", "bound", replicas=2))
    without = planned(run, filename, fleet(tmp_path))
    assert without[0] == 0
    assert planned(run, filename, fleet(tmp_path, quota({GPUS: "3", "cpu": 64, "pods": 9}, {GPUS: 2}))) != without
    assert planned(run, filename, fleet(tmp_path, quota({GPUS: "9", "cpu": 64, "pods": 9}, {GPUS: 2}))) == without


def test_a_file_and_a_snapshot_of_the_same_objects_give_the_same_reasons(run: Run, tmp_path: Path) -> None:
    filename = files(tmp_path, manifest("a", "bound", replicas=2), manifest("a", "free", replicas=2))
    objects = gpu_node("n0", "L40S", 4), quota({GPUS: "4"}, {GPUS: "3"})
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(text_of(Export(at=0.0, release=__version__, bodies=objects)), encoding="utf-8")
    _, found, _ = planned(run, filename, fleet(tmp_path, objects[1]))
    status, shown, said = run("plan", "-f", filename, "--snapshot", str(snapshot), "-o", "json")
    assert status == 1, said
    reviewed = json.loads(shown)["changes"]
    assert len(reviewed) == 2
    for change in reviewed:
        mine = found[change["namespace"]]
        assert mine["placed"] or change["reason"] == mine["reason"]
        for part in ("placed", "rejections", "remedies", "placement"):
            assert mine.get(part) == change.get(part), part


def test_cpu_of_a_quota_binds_too(run: Run, tmp_path: Path) -> None:
    filename = files(tmp_path, manifest("a", "bound"))
    status, found, _ = planned(run, filename, fleet(tmp_path, quota({"requests.cpu": "500m"})))
    assert (status, found["bound"]["reason"]) == (1, "WaitingForQuota")
    assert planned(run, filename, fleet(tmp_path, quota({"requests.cpu": "8"})))[0] == 0


def test_a_quota_that_cannot_be_evaluated_is_named_in_a_warning(run: Run, tmp_path: Path) -> None:
    where = fleet(tmp_path, quota({GPUS: "0"}, scopes=["CrossNamespacePodAffinity"]))
    status, found, said = planned(run, files(tmp_path, manifest("a", "bound")), where)
    assert (status, found["bound"]["placed"]) == (0, True)
    assert said == (
        "warning: ResourceQuota bound/limits limits pods of the scope CrossNamespacePodAffinity, which is not "
        "evaluated here: placement goes on without it.\n"
    )


def test_an_entry_that_is_not_evaluated_is_named_and_missing_limits_are_warned_of(run: Run, tmp_path: Path) -> None:
    hard = {"count/deployments.apps": "0", "requests.ephemeral-storage": "1Gi", "requests.storage": "1Gi"}
    filename = files(tmp_path, manifest("a", "bound"), manifest("a", "free"))
    status, found, said = planned(run, filename, fleet(tmp_path, quota({**hard, "limits.cpu": "8"})))
    assert status == 0
    assert said == (
        "warning: ResourceQuota bound/limits limits count/deployments.apps, requests.ephemeral-storage, which is not "
        "evaluated here: placement goes on without it.\n"
    )
    warnings = {name: entry["placement"].get("warnings", ()) for name, entry in found.items()}
    shown = {name: [each for each in listed if "limits.cpu" in each] for name, listed in warnings.items()}
    assert [len(shown["bound"]), shown["free"]] == [1, []]
    assert "Set spec.podTemplate.resources.limits.cpu." in shown["bound"][0]


PRIORITY_CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
CLASSES = [
    {**PRIORITY_CLASS, "metadata": {"name": "high"}, "value": 10},
    {**PRIORITY_CLASS, "metadata": {"name": "usual"}, "value": 1, "globalDefault": True},
]


@pytest.mark.parametrize(
    ("operator", "values", "binds_high", "binds_usual"),
    [("In", ["high"], True, False), ("In", ["usual"], False, True), ("NotIn", ["high"], False, True)],
)
def test_a_quota_of_priority_classes_binds_their_pods_and_those_that_get_the_default_class(
    run: Run, tmp_path: Path, operator: str, values: list[str], *, binds_high: bool, binds_usual: bool
) -> None:
    term = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    where = fleet(tmp_path, quota({GPUS: "0"}, scopeSelector={"matchExpressions": [term]}), *CLASSES)
    for template, binds in (({"podTemplate": {"priorityClassName": "high"}}, binds_high), ({}, binds_usual)):
        status, found, said = planned(run, files(tmp_path, manifest("a", "bound", **template)), where)
        assert (status, said, found["bound"]["placed"]) == (int(binds), "", not binds)


def test_capacity_counts_the_quota_of_the_default_class(run: Run, tmp_path: Path) -> None:
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["usual"]}
    where = fleet(tmp_path, quota({GPUS: "1"}, scopeSelector={"matchExpressions": [term]}), *CLASSES)
    words = ("capacity", MODEL, "--tp", "1", "--fleet", where, "-o", "json", "-n", "bound")
    assert json.loads(run(*words)[1])["moreReplicas"] == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"spec": {"hard": {GPUS: "many"}}}, f"spec.hard[{GPUS}]: 'many' cannot be used. Write a quantity"),
        ({"spec": {"hard": ["4"]}}, "spec.hard: ['4'] cannot be used. Write a mapping of quantities."),
        ({"status": {"used": {"cpu": {}}}}, "status.used[cpu]: {} cannot be used. Write a quantity"),
        ({"spec": {"scopes": "BestEffort"}}, "spec.scopes: 'BestEffort' cannot be used. Write a list of strings."),
        ({"spec": {"scopes": [1]}}, "spec.scopes[0]: 1 cannot be used. Write a string"),
        (
            {"spec": {"scopeSelector": {"matchExpressions": ["x"]}}},
            "spec.scopeSelector.matchExpressions[0]: 'x' cannot be used.",
        ),
        ({"metadata": {"name": "limits"}}, "metadata.namespace: a value is missing. Name the namespace"),
    ],
)
def test_a_quota_that_no_api_server_would_return_is_refused_with_its_field(
    run: Run, tmp_path: Path, wrong: dict[str, Any], sentence: str
) -> None:
    where = fleet(tmp_path, {**quota({GPUS: "4"}), **wrong})
    status, _, said = planned(run, files(tmp_path, manifest("a", "bound")), where)
    assert status == 2
    assert f"error: {where}, document 2, ResourceQuota limits: {sentence}" in said


def test_capacity_counts_within_the_quota_of_the_namespace_alone(run: Run, tmp_path: Path) -> None:
    where = fleet(tmp_path, quota({GPUS: "4"}, {GPUS: "3"}))
    words = ("capacity", MODEL, "--tp", "1", "--fleet", where, "-o", "json", "-n")
    bound, free = (json.loads(run(*words, namespace)[1]) for namespace in ("bound", "free"))
    assert (bound["moreReplicas"], bound["next"]["reason"]) == (1, "QuotaExceeded")
    assert (free["moreReplicas"], free["next"]["reason"]) == (4, "GpusTaken")
