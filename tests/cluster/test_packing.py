"""Small engines leave whole nodes free: the default scheduler binds every pod of a plan in which everything fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from tests.support.installed import View, condition, inference_deployment, install, on_gpu
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

NODES, GPUS_PER_NODE = 5, 8
SMALL, LARGE = 15, 3
"""Spread over all nodes, the small ones would leave none of them whole."""
ALL_BOUND_SECONDS = 120.0


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Nodes for the engines, and one of another GPU type for the neighbour."""
    nodes = [gpu_node(f"h100-{index}", "H100-80GB-HBM3", GPUS_PER_NODE) for index in range(NODES)]
    with borrowed_plane([*nodes, gpu_node("l40s-0", "L40S", 4)]) as running:
        install(running)
        yield running


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[OperatorProcess]:
    """The operator, as patient with the scheduler as usual."""
    with OperatorProcess(control_plane) as running:
        yield running


def many_deployments(here: View) -> None:
    small = on_gpu("h100-sxm-80gb")
    here.control_plane.apply([inference_deployment(f"small-{i}", here.namespace, **small) for i in range(SMALL)])


def many_replicas(here: View) -> None:
    here.apply("small", replicas=SMALL, **on_gpu("h100-sxm-80gb"))


def whole_nodes(here: View) -> None:
    large = on_gpu("h100-sxm-80gb", GPUS_PER_NODE)
    here.control_plane.apply([inference_deployment(f"large-{i}", here.namespace, **large) for i in range(LARGE)])


def bound(here: View, prefix: str) -> list[dict[str, Any]]:
    """The pods that have a node, of the InferenceDeployments with this prefix."""
    pods = [pod for pod in here.all("pods") if pod["metadata"]["name"].startswith(prefix)]
    return [pod for pod in pods if pod["spec"].get("nodeName")]


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("small_engines", [many_deployments, many_replicas])
def test_engines_of_a_whole_node_find_one_after_many_small_engines(
    here: View, neighbour: View, small_engines: Callable[[View], None]
) -> None:
    small_engines(here)
    here.wait(lambda: len(bound(here, "small")) == SMALL, "nodes for the small engines", ALL_BOUND_SECONDS)
    whole_nodes(here)
    here.wait(lambda: len(bound(here, "large")) == LARGE, "nodes for the large engines", ALL_BOUND_SECONDS)
    neighbour.apply("served", **on_gpu("l40s-48gb"))
    neighbour.wait_ready("served")

    assert len(bound(here, "small")) == SMALL, "no small engine lost its node"
    assert len({pod["spec"]["nodeName"] for pod in bound(here, "large")}) == LARGE
    assert neighbour.nodes_of("served") == ["l40s-0"]


def test_small_and_large_engines_of_one_burst_all_find_nodes(
    here: View, neighbour: View, operator: OperatorProcess
) -> None:
    """They are all there when the operator starts."""
    operator.stop()
    small, large = on_gpu("h100-sxm-80gb"), on_gpu("h100-sxm-80gb", GPUS_PER_NODE)
    burst = [inference_deployment(f"small-{i}", here.namespace, **small) for i in range(SMALL)]
    burst += [inference_deployment(f"large-{i}", here.namespace, **large) for i in range(LARGE)]
    here.control_plane.apply(burst)
    neighbour.apply("served", **on_gpu("l40s-48gb"))
    operator.start().wait_healthy()
    here.wait(lambda: len(bound(here, "large")) == LARGE, "nodes for the large engines", ALL_BOUND_SECONDS)
    here.wait(lambda: len(bound(here, "small")) == SMALL, "nodes for the small engines", ALL_BOUND_SECONDS)
    neighbour.wait_ready("served")


@pytest.mark.usefixtures("operator")
def test_a_quota_that_forbids_affinity_across_namespaces_is_quoted(here: View, neighbour: View) -> None:
    scope = {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-affinity", "namespace": here.namespace},
        "spec": {"hard": {"pods": "0"}, "scopeSelector": scope},
    }
    here.control_plane.apply([quota])
    where = ("quota", "no-affinity", "-n", here.namespace, "-o", "jsonpath={.status}")
    here.wait(lambda: "hard" in here.control_plane.kubectl("get", *where), "the quota counted")
    here.apply("refused", **on_gpu("h100-sxm-80gb"))
    body = here.wait_condition("refused", "Ready", "False", "PodsNotCreated")
    neighbour.apply("served", **on_gpu("l40s-48gb"))
    neighbour.wait_ready("served")
    assert "exceeded quota: no-affinity" in condition(body, "Placed")["message"]
