"""A group of nodes that has none: pods wait for it where the admin allows it, and an autoscaler starts a node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.api_client import ApiClient
from testbed.background import BackgroundLoop
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from tests.support.faulty import IMPATIENT
from tests.support.installed import View, condition, install
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

KEY = "example.com/pool"
ANY: dict[str, Any] = {"gpuType": "l4-24gb", "gpusPerNode": 1, "maxNodes": 4, "usdPerHour": "1"}
GROUPS = [
    {**ANY, "name": "wakes", "labels": {KEY: "wakes"}, "scaleUp": {"maxHourlyPrice": "2"}},
    {**ANY, "name": "sleeps", "labels": {KEY: "sleeps"}, "usdPerHour": "0.10"},
]


class Autoscaler(BackgroundLoop):
    """Adds a node of a group for each pod that waits for it, as a cluster autoscaler does."""

    def __init__(self, client: ApiClient, plane: ControlPlane) -> None:
        self._client, self._plane = client, plane
        self.added: list[str] = []
        super().__init__("testbed-autoscaler", self.look, 0.3)

    def look(self) -> None:
        """Look at all engine pods once."""
        for pod in self._client.cached_pods("plimsoll.dev/pool"):
            required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            found = [each for term in required["nodeSelectorTerms"] for each in term["matchExpressions"]]
            wanted = [each["values"][0] for each in found if each["key"] == KEY]
            name = f"new-{pod['metadata']['uid'][:8]}"
            if wanted and not pod["spec"].get("nodeName") and name not in self.added:
                self.added.append(name)
                self._plane.add_nodes([gpu_node(name, "L4", 1, labels={KEY: wanted[0]})])


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One node, for a neighbour."""
    with borrowed_plane([gpu_node("h100", "H100-80GB-HBM3", 1)]) as running:
        install(running)
        yield running


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[OperatorProcess]:
    """The operator, with two groups of nodes."""
    settings: dict[str, Any] = {**IMPATIENT, "PLIMSOLL_NODE_GROUPS": json.dumps(GROUPS)}
    with OperatorProcess(control_plane, environment=settings) as running:
        yield running


def test_a_pod_waits_for_a_node_that_does_not_exist_and_an_autoscaler_starts_it(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    neighbour.apply("settled")
    neighbour.wait_ready("settled")
    here.apply("chat")
    body = here.wait_condition("chat", "Placed", "False", "WaitingForNodes")
    assert "1 pod waits for new nodes of wakes, which an autoscaler starts." in condition(body, "Placed")["message"]
    with Autoscaler(here.control_plane.client, here.control_plane) as autoscaler:
        here.wait_ready("chat")
        assert here.nodes_of("chat") == autoscaler.added
    here.apply("second")
    here.wait_condition("second", "Placed", "False", "WaitingForNodes")
    here.apply("third")
    body = here.wait_condition("third", "Planned", "False")
    assert "add 1 node of the group sleeps" in condition(body, "Planned")["message"], "the first has reached its limit"
    assert here.pods("third") == []
    assert neighbour.nodes_of("settled") == ["h100"]
    assert operator.is_running
