"""Two PriorityClasses on a real cluster: the higher one waits less, and nobody who runs is evicted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from tests.support.installed import View, condition, install, on_gpu
from tests.support.planes import borrowed_plane

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

H100 = on_gpu("h100-sxm-80gb")


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def of_class(name: str) -> dict[str, Any]:
    return {**H100, "podTemplate": {"priorityClassName": name}}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One H100 for the contest, and an L40S for the neighbour; a second H100 comes later."""
    nodes = [gpu_node("h100-0", "H100-80GB-HBM3", 1), gpu_node("l40s-0", "L40S", 1)]
    with borrowed_plane([*nodes, priority_class("gold", 1000), priority_class("plain", 10)]) as running:
        install(running)
        yield running


def test_the_higher_class_gets_the_last_gpu_and_a_running_lower_one_stays(
    here: View, neighbour: View, operator: OperatorProcess
) -> None:
    here.apply("runs", **of_class("plain"))
    here.wait_ready("runs")
    running = here.pod_uids("runs")
    here.apply("older", **of_class("plain"))
    here.wait_condition("older", "Planned", "False", "WaitingForGpus")
    here.apply("younger", **of_class("gold"))
    here.wait_condition("younger", "Planned", "False", "WaitingForGpus")
    neighbour.apply("served", **on_gpu("l40s-48gb"))
    neighbour.wait_ready("served")
    assert here.pod_uids("runs") == running, "nobody is evicted for a higher priority"

    here.control_plane.apply([gpu_node("h100-1", "H100-80GB-HBM3", 1)])
    here.wait(lambda: here.pods("younger") or here.pods("older"), "a pod for the new GPU")
    assert not here.pods("older"), operator.log_lines()
    here.wait_ready("younger")
    assert here.nodes_of("younger") == ["h100-1"]
    assert not here.pods("older")
    assert here.pod_uids("runs") == running
    assert condition(here.get("runs"), "Ready")["status"] == "True"
    assert neighbour.nodes_of("served") == ["l40s-0"]


def test_a_class_that_does_not_exist_is_named_until_somebody_creates_it(here: View, neighbour: View) -> None:
    here.apply("mistaken", **of_class(f"silver-{here.namespace}"))
    body = here.wait_condition("mistaken", "Ready", "Unknown", "PriorityClassMissing")
    assert "spec.podTemplate.priorityClassName" in condition(body, "Ready")["message"]
    neighbour.apply("served", **on_gpu("l40s-48gb"))
    neighbour.wait_ready("served")
    assert not here.workloads("mistaken")
    here.control_plane.apply([priority_class(f"silver-{here.namespace}", 20)])
    here.wait_ready("mistaken")
