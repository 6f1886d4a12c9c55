"""GPUs that a DRA driver publishes, on a real API server and scheduler.

Those of it alone are named. Those that a device plugin offers, too, are used, until a claim holds them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from tests.support.installed import View, condition, install, namespace_of, on_gpu
from tests.support.planes import borrowed_plane
from tests.support.slices import cards, resource_slice

pytestmark = pytest.mark.cluster


DRIVER = "gpu.nvidia.com"
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


def without_devices(name: str) -> dict[str, object]:
    """A node whose GPUs no device plugin announces."""
    body = gpu_node(name, "H100-80GB-HBM3", 8)
    amounts = {key: value for key, value in body["status"]["allocatable"].items() if "nvidia" not in key}
    return {**body, "status": {**body["status"], "allocatable": amounts, "capacity": amounts}}


@pytest.fixture(scope="module")
def here() -> Iterator[View]:
    nodes = [without_devices("drawn-0"), gpu_node("both-0", "L4", 1), gpu_node("claimed-0", "L40S", 1)]
    slices = [resource_slice(name, *cards(gpus)) for name, gpus in (("drawn-0", 8), ("both-0", 1), ("claimed-0", 1))]
    with borrowed_plane([*nodes, *slices, DEVICE_CLASS]) as control_plane:
        install(control_plane)
        with namespace_of(control_plane, "drawn") as view:
            yield view


def test_they_are_named_and_a_node_with_both_is_used(here: View) -> None:
    with OperatorProcess(here.control_plane) as operator:
        here.apply("waits", **on_gpu("h100-sxm-80gb"))
        here.apply("served", **on_gpu("l4-24gb"))
        here.wait_ready("served")
        words = "8 devices of gpu.nvidia.com on 1 node are left out: NotSupported (published through DRA's"
        here.wait(lambda: words in condition(here.get("waits"), "Planned").get("message", ""), "the devices named")
        assert here.nodes_of("served") == ["both-0"]
        assert here.workloads("waits") == []
        assert operator.is_running
        assert not [line for line in operator.log_lines() if "resourceslices" in line]


def claiming(view: View, node: str) -> None:
    """Make a pod that the scheduler gives a GPU of a node, by a claim."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "one", "namespace": view.namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": view.namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "registry.example/c:1", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
        },
    }
    view.control_plane.apply([claim, pod])
    view.wait(lambda: view.read("pods", "train")["spec"].get("nodeName") == node, "the claim's GPU")


def test_a_gpu_that_a_claim_holds_is_free_when_its_pod_has_gone(here: View) -> None:
    claiming(here, "claimed-0")
    with OperatorProcess(here.control_plane) as operator:
        here.apply("next", **on_gpu("l40s-48gb"))
        body = here.wait_condition("next", "Planned", "False", "WaitingForGpus")
        assert "1 GPU on claimed-0 counts as taken: ResourceClaims hold it" in condition(body, "Planned")["message"]
        assert here.workloads("next") == []
        here.delete("pods", "train")
        here.wait_ready("next")
        assert here.nodes_of("next") == ["claimed-0"]
        assert not [line for line in operator.log_lines() if "resourceclaims" in line]
