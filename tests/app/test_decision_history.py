"""The history in the status: written with the decision, kept by later passes, and never a reason to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from tests.support.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_placement_is_in_the_history_and_the_next_passes_leave_it_as_it_is(desk: Desk) -> None:
    await desk.settle("chat", "mail", gpus=1)
    first = dict(desk.recorder.statuses)
    [entry] = first["chat"]["decisions"]
    assert entry["placed"] == "1 on h100-sxm-80gb x 1"
    assert "decisions" not in first["mail"], "nothing was decided for who waits"
    for number in range(2, 5):
        for body in desk.store.all(INFERENCE_DEPLOYMENTS):
            name = body["metadata"]["name"]
            head = {**body["metadata"], "resourceVersion": str(number)}
            written = {**body, "metadata": head, "status": desk.recorder.statuses[name]}
            desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)
        await desk.planner.one_pass()
        assert desk.recorder.statuses["chat"]["decisions"] == [entry]
        assert "decisions" not in desk.recorder.statuses["mail"]


async def test_the_snapshot_has_the_record_of_the_whole_fleet(desk: Desk) -> None:
    await desk.settle("chat", "mail", gpus=1)
    assert desk.planner.latest is not None
    record = desk.planner.latest.record
    assert record.bill_after > 0
    assert record.unplaced == 1
    count = desk.metrics.registry.get_sample_value("plimsoll_solve_duration_seconds_count")
    await desk.planner.one_pass()
    assert desk.metrics.registry.get_sample_value("plimsoll_solve_duration_seconds_count") == (count or 0) + 1
