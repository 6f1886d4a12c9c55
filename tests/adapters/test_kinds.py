"""Where the API server has the objects of a kind."""

from __future__ import annotations

import pytest

from plimsoll.adapters.cluster.kinds import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, SERVICES


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (SERVICES.path(), "/api/v1/services"),
        (SERVICES.path(namespace="ns"), "/api/v1/namespaces/ns/services"),
        (DEPLOYMENTS.path("a", "ns"), "/apis/apps/v1/namespaces/ns/deployments/a"),
        (NODES.path("n", "ns"), "/api/v1/nodes/n"),
        (
            INFERENCE_DEPLOYMENTS.path("a", "ns", "status"),
            "/apis/plimsoll.dev/v1alpha1/namespaces/ns/inferencedeployments/a/status",
        ),
        (SERVICES.path("../../secrets?x", "ns"), "/api/v1/namespaces/ns/services/..%2F..%2Fsecrets%3Fx"),
    ],
)
def test_a_path_names_kind_namespace_and_object(path: str, wanted: str) -> None:
    assert path == wanted
