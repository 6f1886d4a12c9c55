"""A KV cache that the planner made fp8, in whole passes: in status and arguments, and kept while it is permitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plimsoll.app.plan.rendered import Desired
from tests.support.live_passes import LivePasses

LOAD: dict[str, Any] = {
    "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
    "kvCache": {"allowFp8": True},
    "contextLength": 8192,
    "concurrency": 6,
}


def cache(case: Desired) -> tuple[str, str | None, str]:
    """The precision of the model's status and of the pool's, and the engine's argument."""
    status = case.new_status
    assert status is not None
    [workload] = (each for each in case.manifests if each["kind"] == "Deployment")
    arguments = workload["spec"]["template"]["spec"]["containers"][0]["args"]
    [pool] = status["pools"]
    flag = arguments[arguments.index("--kv-cache-dtype") + 1]
    return status["model"]["kvPrecision"], pool.get("kvPrecision"), flag


async def test_the_choice_is_written_and_kept_when_a_smaller_load_would_not_need_it(tmp_path: Path) -> None:
    live = LivePasses.open(tmp_path, {"l4-24gb": 1, "l40s-48gb": 2})
    live.put("narrow", "l4-24gb", "l40s-48gb", **LOAD)
    live.put("other", "l40s-48gb", kvCache={"allowFp8": True})
    await live.settle()
    settled = live.make()
    assert cache(settled["narrow"]) == ("fp8", "fp8", "fp8")
    assert cache(settled["other"]) == ("bf16", None, "auto")
    assert all(case.new_status == case.body["status"] for case in settled.values())
    live.change("narrow", concurrency=2)
    assert cache(live.make()["narrow"]) == ("fp8", "fp8", "fp8")
    live.change("narrow", generation=3, concurrency=2, kvCache={"precision": "auto"})
    assert cache(live.make()["narrow"]) == ("bf16", None, "auto")
