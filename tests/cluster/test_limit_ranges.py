"""LimitRanges on a real API server: it refuses exactly the pods that Plimsoll does not place."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from tests.facts.test_limit_range_reading import ENGINE, ROWS
from tests.support.faulty import PATIENT
from tests.support.honest import Honest, honest_nodes
from tests.support.installed import View, condition, install, namespace_of, on_gpu
from tests.support.limit_ranger import limit_range
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

SMALL = {"cpu": "500m", "memory": "512Mi"}
"""The defaults of many clusters for containers that state nothing."""

STATED = {"podTemplate": {"resources": {"limits": {"cpu": "2", "memory": "8Gi"}}}}
"""The limits that the remedy names."""

FORCED = on_gpu("l4-24gb")


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Two nodes with GPUs for everybody, and nodes that only the honest tenant may use."""
    nodes = [gpu_node(f"l4-{index}", "L4", 4) for index in range(2)]
    with borrowed_plane([*nodes, *honest_nodes()]) as running:
        install(running)
        yield running


@pytest.fixture(scope="module")
def limited(control_plane: ControlPlane) -> Iterator[View]:
    """A namespace that has a LimitRange before the operator starts."""
    with namespace_of(control_plane, "limited") as view:
        put(view, limit_range(default=SMALL))
        yield view


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, limited: View) -> Iterator[OperatorProcess]:
    """The operator, with the rights of its chart."""
    assert limited.exists()
    with OperatorProcess(control_plane, environment=PATIENT) as running:
        yield running


def put(view: View, body: dict[str, Any]) -> None:
    """Make a LimitRange in a namespace."""
    head = {"name": body["metadata"]["name"], "namespace": view.namespace}
    view.control_plane.apply([{**body, "metadata": head}])


@pytest.mark.usefixtures("operator")
def test_nothing_is_placed_that_would_be_refused_and_the_remedy_places_it(
    limited: View, neighbour: View, honest: Honest
) -> None:
    limited.apply("refused", **FORCED)
    neighbour.apply("served", **FORCED)
    neighbour.wait_ready("served")
    body = limited.wait_condition("refused", "Planned", "False", "NoGpuFits")
    said = condition(body, "Planned")["message"]
    assert "LimitRange limits gives a Container without a limit one of 0.5 CPUs (default.cpu)" in said
    assert limited.workloads("refused") == [], "no workload waits for pods that never come"
    assert [each["kind"] for each in body["status"]["remedies"]] == ["StateLimits"]
    honest.assert_served()
    limited.patch("refused", STATED)
    limited.wait_ready("refused")


@pytest.mark.usefixtures("operator")
def test_what_runs_stays_and_what_is_added_is_refused(here: View, neighbour: View) -> None:
    here.apply("runs", **FORCED)
    here.wait_ready("runs")
    before = here.pod_uids("runs")
    put(here, limit_range(default=SMALL))

    def warned() -> bool:
        listed = (here.get("runs")["status"].get("placement") or {}).get("warnings") or []
        return any("a lost pod is not replaced" in each for each in listed)

    here.wait(warned, "the LimitRange is seen")
    here.patch("runs", {"replicas": 2})
    neighbour.apply("served", **FORCED)
    body = here.wait_condition("runs", "Planned", "False", "NoGpuFits")
    neighbour.wait_ready("served")
    assert {each["reason"] for each in body["status"]["rejections"]} >= {"LimitRangeExceeded"}
    assert here.pod_uids("runs") == before


@pytest.mark.parametrize(("bodies", "limits", "rules"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_table_of_the_unit_tests_is_the_api_servers(
    here: View, bodies: list[dict[str, Any]], limits: dict[str, str], rules: list[str]
) -> None:
    """A pod is only tried: nothing is made of it."""
    for body in bodies:
        put(here, body)
    resources = {"requests": ENGINE, "limits": limits}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "engine", "namespace": here.namespace},
        "spec": {"containers": [{"name": "engine", "image": "engine", "resources": resources}]},
    }
    path = f"/api/v1/namespaces/{here.namespace}/pods?dryRun=All"
    if not rules:
        here.control_plane.client.send("POST", path, pod)
        return
    with pytest.raises(ApiError) as refused:
        here.control_plane.client.send("POST", path, pod)
    assert refused.value.status in {HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY}
