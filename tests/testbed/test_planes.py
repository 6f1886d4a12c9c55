"""A control plane that a file of tests gives back: the next file finds nothing of it, and does not wait for it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.operator_process import NAMESPACE
from tests.support.installed import View, install, install_kind
from tests.support.planes import borrowed_plane
from tests.support.workloads import gpu_deployment

pytestmark = pytest.mark.cluster

KINDS = ("inferencedeployments", "deployments", "replicasets", "services", "poddisruptionbudgets", "pods")


def config_map(name: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}


def left_over(plane: ControlPlane, namespace: str) -> dict[str, list[str]]:
    """Names of what there is of each kind in a namespace."""
    view = View(plane, namespace)
    return {plural: [body["metadata"]["name"] for body in view.all(plural)] for plural in KINDS}


def test_the_next_file_finds_no_object_of_the_one_before() -> None:
    name = f"left-{uuid.uuid4().hex[:6]}"
    with borrowed_plane([gpu_node("left-0", "L4", 2)]) as plane:
        install(plane)
        here, default = View(plane, plane.create_namespace(name)), View(plane, "default")
        for view in (here, default):
            view.apply("model")
            plane.apply([gpu_deployment("foreign", view.namespace)])
            view.wait(lambda view=view: view.all("pods"), "a pod")  # type: ignore[misc]
        plane.apply([config_map("prices", where) for where in ("default", NAMESPACE)])
        labels = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        plane.client.merge_patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": labels})

    with borrowed_plane() as plane:
        install_kind(plane)
        empty: dict[str, list[str]] = {plural: [] for plural in KINDS}
        assert left_over(plane, name) == empty
        assert left_over(plane, "default") == empty | {"services": ["kubernetes"]}
        assert plane.client.get("/api/v1/nodes")["items"] == []
        for where in ("default", NAMESPACE):
            found = plane.client.get(f"/api/v1/namespaces/{where}/configmaps")["items"]
            assert [body["metadata"]["name"] for body in found] == ["kube-root-ca.crt"]
        kept = plane.client.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"]
        assert list(kept["labels"]) == ["kubernetes.io/metadata.name"]
        rights = plane.client.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")["items"]
        assert [body for body in rights if "plimsoll" in body["metadata"]["name"]] == []


def test_a_namespace_that_is_on_its_way_out_is_waited_for_and_one_that_stays_is_in_the_way() -> None:
    name = f"again-{uuid.uuid4().hex[:6]}"
    with borrowed_plane() as plane:
        plane.create_namespace(name)
        before = plane.client.get(f"/api/v1/namespaces/{name}")["metadata"]["uid"]
        with pytest.raises(ApiError, match="already exists"):
            plane.create_namespace(name)
        plane.client.send("DELETE", f"/api/v1/namespaces/{name}")
        plane.create_namespace(name)
        assert plane.client.get(f"/api/v1/namespaces/{name}")["metadata"]["uid"] != before
