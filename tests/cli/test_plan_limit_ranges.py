"""``--fleet`` with LimitRanges in the file: a pod that the API server would refuse is not planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll import __version__
from plimsoll.app.exports.document import Export, text_of
from testbed.fleet import gpu_node
from tests.cli.conftest import Run
from tests.cli.test_plan_quotas import MODEL, files, fleet, manifest, planned
from tests.support.limit_ranger import limit_range

TIGHT = limit_range("tight", "bound", default={"cpu": "500m", "memory": "512Mi"})


def test_a_limit_range_binds_its_namespace_with_figures_and_fix_and_no_other(run: Run, tmp_path: Path) -> None:
    both = files(tmp_path, manifest("a", "bound"), manifest("a", "free"))
    status, found, said = planned(run, both, fleet(tmp_path, TIGHT))
    assert (status, said) == (1, "")
    assert (found["bound"]["placed"], found["bound"]["reason"]) == (False, "NoGpuFits")
    rejection = next(each for each in found["bound"]["rejections"] if each["tensorParallel"] == 1)
    assert rejection["reason"] == "LimitRangeExceeded"
    assert rejection["message"].startswith(
        "fits, but LimitRange tight gives a Container without a limit one of 0.5 CPUs (default.cpu) and the pod "
        "requests 2 CPUs"
    )
    assert [each["message"] for each in found["bound"]["remedies"]] == [
        "set spec.podTemplate.resources.limits to {cpu: 2, memory: 8Gi}: it fits on l40s-48gb then"
    ]
    assert found["free"]["placed"]


def test_the_remedy_in_the_manifest_places_it(run: Run, tmp_path: Path) -> None:
    stated = {"podTemplate": {"resources": {"limits": {"cpu": "2", "memory": "8Gi"}}}}
    status, found, said = planned(run, files(tmp_path, manifest("a", "bound", **stated)), fleet(tmp_path, TIGHT))
    assert (status, said, found["bound"]["placed"]) == (0, "", True)


def test_a_file_and_a_snapshot_of_the_same_objects_give_the_same_reasons(run: Run, tmp_path: Path) -> None:
    filename = files(tmp_path, manifest("a", "bound"), manifest("a", "free"))
    snapshot = tmp_path / "snapshot.json"
    bodies = gpu_node("n0", "L40S", 4), TIGHT
    snapshot.write_text(text_of(Export(at=0.0, release=__version__, bodies=bodies)), encoding="utf-8")
    _, found, _ = planned(run, filename, fleet(tmp_path, TIGHT))
    status, shown, said = run("plan", "-f", filename, "--snapshot", str(snapshot), "-o", "json")
    assert status == 1, said
    for change in json.loads(shown)["changes"]:
        for part in ("placed", "rejections", "remedies"):
            assert found[change["namespace"]].get(part) == change.get(part), part


def test_a_what_if_keeps_the_limit_ranges_of_the_file(run: Run, tmp_path: Path) -> None:
    filename, where = files(tmp_path, manifest("a", "bound")), fleet(tmp_path, TIGHT)
    status, shown, said = run("plan", "-f", filename, "--fleet", where, "--what-if", "+1 h100-sxm-80gb", "-o", "json")
    assert status == 1, said
    (change,) = json.loads(shown)["changes"]
    assert change["placed"] is False


def test_capacity_counts_no_replica_that_would_be_refused(run: Run, tmp_path: Path) -> None:
    where = fleet(tmp_path, TIGHT)
    more = {
        namespace: json.loads(run("capacity", MODEL, "--fleet", where, "-o", "json", "-n", namespace)[1])
        for namespace in ("bound", "free")
    }
    assert more["bound"]["moreReplicas"] == 0
    assert {each["reason"] for each in more["bound"]["rejections"]} >= {"LimitRangeExceeded"}
    assert more["free"]["moreReplicas"] == 4


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({**TIGHT, "spec": {"limits": {}}}, "spec.limits: {} cannot be used. Write a list of mappings."),
        (limit_range("tight", "bound", max={"cpu": "many"}), "max[cpu]: 'many' cannot be used. Write a quantity"),
        (limit_range("tight", "bound", min=["1"]), "min: ['1'] cannot be used. Write a mapping of quantities."),
        (limit_range("tight", ""), "metadata.namespace: '' cannot be used. Name the namespace that it limits."),
    ],
)
def test_a_limit_range_that_no_api_server_returns_is_refused(
    run: Run, tmp_path: Path, body: dict[str, Any], sentence: str
) -> None:
    filename = files(tmp_path, manifest("a", "bound"))
    status, _, said = run("plan", "-f", filename, "--fleet", fleet(tmp_path, body))
    assert status == 2, said
    assert "LimitRange tight: " in said
    assert sentence in said
