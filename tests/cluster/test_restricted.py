"""Engine pods in a namespace that admits only pods of the strictest Pod Security profile, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.render.pods import pod_template
from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from tests.render.workloads import chosen_pool, options
from tests.support.planes import borrowed_plane
from tests.support.rendered import planned_examples

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with borrowed_plane() as running:
        running.create_namespace("strict")
        strict = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        running.client.merge_patch("/api/v1/namespaces/strict", {"metadata": strict})
        for account in service_accounts():
            running.client.send("POST", "/api/v1/namespaces/strict/serviceaccounts", account)
        yield running


def service_accounts() -> list[dict[str, Any]]:
    """Those that the pods of examples name: a pod is admitted only where its own exists."""
    return [
        {**entry, "metadata": {"name": entry["metadata"]["name"]}}
        for planned in planned_examples().values()
        for entry in planned.objects()
        if entry["kind"] == "ServiceAccount"
    ]


def templates() -> dict[str, dict[str, Any]]:
    """The pod templates of every example and variant."""
    return {
        f"{name}, {entry['metadata']['name']}": entry["spec"]["template"]
        for name, planned in planned_examples().items()
        for entry in planned.objects()
        if entry["kind"] == "Deployment"
    }


def refused(cluster: ControlPlane, template: dict[str, Any]) -> str:
    """The API server's words on a pod of this template, without keeping it; empty where it takes it."""
    body = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "probe"}}
    try:
        cluster.client.send("POST", "/api/v1/namespaces/strict/pods?dryRun=All&fieldValidation=Strict", body)
    except ApiError as error:
        return str(error)
    return ""


def test_every_examples_pod_is_admitted(cluster: ControlPlane) -> None:
    said = {name: refused(cluster, template) for name, template in templates().items()}
    assert not any(said.values()), "".join(f"\n{name}: {words}" for name, words in said.items() if words)


def test_a_pod_that_stays_off_several_nodes_is_admitted(cluster: ControlPlane) -> None:
    pool, choice = chosen_pool()
    left = replace(choice, target=replace(choice.target, avoids=("node-a", "node-b")))
    template = pod_template(options(), pool.name, left)
    [term] = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert [each["values"] for each in term["matchFields"]] == [["node-a"], ["node-b"]]
    assert refused(cluster, template) == ""


def test_the_profile_is_in_force(cluster: ControlPlane) -> None:
    template = next(iter(templates().values()))
    careless = {**template, "spec": {**template["spec"], "securityContext": {}}}
    assert "violates PodSecurity" in refused(cluster, careless)
