"""Suggestions in whole passes: written with a placement, not again afterwards, and followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.placement.advice import suggestions
from tests.support.live_passes import LivePasses, pools

KINDS = ("l4-24gb", "l40s-48gb")
LOAD: dict[str, Any] = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 8192, "concurrency": 6}


def suggested(live: LivePasses, name: str) -> list[str]:
    status = live.make()[name].new_status
    assert status is not None
    return [each["kind"] for each in status.get("suggestions", ())]


async def test_a_settled_deployment_keeps_its_suggestions_and_nothing_is_computed_or_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LivePasses.open(tmp_path, {"l4-24gb": 1, "l40s-48gb": 2})
    live.put("nearly", *KINDS, **LOAD)
    live.put("cheapest", "l40s-48gb")
    await live.settle()
    assert suggested(live, "nearly") == ["OtherCheckpoint", "NarrowKvCache", "ExpectedLengths"]
    assert suggested(live, "cheapest") == []
    monkeypatch.setattr(suggestions, "judge", None)
    for case in live.make().values():
        assert case.new_status == case.body["status"]


async def test_a_followed_suggestion_moves_what_runs_only_if_its_place_is_ruled_out(tmp_path: Path) -> None:
    live = LivePasses.open(tmp_path, {"l4-24gb": 1, "l40s-48gb": 2})
    live.put("nearly", *KINDS, **LOAD)
    await live.settle()
    assert "NarrowKvCache" in suggested(live, "nearly")
    live.change("nearly", kvCache={"precision": "fp8"})
    assert {kind for kind, _ in pools(live.make()["nearly"])} == {"l40s-48gb"}
    assert suggested(live, "nearly") == []
    live.change("nearly", generation=3, kvCache={"precision": "fp8"}, gpu={"allow": ["l4-24gb"]})
    assert pools(live.make()["nearly"]) == {("l4-24gb", "Active"): 1, ("l40s-48gb", "Retiring"): 1}
