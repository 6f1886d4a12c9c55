"""The changes since yesterday: from the past that statuses keep, the newest first, with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.console.views.changes import SPANS, changes_of, span_of
from plimsoll.domain.units import to_rfc3339
from tests.support.console_pages import chat, page_of, world_of
from tests.support.proposals import NOW, proposal

DAY = SPANS["24h"][0]
HOUR = 3600.0


def at(hours: float) -> str:
    return to_rfc3339(NOW - hours * HOUR)


def body() -> dict[str, Any]:
    """A deployment of last week that was moved yesterday morning, grew an hour ago, and serves since."""
    made = chat()
    made["metadata"]["creationTimestamp"] = at(150)
    status = made["status"]
    status["decisions"] = [
        {"id": "b2", "at": at(1), "placed": "1200 on l4-24gb x 1", "replaced": "1000 on l4-24gb x 1"},
        {"id": "a1", "at": at(30), "placed": "1000 on l4-24gb x 1"},
    ]
    status["rebalancing"] = {
        "decision": "Keep",
        "reason": "WithinBounds",
        "message": "Nothing to do.",
        "changes": [
            {"at": to_rfc3339(NOW - HOUR - 20), "kind": "Add", "reason": "SustainedKvPressure", "replicas": 1200},
            {"at": at(5), "kind": "Retune", "reason": "LatencyAboveTarget"},
        ],
    }
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    ready |= {"status": "True", "reason": "Serving", "message": "All serve.", "lastTransitionTime": at(0.5)}
    return made


def lines(seconds: float = DAY, search: str = "") -> list[tuple[str, str, str]]:
    found = changes_of(world_of(body(), proposals=(proposal(),)), NOW, seconds, search)
    return [(each.word, each.words, each.reason) for each in found]


def test_the_changes_of_a_day_are_told_the_newest_first_each_with_its_reason() -> None:
    posted = proposal()
    assert lines() == [
        ("serving", "All serve.", "Serving"),
        ("placed", "1,200 on l4-24gb x 1 instead of 1,000 on l4-24gb x 1", "SustainedKvPressure"),
        ("proposed", posted["summary"], posted["reason"]),
        ("engines restarted with other settings", "", "LatencyAboveTarget"),
    ]


def test_a_longer_time_has_the_older_ones_too_and_an_hour_fewer() -> None:
    assert [word for word, _, _ in lines(SPANS["7d"][0])][-2:] == ["placed", "created"]
    assert [word for word, _, _ in lines(HOUR - 1)] == ["serving"]
    assert lines(search="no such name") == []


@pytest.mark.parametrize(("asked", "span"), [("1h", "1h"), ("", "24h"), ("<script>", "24h")])
def test_an_unknown_time_is_a_day(asked: str, span: str) -> None:
    assert span_of(asked) == span


async def test_the_page_is_in_the_navigation_and_linked_from_the_inbox() -> None:
    world = world_of(body())
    seen = await page_of("/changes", world)
    assert "1,200 on l4-24gb x 1 instead of 1,000 on l4-24gb x 1" in seen.text
    assert "1 h ago" in seen.text
    assert "Nothing changed in the last hour" not in seen.text
    empty = await page_of("/changes", world_of(), query={"since": ("1h",)})
    assert "Nothing changed in the last hour" in empty.text
    inbox = await page_of("/", world)
    assert "/changes" in [each.get("href") for each in inbox.all("a")]
    assert "What changed since yesterday" in inbox.text
