"""One pass creates the largest pods first, and a slow tenant delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES
from plimsoll.app.write.creation_order import largest_pods_first
from testbed.fleet import gpu_node
from tests.support.bodies import Body, inference_deployment_body
from tests.support.desk import Desk
from tests.support.eventually import eventually

H100, L40S = "h100-sxm-80gb", "l40s-48gb"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    nodes = [gpu_node(f"h100-{index}", "H100-80GB-HBM3", 8) for index in range(4)]
    nodes.append(gpu_node("l40s-0", "L40S", 8))
    for serial, node in enumerate(nodes):
        node["metadata"] |= {"uid": f"node-{serial}", "resourceVersion": str(serial + 1)}
    made.store.replace(NODES, nodes)
    yield made
    await made.book.close()


def wish(name: str, gpus: int, *, namespace: str = "ns", gpu_type: str = H100, **spec: Any) -> Body:
    plain = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 6}
    body = inference_deployment_body(
        name,
        uid=f"uid-{namespace}-{name}",
        spec=plain | {"overrides": {"gpuType": gpu_type, "tensorParallel": gpus}} | spec,
    )
    body["metadata"]["namespace"] = namespace
    return body


async def served(desk: Desk, *bodies: Body) -> list[str]:
    """The names of the Deployments, in the order of their creation."""
    desk.store.replace(INFERENCE_DEPLOYMENTS, list(bodies))
    await desk.planner.one_pass()
    await desk.look_up()
    await desk.planner.one_pass()
    return desk.recorder.made()


async def test_pods_that_take_more_gpus_are_created_first(desk: Desk) -> None:
    made = await served(desk, wish("one", 1), wish("eight", 8), wish("two", 2), wish("four", 4))
    assert made == [f"eight-{H100}-tp8", f"four-{H100}-tp4", f"two-{H100}-tp2", f"one-{H100}-tp1"]


async def test_namespaces_alternate_among_pods_of_one_size(desk: Desk) -> None:
    many = [wish(f"a{index}", 1, namespace="many") for index in range(3)]
    made = await served(desk, *many, wish("b", 1, namespace="one"))
    assert [name.split("-")[0] for name in made] == ["a0", "b", "a1", "a2"]


async def test_a_tenant_whose_large_pods_are_created_slowly_holds_up_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll.app.write.writers.PATIENCE_SECONDS", 0.1)
    desk.recorder.hold["large"] = asyncio.Event()
    await served(
        desk, wish("large", 8, namespace="slow"), wish("small", 1), wish("other", 1, namespace="honest", gpu_type=L40S)
    )
    await eventually(lambda: sorted(desk.recorder.made()) == [f"other-{L40S}-tp1", f"small-{H100}-tp1"])
    desk.recorder.hold.pop("large").set()
    await asyncio.gather(*desk.writers.running())
    assert desk.recorder.made()[-1] == f"large-{H100}-tp8"


async def test_objects_that_add_no_pod_come_last(desk: Desk) -> None:
    await served(desk, wish("large", 8), wish("small", 1))
    running = [each for each in desk.recorder.applied if each["kind"] == "Deployment" and "large" in str(each)]
    for version, body in enumerate(running):
        body["metadata"] |= {"uid": f"workload-{version}", "resourceVersion": str(version + 1)}
    desk.store.replace(DEPLOYMENTS, running)
    done = desk.passes.make(desk.store.picture(), {}, now=1_800_000_000.0)
    assert [case.key.name for case in largest_pods_first(done.desired)] == ["small", "large"]


async def test_one_object_creates_the_pool_with_the_largest_pods_first(desk: Desk) -> None:
    model, gpu = {"name": "meta-llama/Llama-3.3-70B-Instruct"}, {"allow": [H100, L40S]}
    load: dict[str, Any] = {"precision": "fp8", "contextLength": 32768, "concurrency": 4}
    made = await served(desk, wish("wide", 1, model=model, replicas=17, gpu=gpu, overrides={}, **load))
    assert made == [f"wide-{L40S}-tp4", f"wide-{H100}-tp2"]
