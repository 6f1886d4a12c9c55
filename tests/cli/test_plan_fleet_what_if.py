"""``plimsoll plan --fleet --what-if``: the plan of manifests on a file of nodes, without and with changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.fleet import gpu_node
from tests.cli.conftest import Run, deployments
from tests.support.alone import OTHER_EXTRAS, command

MODEL = "Qwen/Qwen2.5-7B-Instruct"
ON_L40S, ON_H100 = ("l40s-48gb", 1), ("h100-sxm-80gb", 1)


def manifest(name: str, namespace: str | None = "team", **spec: Any) -> dict[str, Any]:
    head = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": head,
        "spec": {
            "model": {"name": MODEL},
            "contextLength": 4096,
            "concurrency": 8,
            "gpu": {"allow": ["l40s-48gb", "h100-sxm-80gb"]},
            **spec,
        },
    }


@pytest.fixture
def where(tmp_path: Path) -> str:
    """A file with one node of two L40S and one node of one H100, and a pod that holds the H100."""
    holder = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "training", "namespace": "others"},
        "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]},
        "status": {"phase": "Running"},
    }
    path = tmp_path / "fleet.yaml"
    path.write_text(
        yaml.safe_dump_all([gpu_node("n0", "L40S", 2), gpu_node("n1", "H100-80GB-HBM3", 1), holder]), encoding="utf-8"
    )
    return str(path)


def files(folder: Path, *manifests: dict[str, Any]) -> str:
    path = folder / "files.yaml"
    path.write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    return str(path)


def asked(run: Run, filename: str, where: str, *texts: str) -> tuple[int, dict[str, Any], str]:
    options = [word for text in texts for word in ("--what-if", text)]
    status, out, said = run("plan", "-f", filename, "--fleet", where, *options, "-o", "json")
    return status, json.loads(out or "{}"), said


def changes(document: dict[str, Any]) -> dict[str, tuple[str, list[tuple[str, int]], list[tuple[str, int]]]]:
    """For each object the word, and GPU type and replicas before and after."""
    return {
        each["name"]: (
            each["change"],
            [(place["gpuType"], place["replicas"]) for place in each["before"]],
            [(place["gpuType"], place["replicas"]) for place in each["after"]],
        )
        for each in document["changes"]
    }


def test_more_nodes_serve_the_object_that_waits_and_leave_the_other_where_it_is(
    run: Run, where: str, tmp_path: Path
) -> None:
    both = files(tmp_path, manifest("first", replicas=2), manifest("second"))
    status, found, _ = asked(run, both, where, "+1 l40s x2")
    assert (status, changes(found)) == (
        0,
        {
            "first": ("kept", [("l40s-48gb", 2)], [("l40s-48gb", 2)]),
            "second": ("placed", [], [ON_L40S]),
        },
    )
    status, found, _ = asked(run, both, where, "first.replicas=2")
    assert (status, changes(found)["second"]) == (1, ("waiting", [], []))
    assert [each["reason"] for each in found["changes"]] == ["PlacementDecided", "WaitingForGpus"]


def test_without_the_nodes_of_a_type_its_object_moves_or_waits(run: Run, where: str, tmp_path: Path) -> None:
    one = files(tmp_path, manifest("one"))
    status, found, _ = asked(run, one, where, "-l40s", "+1 h100-sxm-80gb")
    assert (status, changes(found)) == (0, {"one": ("moved", [ON_L40S], [ON_H100])})
    status, found, _ = asked(run, one, where, "-l40s")
    assert (status, changes(found)) == (1, {"one": ("waiting", [ON_L40S], [])})
    status, found, _ = asked(run, one, where, "-h100-sxm")
    assert (status, changes(found)) == (0, {"one": ("kept", [ON_L40S], [ON_L40S])})


def test_a_field_changes_the_number_the_settings_or_nothing(run: Run, where: str, tmp_path: Path) -> None:
    one = files(tmp_path, manifest("one"))
    _, found, _ = asked(run, one, where, "one.replicas=2")
    assert changes(found) == {"one": ("changed", [ON_L40S], [("l40s-48gb", 2)])}
    assert found["changes"][0]["restarts"] is False
    _, found, _ = asked(run, one, where, "one.contextLength=8192")
    assert changes(found) == {"one": ("changed", [ON_L40S], [ON_L40S])}
    assert found["changes"][0]["restarts"] is True
    _, found, _ = asked(run, one, where, "one.replicas=1")
    assert changes(found) == {"one": ("kept", [ON_L40S], [ON_L40S])}
    narrow = files(tmp_path, manifest("one", overrides={"tensorParallel": 1}))
    status, found, _ = asked(run, narrow, where, "one.totalConcurrency=200")
    assert (status, changes(found)) == (0, {"one": ("changed", [ON_L40S], [("l40s-48gb", 2)])})


def test_the_bill_is_that_of_both_plans(run: Run, where: str, tmp_path: Path) -> None:
    one = files(tmp_path, manifest("one"))
    (plain,) = deployments(run("plan", "-f", one, "--fleet", where, "-o", "json")[1])
    _, found, _ = asked(run, one, where, "one.replicas=2")
    each = float(plain["placement"]["hourlyPrice"])
    assert float(found["bill"]["before"]) == pytest.approx(each, abs=0.01)
    assert float(found["bill"]["after"]) == pytest.approx(2 * each, abs=0.015)
    assert found["unchanged"] == {"count": 0, "unplaced": 0}


def test_the_table_has_the_columns_of_a_review_and_a_note_names_what_is_compared(
    run: Run, where: str, tmp_path: Path
) -> None:
    words = ("plan", "-f", files(tmp_path, manifest("one")), "--fleet", where, "--what-if", "one.contextLength=8192")
    status, shown, said = run(*words)
    assert status == 0
    assert shown.split("\n")[0].split() == ["DEPLOYMENT", "CHANGE", "NOW", "AFTER", "$/h", "NOW", "$/h", "AFTER", "WHY"]
    assert "changed, restarts" in shown
    assert "note: NOW is the plan of your files on the nodes of the file" in said
    status, shown, _ = run(*words, "-o", "markdown")
    assert (status, "| team/one | **changed, restarts** | 1 replica on l40s-48gb x 1 |" in shown) == (0, True)
    status, shown, _ = run(*words, "-o", "objects")
    assert (status, [body["kind"] for body in yaml.safe_load_all(shown)]) == (
        0,
        ["Service", "Deployment", "PodDisruptionBudget"],
    )
    assert "8192" in shown


def test_quotas_bind_the_plan_with_the_changes_too(run: Run, where: str, tmp_path: Path) -> None:
    quotas = [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"hard": {"requests.nvidia.com/gpu": 1}, "scopes": [scope]},
        }
        for name, scope in (("gpus", "NotTerminating"), ("odd", "Odd"))
    ]
    with Path(where).open("a", encoding="utf-8") as file:
        file.write("---\n" + yaml.safe_dump_all(quotas))
    both = files(tmp_path, manifest("bound"), manifest("free", "elsewhere"))
    status, found, said = asked(run, both, where, "bound.replicas=2", "free.replicas=2", "+1 l40s x2")
    assert (status, changes(found)) == (
        1,
        {
            "bound": ("waiting", [ON_L40S], [ON_L40S]),
            "free": ("changed", [ON_L40S], [("l40s-48gb", 2)]),
        },
    )
    assert [each["reason"] for each in found["changes"]] == ["WaitingForQuota", "PlacementDecided"]
    assert "note: ResourceQuota team/odd limits pods of the scope Odd, which is not evaluated here" in said


def test_an_object_that_cannot_be_used_is_named_and_the_other_is_answered(run: Run, where: str, tmp_path: Path) -> None:
    both = files(tmp_path, manifest("good"), manifest("bad", rebalancing={"mode": "Auto"}))
    status, found, said = asked(run, both, where, "good.replicas=2")
    assert (status, list(changes(found))) == (2, ["good"])
    assert "document 2, InferenceDeployment team/bad: spec.rebalancing" in said
    status, found, said = asked(run, both, where, "bad.replicas=2")
    assert "document 2, InferenceDeployment team/bad: spec.rebalancing" in said
    assert "error: --what-if: 'bad.replicas=2' cannot be used. There is no such object." in said
    status, found, said = asked(run, files(tmp_path, manifest("good")), where, "good.replicas=-1")
    assert (status, found["changes"]) == (2, [])
    assert "InferenceDeployment team/good: spec.replicas: -1 cannot be used" in said


def test_a_question_about_a_file_of_nodes_needs_manifests(run: Run, where: str) -> None:
    status, _, said = run("plan", "--fleet", where, "--what-if", "+1 l4")
    assert (status, "Missing option '-f' / '--filename'" in said) == (2, True)


def test_the_fleet_may_come_in_a_pipe_and_node_groups_and_prices_count(run: Run, where: str, tmp_path: Path) -> None:
    groups, prices = tmp_path / "groups.yaml", tmp_path / "prices.csv"
    groups.write_text("- {name: small, gpuType: l40s-48gb, gpusPerNode: 1, maxNodes: 9}\n", encoding="utf-8")
    prices.write_text("gpu_type,usd_per_hour\nl40s-48gb,0.25\n", encoding="utf-8")
    words = (
        "plan",
        "-f",
        files(tmp_path, manifest("one")),
        "--fleet",
        "-",
        "--what-if",
        "one.replicas=4",
        "-o",
        "json",
    )
    status, shown, said = run(
        *words, "--node-groups", str(groups), "--prices", str(prices), stdin=Path(where).read_text(encoding="utf-8")
    )
    assert status == 1, said
    found = json.loads(shown)
    assert found["bill"]["before"] == "0.25"
    assert "the group small" in json.dumps(found["changes"][0]["remedies"])


def test_a_suspended_object_takes_nothing_until_the_field_goes(run: Run, where: str, tmp_path: Path) -> None:
    one = files(tmp_path, manifest("one", suspend=True))
    status, shown, _ = run("plan", "-f", one, "--fleet", where)
    assert (status, "no: Suspended" in shown) == (0, True)
    status, found, _ = asked(run, one, where, "one.suspend=")
    assert (status, changes(found)) == (0, {"one": ("placed", [], [ON_L40S])})


def test_it_needs_no_extra_but_the_solver(where: str, tmp_path: Path) -> None:
    words = ["plan", "-f", files(tmp_path, manifest("one")), "--fleet", where, "--what-if", "+1 l4"]
    ran = command(words, tmp_path, refused=OTHER_EXTRAS)
    assert ran.status == 0, ran.err
    assert "kept" in ran.out
    assert ran.modules & OTHER_EXTRAS == set()
