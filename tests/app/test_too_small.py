"""Placements that proved too small, from the engines' reports to the status, with neighbours that hold enough."""

from __future__ import annotations

from typing import Any

from plimsoll.app.plan.rendered import Desired
from tests.support.live_passes import AUTO, EASY, L4, Open

POOLS: dict[str, Any] = {"contextLength": 8192, "concurrency": 32, "engine": {"runner": "Pooling"}}
GENERATES: dict[str, Any] = {}
STEP_AND_REQUEST = 8192 + 2048


def small(case: Desired) -> list[dict[str, Any]]:
    assert case.new_status is not None
    return [dict(entry) for entry in case.new_status.get("tooSmall") or ()]


async def test_an_engine_that_pools_proves_too_small_below_a_step_and_a_request_and_another_below_all(
    opened: Open,
) -> None:
    there = opened(l4=4)
    reported = {"enough": STEP_AND_REQUEST, "less": STEP_AND_REQUEST - 1, "generates": 4 * 4096, "lacks": 4 * 4096 - 1}
    for name in reported:
        there.put(name, L4, rebalancing=AUTO, **(GENERATES if name in ("generates", "lacks") else POOLS))
    await there.settle()
    for name, case in there.make().items():
        there.load(case, EASY, capacity=reported[name])
    found = {name: [entry["kvTokens"] for entry in small(case)] for name, case in there.make().items()}
    assert found == {"enough": [], "less": [STEP_AND_REQUEST - 1], "generates": [], "lacks": [4 * 4096 - 1]}
