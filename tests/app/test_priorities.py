"""Priorities in a pass: the class of the pods says who comes first; a class that does not exist is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import PRIORITY_CLASSES
from tests.support.desk import Desk

HONEST = "honest"


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "value": value, **more}


def put(desk: Desk, gpus: int, **classes: str) -> None:
    """Objects with these classes, in the order of their names; an empty class names none."""
    desk.put(*classes, gpus=gpus)
    for body in desk.store.all(desk.store.kinds[0]):
        name = classes[body["metadata"]["name"]]
        if name:
            body["spec"]["podTemplate"] = {"priorityClassName": name}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def passes(desk: Desk) -> None:
    await desk.planner.one_pass()
    await desk.look_up()
    await desk.planner.one_pass()


async def test_the_higher_class_gets_the_last_gpu(desk: Desk) -> None:
    desk.store.replace(PRIORITY_CLASSES, [priority_class("gold", 1000)])
    put(desk, 1, a="", b="gold")
    await passes(desk)
    assert desk.recorder.made() == ["b-h100-sxm-80gb-tp1"]


async def test_the_global_default_counts_for_those_without_a_class(desk: Desk) -> None:
    classes = [priority_class("low", -10), priority_class("usual", 5, globalDefault=True)]
    desk.store.replace(PRIORITY_CLASSES, classes)
    put(desk, 1, a="low", b="")
    await passes(desk)
    assert desk.recorder.made() == ["b-h100-sxm-80gb-tp1"]


async def test_without_the_right_to_read_classes_all_are_equal(desk: Desk) -> None:
    put(desk, 1, a="", b="gold")
    await passes(desk)
    assert desk.recorder.made() == ["a-h100-sxm-80gb-tp1"]


async def test_a_class_that_does_not_exist_is_named_and_others_are_placed(desk: Desk) -> None:
    desk.store.replace(PRIORITY_CLASSES, [priority_class("gold", 1000)])
    put(desk, 2, a="silver", honest="gold")
    await passes(desk)
    assert desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"]
    assert desk.recorder.reason("a") == "PriorityClassMissing"
    message = desk.recorder.statuses["a"]["conditions"][0]["message"]
    assert "spec.podTemplate.priorityClassName" in message
    assert "'silver'" in message


async def test_it_is_placed_as_soon_as_the_class_is_there(desk: Desk) -> None:
    desk.store.replace(PRIORITY_CLASSES, [priority_class("gold", 1000)])
    put(desk, 1, a="silver")
    await passes(desk)
    desk.store.observe(PRIORITY_CLASSES, "ADDED", priority_class("silver", 10))
    await passes(desk)
    assert desk.recorder.made() == ["a-h100-sxm-80gb-tp1"]
