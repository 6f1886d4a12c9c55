"""``--fleet`` with disks, claims and drivers with which no engine starts: they are named before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.fleet import gpu_node
from tests.cli.conftest import Run, deployments

MODEL = "meta-llama/Llama-3.3-70B-Instruct"


def manifest(name: str, namespace: str, cache: dict[str, Any] | None = None) -> dict[str, Any]:
    template = {"podTemplate": {"modelCache": cache}} if cache else {}
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": {"name": MODEL}, "contextLength": 8192, "concurrency": 8, **template},
    }


def a100(name: str, disk: str, driver: str | None = None) -> dict[str, Any]:
    body = gpu_node(name, "A100-SXM4-80GB", 4, labels={"nvidia.com/cuda.driver.major": driver})
    for part in ("capacity", "allocatable"):
        body["status"][part]["ephemeral-storage"] = disk
    return body


def claim(size: str) -> list[dict[str, Any]]:
    key = {"name": "models", "namespace": "team"}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "volumeName": "pv"}
    status = {"phase": "Bound", "capacity": {"storage": size}}
    volume = {"capacity": {"storage": size}, "storageClassName": "gp3", "claimRef": key}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": key, "spec": spec, "status": status},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": volume},
    ]


class Planned:
    """Two namespaces ask: ``team`` with the cache in question, and ``neighbour`` with one that is large enough."""

    def __init__(self, run: Run, folder: Path, bodies: list[dict[str, Any]], cache: dict[str, Any] | None) -> None:
        where, asked = folder / "fleet.yaml", folder / "asked.yaml"
        where.write_text(yaml.safe_dump_all(bodies))
        asked.write_text(yaml.safe_dump_all([manifest("a", "team", cache), manifest("b", "neighbour")]))
        self.status, shown, self.said = run("plan", "-f", str(asked), "--fleet", str(where), "-o", "json")
        self.entries = {entry["namespace"]: entry for entry in deployments(shown)}

    def reasons(self, namespace: str) -> dict[str, str]:
        return {each["reason"]: each["message"] for each in self.entries[namespace]["rejections"]}

    def remedies(self, namespace: str) -> list[str]:
        return [each["message"] for each in self.entries[namespace]["remedies"]]


def test_a_node_whose_disk_cannot_hold_the_files_is_not_taken(run: Run, tmp_path: Path) -> None:
    small = Planned(run, tmp_path, [a100("a", "47060071478")], None)
    assert small.status == 1
    assert small.reasons("team")["NodeDiskTooSmall"] == (
        "no node has the disk (ephemeral-storage) for the model's files, 131.42 GiB: the largest has 43.83 GiB"
    )
    assert small.remedies("team")[0] == (
        "name a claim of 132Gi or more in spec.podTemplate.modelCache.claimName: it fits on a100-sxm-80gb then"
    )
    both = Planned(run, tmp_path, [a100("a", "47060071478"), a100("b", "2Ti"), a100("c", "2Ti")], None)
    assert (both.status, [each["placed"] for each in both.entries.values()]) == (0, [True, True])


def test_a_limit_below_the_files_is_refused_and_a_neighbour_is_placed(run: Run, tmp_path: Path) -> None:
    found = Planned(run, tmp_path, [a100("a", "2Ti")], {"sizeLimit": "50Gi"})
    assert (
        "spec.podTemplate.modelCache.sizeLimit: '50Gi' cannot be used. The model's files take 131.42 GiB" in found.said
    )
    assert found.entries["neighbour"]["placed"]


@pytest.mark.parametrize(("size", "is_warned"), [("20Gi", True), ("200Gi", False)])
def test_a_claim_below_the_files_gives_a_warning_and_a_neighbour_none(
    run: Run, tmp_path: Path, size: str, *, is_warned: bool
) -> None:
    found = Planned(run, tmp_path, [a100("a", "2Ti"), a100("b", "2Ti"), *claim(size)], {"claimName": "models"})
    assert found.status == 0, found.said
    words = "unless its storage lets it grow, the download fails"
    assert any(words in warning for warning in found.entries["team"]["placement"].get("warnings", ())) is is_warned
    assert not any(words in warning for warning in found.entries["neighbour"]["placement"].get("warnings", ()))


def test_a_driver_that_is_too_old_for_the_image_is_named(run: Run, tmp_path: Path) -> None:
    old = Planned(run, tmp_path, [a100("a", "2Ti", "535")], None)
    assert old.status == 1
    assert old.reasons("team")["DriverTooOld"] == (
        "no node has NVIDIA driver 580 or newer, which the engine's image needs"
    )
    assert old.remedies("team")[0] == (
        "update the NVIDIA driver of nodes with a100-sxm-80gb to 580 or newer: it fits there then"
    )
    new = Planned(run, tmp_path, [a100("a", "2Ti", "535"), a100("b", "2Ti", "580"), a100("c", "2Ti")], None)
    assert new.status == 0
