"""PriorityClasses: the value of a deployment, that of one without a class, and who may preempt."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.domain.cluster.priorities import LOWEST, NO_PRIORITY, Priority
from plimsoll.facts.cluster.priority_reading import PREEMPTS, read_priority_classes


def priority_class(name: str, value: Any, **more: Any) -> dict[str, Any]:
    annotations = more.pop("annotations", {})
    return {"metadata": {"name": name, "annotations": annotations}, "value": value, **more}


GOLD = priority_class("gold", 1000)


def test_the_value_of_the_named_class_counts() -> None:
    classes = read_priority_classes([GOLD, priority_class("spare", -5)])
    assert (classes.of("gold"), classes.of("spare")) == (Priority(1000), Priority(-5))


@pytest.mark.parametrize("name", [None, ""])
def test_without_a_class_the_global_default_counts_and_else_zero(name: str | None) -> None:
    usual = priority_class("usual", 7, globalDefault=True)
    assert read_priority_classes([GOLD, usual]).of(name) == Priority(7)
    assert read_priority_classes([GOLD]).of(name) == NO_PRIORITY


def test_of_several_global_defaults_the_lowest_counts() -> None:
    defaults = [priority_class(f"d{value}", value, globalDefault=True) for value in (9, 4, 6)]
    assert read_priority_classes(defaults).of(None) == Priority(4)


def test_a_class_that_the_cluster_does_not_have_is_unknown() -> None:
    assert read_priority_classes([GOLD]).of("silver") is None


def test_where_no_class_can_be_read_all_are_equal() -> None:
    assert read_priority_classes([]).of("gold") == Priority(0, evicts=False)
    assert read_priority_classes([]).of(None) == NO_PRIORITY


def test_an_admin_lets_a_class_preempt_by_its_annotation() -> None:
    yes, no = {PREEMPTS: "true"}, {PREEMPTS: "yes"}
    polite = priority_class("polite", 3, annotations=yes, preemptionPolicy="Never")
    classes = read_priority_classes(
        [priority_class("may", 1, annotations=yes), priority_class("typo", 2, annotations=no), polite]
    )
    allowed = [each for each in ("may", "typo", "polite") if (classes.of(each) or NO_PRIORITY).preempts]
    assert allowed == ["may"]


def test_nothing_gives_way_to_a_class_that_never_preempts() -> None:
    classes = read_priority_classes([GOLD, priority_class("polite", 3, preemptionPolicy="Never")])
    bounds = [(classes.of(each) or NO_PRIORITY).evicts_below for each in ("gold", "polite")]
    assert bounds == [1000, LOWEST]
    assert NO_PRIORITY.evicts_below == 0


def test_a_value_that_is_no_number_counts_as_zero() -> None:
    assert read_priority_classes([priority_class("odd", "many")]).of("odd") == NO_PRIORITY
