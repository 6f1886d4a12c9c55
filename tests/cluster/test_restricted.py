"""Engine pods in a namespace that admits only pods of the strictest Pod Security profile, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from tests.support.planes import borrowed_plane
from tests.support.rendered import planned_examples

pytestmark = pytest.mark.cluster

TEMPLATES = {
    f"{name}, {entry['metadata']['name']}": entry["spec"]["template"]
    for name, planned in planned_examples().items()
    for entry in planned.objects()
    if entry["kind"] == "Deployment"
}


@pytest.fixture(scope="module")
def namespace() -> Iterator[tuple[ControlPlane, str]]:
    with borrowed_plane() as cluster:
        name = cluster.create_namespace("strict")
        for mode in ("enforce", "warn"):
            cluster.kubectl("label", "namespace", name, f"pod-security.kubernetes.io/{mode}=restricted")
        yield cluster, name


def asked(where: tuple[ControlPlane, str], template: dict[str, Any]) -> str:
    """What the API server says to a pod of this template, without keeping it."""
    cluster, name = where
    body = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "probe"}}
    words = ("create", "--dry-run=server", "-n", name, "-f", "-")
    return cluster.kubectl(*words, stdin=json.dumps(body), check=False)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_every_examples_pod_is_admitted(namespace: tuple[ControlPlane, str], template: dict[str, Any]) -> None:
    assert asked(namespace, template) == "pod/probe created (server dry run)\n"


def test_the_profile_is_in_force(namespace: tuple[ControlPlane, str]) -> None:
    template = next(iter(TEMPLATES.values()))
    careless = {**template, "spec": {**template["spec"], "securityContext": {}}}
    assert 'violates PodSecurity "restricted' in asked(namespace, careless)
