"""CPU, memory and cards of nodes bind the plan: the default scheduler binds exactly the engines that it promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from tests.support.installed import View, condition, install, on_gpu
from tests.support.planes import borrowed_plane

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

GPUS, CORES = 8, 8
ENGINES = 4
"""An engine on one GPU takes two cores."""

CARD = "rdma/ib"

LLAMA_70B_FP8 = "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"


def with_host(node: dict[str, Any], cpu: str, memory: str) -> dict[str, Any]:
    """The node with as many cores and as much memory."""
    for part in ("capacity", "allocatable"):
        node["status"][part] |= {"cpu": cpu, "memory": memory}
    return node


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A node whose GPUs outnumber what its cores feed, one with little memory, a pair with one card, and another."""
    few_cores = with_host(gpu_node("l4-0", "L4", GPUS), str(CORES), "256Gi")
    little_memory = with_host(gpu_node("h100-0", "H100-80GB-HBM3", 2), "64", "60Gi")
    pair = [gpu_node(f"a100-{index}", "A100-SXM4-80GB", 2) for index in range(2)]
    for part in ("capacity", "allocatable"):
        pair[1]["status"][part] |= {CARD: "1"}
    with borrowed_plane([few_cores, little_memory, *pair, gpu_node("l40s-0", "L40S", 4)]) as running:
        install(running)
        yield running


def requests_of(pod: dict[str, Any]) -> dict[str, str]:
    requests: dict[str, str] = pod["spec"]["containers"][0]["resources"]["requests"]
    return requests


def test_eight_gpus_on_eight_cores_run_four_engines_as_planned(here: View, neighbour: View) -> None:
    neighbour.apply("served", **on_gpu("l40s-48gb", 2))
    here.apply("small", replicas=GPUS, **on_gpu("l4-24gb"))
    neighbour.wait_ready("served")
    here.wait(lambda: len(here.nodes_of("small")) == ENGINES, "nodes for the engines")
    body = here.wait_condition("small", "Planned", "False", "WaitingForNodeResources")
    assert [pool["replicas"] for pool in here.pools("small")] == [ENGINES], "the plan promises what the scheduler binds"
    assert len(here.pods("small")) == ENGINES, "no pod waits for a core that no node has"
    rejected = {each["reason"]: each["message"] for each in body["status"]["rejections"] if each["tensorParallel"] == 1}
    assert "at most 0 are free on a node with free GPUs (on l4-0;" in rejected["NodeLacksCpu"]
    judged = next(each["figures"] for each in body["status"]["rejections"] if each["reason"] == "NodeLacksCpu")
    assert judged["fit"] == "Sure", "the memory is not what is short"
    terms = judged["weightsBytes"] + judged["kvCacheBytes"] + judged["activationsBytes"]
    assert (
        0 < terms < judged["expectedBytes"] < judged["computedBytes"] <= judged["budgetBytes"] < judged["usableBytes"]
    )
    assert judged["kvNeededTokens"] <= judged["kvCapacityTokens"]
    others = [each for each in body["status"]["rejections"] if each["reason"] == "GpuTypeNotForced"]
    assert others
    assert not any("figures" in each for each in others), "they were ruled out before their memory was estimated"
    (pod,) = neighbour.pods("served")
    assert {requests_of(pod)[name] for name in ("cpu", "memory")} == {"3", "11Gi"}, "two ranks ask for more than one"


def test_weights_in_host_memory_are_requested_and_refused_where_no_node_has_them(here: View, neighbour: View) -> None:
    offloaded = {"model": {"name": LLAMA_70B_FP8}, **on_gpu("h100-sxm-80gb"), "contextLength": 4096, "concurrency": 4}
    patient = {"slo": {"tpotMilliseconds": 100_000, "ttftMilliseconds": 1_000_000}}
    neighbour.apply("served", **offloaded, **patient, engine={"cpuOffload": "20Gi"})
    here.apply("large", **offloaded, **patient, engine={"cpuOffload": "50Gi"})
    too_low = {"resources": {"limits": {"memory": "16Gi"}}}
    here.apply("killed", **offloaded, **patient, engine={"cpuOffload": "50Gi"}, podTemplate=too_low)
    neighbour.wait_ready("served")
    large = here.wait_condition("large", "Planned", "False", "WaitingForNodeResources")
    killed = here.wait_condition("killed", "Ready", "False", "InvalidSpec")
    assert neighbour.nodes_of("served") == ["h100-0"]
    (pod,) = neighbour.pods("served")
    assert int(requests_of(pod)["memory"].removesuffix("Gi")) >= 20 + 8
    assert {each["reason"] for each in large["status"]["rejections"] if each["gpuType"] == "h100-sxm-80gb"} >= {
        "NodeLacksMemory"
    }
    assert here.pods("large") == here.pods("killed") == []
    message = condition(killed, "Ready")["message"]
    assert "spec.podTemplate.resources.limits.memory: '16Gi'" in message
    assert "write at least 51Gi" in message


def test_an_engine_that_requests_a_card_goes_to_the_node_that_has_it_and_the_next_one_waits(
    here: View, neighbour: View
) -> None:
    with_card = {**on_gpu("a100-sxm-80gb"), "podTemplate": {"resources": {"limits": {CARD: "1"}}}}
    here.apply("first", **with_card)
    here.wait_ready("first")
    here.apply("second", **with_card)
    neighbour.apply("served", **on_gpu("a100-sxm-80gb"))
    second = here.wait_condition("second", "Planned", "False", "WaitingForNodeResources")
    neighbour.wait_ready("served")
    assert here.nodes_of("first") == ["a100-1"]
    assert here.pods("second") == [], "no pod waits for a card that no node has"
    assert f"a pod asks for 1 {CARD} and at most 0 are free" in condition(second, "Planned")["message"]
