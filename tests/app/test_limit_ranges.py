"""LimitRanges in a pass: they bind the pods of their namespace, until they go or while they may be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.kinds import LIMIT_RANGES
from plimsoll.app.shell import DONE_WITHOUT, LISTED_SELDOM, PRUNERS
from plimsoll.app.watch import pruning
from plimsoll.facts.cluster.quota_reading import read_limit_ranges
from tests.support.desk import Desk
from tests.support.limit_ranger import limit_range, limit_range_of

TIGHT = limit_range(namespace="ns", default={"cpu": "500m", "memory": "512Mi"})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_no_pod_is_made_that_a_limit_range_refuses(desk: Desk) -> None:
    desk.store.replace(LIMIT_RANGES, [TIGHT])
    await desk.settle("a")
    assert desk.recorder.made() == []
    assert desk.recorder.reason("a", "Planned") == "NoGpuFits"
    assert {each["reason"] for each in desk.recorder.statuses["a"]["rejections"]} >= {"LimitRangeExceeded"}
    assert desk.recorder.statuses["a"]["remedies"][0]["kind"] == "StateLimits"


async def test_one_of_another_namespace_binds_nobody_here(desk: Desk) -> None:
    desk.store.replace(LIMIT_RANGES, [limit_range(namespace="another", default={"memory": "512Mi"})])
    await desk.settle("a")
    assert desk.recorder.made() == ["a-h100-sxm-80gb-tp1"]


async def test_it_is_placed_as_soon_as_the_limit_range_is_gone(desk: Desk) -> None:
    desk.store.replace(LIMIT_RANGES, [TIGHT])
    await desk.settle("a")
    desk.store.replace(LIMIT_RANGES, [])
    await desk.planner.one_pass()
    assert desk.recorder.made() == ["a-h100-sxm-80gb-tp1"]


async def test_a_limit_range_that_comes_later_changes_nothing_of_what_was_made(desk: Desk) -> None:
    await desk.settle("a")
    made = list(desk.recorder.applied)
    desk.store.replace(LIMIT_RANGES, [TIGHT])
    await desk.planner.one_pass()
    assert [each for each in desk.recorder.applied if each["kind"] == "Deployment"] == [
        each for each in made if each["kind"] == "Deployment"
    ]


def test_an_older_role_without_the_right_to_list_them_holds_nothing_up() -> None:
    assert LIMIT_RANGES in LISTED_SELDOM
    assert "as if no namespace had one" in DONE_WITHOUT[LIMIT_RANGES]


@pytest.mark.parametrize(
    "body",
    [
        TIGHT,
        limit_range_of(
            [
                {"type": "Pod", "max": {"cpu": "8"}, "min": {"cpu": "1"}},
                {"type": "Container", "defaultRequest": {"memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "2"}},
            ]
        ),
    ],
)
def test_what_is_kept_of_a_limit_range_is_all_that_is_read(body: dict[str, Any]) -> None:
    kept = PRUNERS[LIMIT_RANGES]({**body, "status": {"left": "out"}})
    assert kept is not None
    assert set(kept) == {"metadata", "spec"}
    assert read_limit_ranges([kept]) == read_limit_ranges([body])


def test_one_about_claims_alone_is_not_kept() -> None:
    assert pruning.limit_range(limit_range(type="PersistentVolumeClaim", max={"storage": "1Gi"})) is None
