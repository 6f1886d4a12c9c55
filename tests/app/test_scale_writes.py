"""Changes of the number of replicas by others: how often they come, and those that leave the same spec."""

from __future__ import annotations

from typing import Any

from plimsoll.app.watch.scale_writes import ScaleWrites

NOW = 1_700_000_000.0


def spec(replicas: int, **more: Any) -> dict[str, Any]:
    return {"replicas": replicas, "contextLength": 4096, **more}


def seen(*numbers: int, every: float = 60) -> ScaleWrites:
    """An object whose number of replicas was seen to change, the last time now."""
    writes = ScaleWrites()
    for generation, replicas in enumerate(numbers):
        at = NOW - every * (len(numbers) - 1 - generation)
        for _ in range(3):
            writes.look("uid", generation, spec(replicas), at)
    return writes


def test_three_changes_within_an_hour_are_a_contest() -> None:
    assert seen(1, 2, 1, 2).is_contested("uid", NOW)
    assert not seen(1, 2, 1).is_contested("uid", NOW)
    assert not seen(1, 2, 1, 2, every=1900).is_contested("uid", NOW)
    assert not seen(1, 2, 1, 2).is_contested("other", NOW), "an honest neighbour"


def test_a_contest_ends_when_the_number_stays() -> None:
    writes = seen(1, 2, 1, 2)
    assert writes.is_contested("uid", NOW + 3400)
    assert not writes.is_contested("uid", NOW + 3600)
    at_once = seen(1, 2, 1, 2, every=0)
    assert at_once.is_contested("uid", NOW + 3599)
    assert not at_once.is_contested("uid", NOW + 3600), "an hour, and no second longer"


def test_stops_and_wake_ups_are_no_contest() -> None:
    assert not seen(1, 0, 1, 0, 1, 0, 2).is_contested("uid", NOW)


def test_other_changes_of_the_spec_are_no_contest() -> None:
    writes = ScaleWrites()
    for generation in range(9):
        writes.look("uid", generation, spec(1, contextLength=4096 + generation), NOW)
    assert not writes.is_contested("uid", NOW)


def test_the_same_spec_at_another_generation_was_changed_and_changed_back() -> None:
    writes = seen(1)
    assert not writes.came_back("uid", 0)
    writes.look("uid", 2, spec(1), NOW)
    assert writes.came_back("uid", 0)
    assert writes.came_back("uid", None)
    assert not writes.came_back("uid", 2), "a status knows of it"
    assert not writes.came_back("other", 0)
    assert not seen(1, 0, 1).came_back("uid", 0), "both writes were seen"


def test_objects_that_are_gone_are_forgotten() -> None:
    writes = seen(1, 2, 1, 2)
    writes.keep_only(["other"])
    assert not writes.is_contested("uid", NOW)
