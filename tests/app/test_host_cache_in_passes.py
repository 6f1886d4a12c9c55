"""A KV cache in host memory, in whole passes: in status and pods, and of the same size while the spec is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plimsoll.adapters.cluster.client import PODS
from plimsoll.app.plan.rendered import Desired
from plimsoll.cli.planning import plan_located
from plimsoll.cli.reading.documents import Located
from plimsoll.decision.memory import Memory
from plimsoll.domain.units import GIB
from testbed.fleet import gpu_node
from tests.support.live_passes import LivePasses
from tests.support.rendered import fleet_of

OTHER: dict[str, Any] = {
    "metadata": {"name": "other", "namespace": "others", "uid": "pod-other", "resourceVersion": "1"},
    "spec": {
        "nodeName": "h100-sxm-80gb",
        "containers": [{"name": "c", "resources": {"requests": {"memory": "1500Gi"}}}],
    },
    "status": {"phase": "Running"},
}
"""A pod of somebody else that takes most of the node's memory."""


def pods(case: Desired) -> tuple[str | None, str, str]:
    """The size that the engine is given, the size of its shared memory, and the memory that its pods request."""
    [workload] = (each for each in case.manifests if each["kind"] == "Deployment")
    spec = workload["spec"]["template"]["spec"]
    [engine] = spec["containers"]
    [shared] = (each["emptyDir"]["sizeLimit"] for each in spec["volumes"] if each["name"] == "shm")
    words = engine["args"]
    size = words[words.index("--kv-offloading-size") + 1] if "--kv-offloading-size" in words else None
    return size, shared, engine["resources"]["requests"]["memory"]


def kept(case: Desired) -> tuple[int | None, list[str]]:
    """The size in the pool's record, and the names of the placement's parts of host memory."""
    status = case.new_status
    assert status is not None
    [pool] = status["pools"]
    return pool.get("hostCacheBytes"), [each["name"] for each in status["placement"]["host"]["terms"]]


async def test_a_size_by_the_spec_is_rendered_and_its_neighbour_is_not_touched(tmp_path: Path) -> None:
    live = LivePasses.open(tmp_path, {"h100-sxm-80gb": 8})
    live.put("cached", kvCache={"hostMemory": "64Gi"})
    live.put("plain")
    await live.settle()
    settled = live.make()
    assert pods(settled["cached"]) == ("64", "66Gi", "72Gi")
    assert kept(settled["cached"]) == (64 * GIB, ["processes", "ranks", "loading", "sharedMemory", "kvCache"])
    shown, unknown = (settled[name].body["status"]["placement"]["host"].get("cache") for name in ("cached", "plain"))
    assert unknown is None
    assert (shown["sizeBytes"], shown["tokens"]) == (64 * GIB, 64 * GIB // 917_504 * 16), "28 layers, 4 heads of 128"
    assert "isLeast" not in shown
    assert 0 < shown["loadedNanoseconds"] < shown["computedNanoseconds"]
    assert pods(settled["plain"]) == (None, "2Gi", "8Gi")
    assert kept(settled["plain"]) == (None, ["processes", "ranks", "loading", "sharedMemory"])
    assert all(case.new_status == case.body["status"] for case in settled.values())


async def test_an_open_size_is_chosen_once_and_survives_a_restart_of_the_operator(tmp_path: Path) -> None:
    """2,048 GiB for eight GPUs: half of 256 a GPU. What others take afterwards does not start its engines again."""
    live = LivePasses.open(tmp_path, {"h100-sxm-80gb": 8})
    live.put("cached", kvCache={"hostMemory": "auto"})
    await live.settle()
    chosen = pods(live.make()["cached"])
    assert chosen == ("128", "130Gi", "136Gi")
    assert kept(live.make()["cached"])[0] == 128 * GIB
    live.store.replace(PODS, [*live.store.all(PODS), OTHER])
    assert pods(live.make()["cached"]) == chosen
    live.passes.memory = Memory()
    assert pods(live.make()["cached"]) == chosen
    live.change("cached", contextLength=2048)
    found = int(pods(live.make()["cached"])[0] or 0)
    assert 0 < found < 128, "engines start again for the spec, and less is free now"


async def test_what_cannot_be_says_field_value_and_fix_in_status_and_plan_and_its_neighbour_is_placed(
    tmp_path: Path,
) -> None:
    refused: dict[str, tuple[dict[str, Any], str, str]] = {
        "old": (
            {"engine": {"version": "0.11.0"}},
            "200Gi",
            "cannot be used. vLLM 0.11.0 does not support it: use 0.11.1 or newer.",
        ),
        "other": (
            {"engine": {"name": "sglang"}},
            "200Gi",
            "cannot be used. It is not supported with SGLang: remove the field, or set spec.engine.name to vllm.",
        ),
        "large": ({}, "9000Gi", "What helps: lower spec.kvCache.hostMemory from 9000Gi to 20"),
    }
    live = LivePasses.open(tmp_path, {"h100-sxm-80gb": 8})
    for name, (more, size, _) in refused.items():
        live.put(name, kvCache={"hostMemory": size}, **more)
    live.put("plain")
    await live.settle()
    cases = live.make()
    for name, (_, size, fix) in refused.items():
        status = cases[name].new_status
        assert status is not None
        said = " ".join(each["message"] for each in status["conditions"])
        assert fix in said
        assert "spec.kvCache.hostMemory" in said
        assert size.removesuffix("Gi") in said
        asked = [Located("t", {**cases[each].body, "status": {}}) for each in (name, "plain")]
        planned, problems = plan_located(asked, fleet_of(gpu_node("h", "H100-80GB-HBM3", 8)), lambda each: each)
        words = [*problems, *(each.document().get("message") or "" for each, _ in planned)]
        assert any(fix in each for each in words)
        assert [each.is_placed for each, _ in planned][-1]
    assert pods(cases["plain"]) == (None, "2Gi", "8Gi")
