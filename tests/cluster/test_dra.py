"""GPUs that only a DRA driver publishes, on a real API server: they are named, and other nodes are used as usual."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from tests.support.installed import View, condition, install, namespace_of, on_gpu
from tests.support.planes import borrowed_plane
from tests.support.slices import cards, resource_slice

pytestmark = pytest.mark.cluster


def without_devices(name: str) -> dict[str, object]:
    """A node whose GPUs no device plugin announces."""
    body = gpu_node(name, "H100-80GB-HBM3", 8)
    amounts = {key: value for key, value in body["status"]["allocatable"].items() if "nvidia" not in key}
    return {**body, "status": {**body["status"], "allocatable": amounts, "capacity": amounts}}


@pytest.fixture(scope="module")
def here() -> Iterator[View]:
    nodes = [without_devices("drawn-0"), gpu_node("both-0", "L4", 1)]
    slices = [resource_slice("drawn-0", *cards(8)), resource_slice("both-0", *cards(1))]
    with borrowed_plane([*nodes, *slices]) as control_plane:
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
