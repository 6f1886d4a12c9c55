"""With rights in its namespaces alone the operator serves them as ever, and sees nothing of the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from plimsoll.api.crd.schema import UNSEEN
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import NAMESPACE, OperatorProcess, install_rbac
from tests.support.helm import of_helm_test
from tests.support.installed import (
    CHART,
    View,
    inference_deployment,
    install_kind,
    namespace_of,
    on_gpu,
    operator_writes,
)
from tests.support.planes import borrowed_plane
from tests.support.reviewing import piped

pytestmark = pytest.mark.cluster

OURS, THEIRS = "team-served", "team-other"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane(mixed_fleet()) as running:
        install_kind(running)
        yield running


@pytest.fixture(scope="module")
def views(control_plane: ControlPlane) -> Iterator[tuple[View, View]]:
    with ExitStack() as stack:
        served = stack.enter_context(namespace_of(control_plane, OURS))
        yield served, stack.enter_context(namespace_of(control_plane, THEIRS))


def test_it_serves_its_namespace_with_nodes_from_a_file_and_leaves_the_other_alone(
    control_plane: ControlPlane, views: tuple[View, View], tmp_path: Path
) -> None:
    served, other = views
    values = {"watchNamespaces": f"{{{OURS}}}", "fleet.readNodes": "false", "fleet.configMap": "nodes"}
    install_rbac(control_plane, CHART, values=values)
    file = tmp_path / "fleet.yaml"
    file.write_text(control_plane.kubectl("get", "nodes", "-o", "yaml"))
    settings = {"PLIMSOLL_WATCH_NAMESPACES": OURS, "PLIMSOLL_FLEET_FILE": str(file), "PLIMSOLL_RELIST_SECONDS": "5"}
    with OperatorProcess(control_plane, environment=settings) as operator:
        served.apply("mine", **on_gpu("h100-sxm-80gb"))
        other.apply("theirs", **on_gpu("h100-sxm-80gb"))
        served.wait_ready("mine")
        control_plane.wait_until(operator.ready, 60, "readiness")
        served.patch("mine", {"replicas": 2})
        served.wait(lambda: len(served.pods("mine")) == 2, "the second replica")

        fleet = yaml.safe_load(file.read_text())
        fleet["items"] = [node for node in fleet["items"] if node["metadata"]["name"] != "l4-0"]
        file.write_text(yaml.safe_dump(fleet))
        control_plane.wait_until(lambda: 'gpu_type="l4-24gb"' not in operator.metrics(), 60, "the file read again")
        served.apply("small", gpu={"allow": ["l4-24gb"]})
        served.wait_condition("small", "Planned", "False")
        served.delete("inferencedeployments", "mine")
        served.wait(lambda: not served.all("pods", "mine"), "it and its pods gone")

        assert other.get("theirs")["status"] == UNSEEN
        assert other.workloads("theirs") == []
        assert operator_writes(control_plane, namespace=THEIRS) == []
        assert [line for line in operator.log_lines() if "Traceback" in line] == []
        assert operator.is_running


@pytest.mark.parametrize("nodes", ["", "fleet.readNodes=false,fleet.configMap=nodes"], ids=["cluster", "file"])
def test_helm_test_plans_with_rights_in_those_namespaces_alone(
    control_plane: ControlPlane, views: tuple[View, View], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nodes: str
) -> None:
    served, _ = views
    objects = of_helm_test("--set", f"watchNamespaces={{{OURS}}}", "--set", nodes)
    if nodes:
        file = tmp_path / "fleet.yaml"
        file.write_text(control_plane.kubectl("get", "nodes", "-o", "yaml"))
        monkeypatch.setenv("PLIMSOLL_FLEET_FILE", str(file))
    control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    control_plane.apply([each for each in objects if each["kind"] != "Pod"])
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, "plimsoll-test")
    manifest = inference_deployment("planned", served.namespace)
    monkeypatch.setenv("PLIMSOLL_NAMESPACE", NAMESPACE)

    monkeypatch.setenv("PLIMSOLL_WATCH_NAMESPACES", OURS)
    said = piped(kubeconfig, [manifest])
    assert (said.status, said.word("planned")) == (0, "placed"), said.errors
    assert "cannot be" not in said.errors
    monkeypatch.setenv("PLIMSOLL_WATCH_NAMESPACES", THEIRS)
    assert piped(kubeconfig, [manifest]).status == 2
