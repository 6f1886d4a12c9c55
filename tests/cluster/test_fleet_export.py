"""``plimsoll fleet export`` on a live cluster: the plan on its file is the plan on the cluster."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.operator_process import NAMESPACE, OperatorProcess
from tests.support.installed import View, inference_deployment, namespace_of, on_gpu, secret_reads
from tests.support.reviewing import Said, export, plan, plan_snapshot

pytestmark = pytest.mark.cluster

PRICES = {"a100-sxm-80gb": "0.90", "l40s-48gb": "1.10"}
CANARY = "canary"
STILL_SECONDS = 120.0
SECRET = {"podTemplate": {"env": [{"name": "API_TOKEN", "value": f"{CANARY}-value"}], "annotations": {"a": CANARY}}}


@pytest.fixture(scope="module", autouse=True)
def prices(control_plane: ControlPlane) -> None:
    head = {"name": "plimsoll-prices", "namespace": NAMESPACE}
    control_plane.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": PRICES}])


@pytest.fixture(scope="module")
def neighbour(control_plane: ControlPlane) -> Iterator[View]:
    """Another tenant, whose own pod holds the only L4."""
    with namespace_of(control_plane, f"neighbour-{uuid.uuid4().hex[:6]}") as view:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "training", "namespace": view.namespace, "annotations": {"a": f"{CANARY}-note"}},
            "spec": {
                "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example/training",
                        "args": [f"--token={CANARY}-argument"],
                        "env": [{"name": "PASSWORD", "value": f"{CANARY}-password"}],
                        "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    }
                ],
            },
        }
        control_plane.apply([pod])
        view.wait(lambda: view.read("pods", "training")["spec"].get("nodeName"), "a node for the other tenant's pod")
        yield view


def without_notes(said: Said) -> Mapping[str, Any]:
    return {name: value for name, value in said.document.items() if name != "notes"}


def decided(said: Said) -> list[tuple[Any, ...]]:
    """Everything about the objects of a plan except names and words."""
    return [
        tuple(each[name] for name in ("change", "reason", "placed", "before", "after", "restarts"))
        for each in said.document["changes"]
    ]


@pytest.fixture(scope="module")
def crowded(control_plane: ControlPlane, neighbour: View, operator: OperatorProcess) -> Iterator[View]:
    """A namespace with an object that serves, its variable secret, and one that waits for the other tenant's GPU."""
    assert operator.is_running
    assert neighbour.exists()
    with namespace_of(control_plane, f"crowded-{uuid.uuid4().hex[:6]}") as view:
        view.apply("serves", **on_gpu("l40s-48gb"), **SECRET)
        view.apply("waits", **on_gpu("l4-24gb"))
        view.wait_ready("serves")
        view.wait_condition("waits", "Planned", "False")
        yield view


def planned_and_exported(here: View, manifests: list[dict[str, Any]], file: Path, *words: str) -> Said:
    """The plan on the cluster, and a snapshot of the same state: the plans before and after it are equal."""
    kubeconfig = here.control_plane.admin_kubeconfig

    def unchanged() -> Said | None:
        before = plan(kubeconfig, manifests)
        written = export(kubeconfig, file, *words)
        assert written.status == 0, written
        return before if plan(kubeconfig, manifests).document == before.document else None

    said = here.wait(unchanged, "a cluster that does not change", STILL_SECONDS)
    assert isinstance(said, Said)
    return said


def test_a_plan_on_the_file_is_the_plan_on_the_cluster_and_the_file_holds_no_secret(
    crowded: View, neighbour: View, tmp_path: Path
) -> None:
    file, reads = tmp_path / "fleet.json", secret_reads(crowded.control_plane)
    manifests = [
        inference_deployment("serves", crowded.namespace, **on_gpu("l40s-48gb"), **SECRET),
        inference_deployment("waits", crowded.namespace, **on_gpu("l4-24gb")),
        inference_deployment("new", crowded.namespace),
    ]
    live = planned_and_exported(crowded, manifests, file)
    again = plan_snapshot(file, manifests)
    assert without_notes(again) == without_notes(live)
    assert again.status == live.status == 1
    assert [live.word(name) for name in ("serves", "waits", "new")] == ["kept", "waiting", "placed"]
    assert live.places("new") == [("a100-sxm-80gb", 1, 1)], "the admin's prices are in the file"

    longer = [inference_deployment("serves", crowded.namespace, contextLength=8192, **on_gpu("l40s-48gb"), **SECRET)]
    assert without_notes(plan_snapshot(file, longer)) == without_notes(
        plan(crowded.control_plane.admin_kubeconfig, longer)
    )

    text = file.read_text()
    assert CANARY in json.dumps([crowded.get("serves"), neighbour.read("pods", "training")])
    assert CANARY not in text
    assert "training" in text
    assert secret_reads(crowded.control_plane) == reads


def test_the_file_with_hashed_names_decides_the_same(crowded: View, neighbour: View, tmp_path: Path) -> None:
    plain, hashed = tmp_path / "plain.json", tmp_path / "hashed.json"
    manifests = [inference_deployment("waits", crowded.namespace, **on_gpu("l4-24gb"))]
    planned_and_exported(crowded, manifests, plain)
    planned_and_exported(crowded, manifests, hashed, "--hash-names")
    first, second = plan_snapshot(plain, []), plan_snapshot(hashed, [])
    assert (first.word("serves"), first.word("waits")) == ("kept", "waiting")
    assert decided(second) == decided(first)
    assert (second.status, second.document["bill"]) == (first.status, first.document["bill"])
    nodes = crowded.control_plane.kubectl("get", "nodes", "-o", "name").replace("node/", "").split()
    names = [*nodes, crowded.namespace, neighbour.namespace, "training", "serves", CANARY]
    assert [name for name in names if f'"{name}' in hashed.read_text()] == []
    assert all(f'"{name}"' in plain.read_text() for name in names[:-1])
