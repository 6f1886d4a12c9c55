"""LimitRanges: our answer about a pod is the API server's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll.domain.cluster.containers import Stated
from plimsoll.domain.cluster.limit_ranges import (
    LimitedBy,
    LimitRange,
    LimitRule,
    added_requests,
    default_limit,
    exceeded,
)
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.quota_reading import MOST_ENTRIES, read_limit_ranges
from tests.support.limit_ranger import answers, limit_range, limit_range_of

ENGINE = {"cpu": "2", "memory": "8Gi"}
"""The requests of an engine on one GPU."""


def ranges(*bodies: dict[str, Any]) -> tuple[LimitRange, ...]:
    return read_limit_ranges(bodies).get("team", ())


def stated(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Stated]:
    """The pod as our engines state it: a limit without a request is requested."""
    asked = {**limits, **requests}
    return {name: Stated(_milli(asked[name]), _milli(limits[name]) if name in limits else None) for name in asked}


def _milli(quantity: str) -> int:
    return int(parse_quantity(quantity) * 1000)


ROWS = [
    ("nothing is bounded", [], {}, []),
    ("defaults below", [limit_range(default={"cpu": "500m", "memory": "512Mi"})], {}, ["default", "default"]),
    ("stated limits", [limit_range(default={"cpu": "500m", "memory": "512Mi"})], ENGINE, []),
    ("defaults above", [limit_range(default={"memory": "16Gi"}, defaultRequest={"memory": "1Gi"})], {}, []),
    ("max below", [limit_range(max={"cpu": "1", "memory": "1Gi"})], {}, ["max", "max"]),
    ("max above is the limit", [limit_range(max={"memory": "8Gi"})], {}, []),
    ("a limit above max", [limit_range(max={"memory": "8Gi"})], {"memory": "9Gi"}, ["max"]),
    ("max of a pod asks for a limit", [limit_range(type="Pod", max={"memory": "64Gi"})], {}, ["max"]),
    ("max of a pod and a limit", [limit_range(type="Pod", max={"memory": "64Gi"})], {"memory": "8Gi"}, []),
    ("min above", [limit_range(min={"cpu": "4"})], {}, ["min"]),
    ("min below", [limit_range(min={"cpu": "50m", "memory": "50Mi"})], {}, []),
    ("min of what nobody states", [limit_range(type="Pod", min={"rdma/ib": "1"})], {}, ["min"]),
    ("min is filled in", [limit_range(min={"ephemeral-storage": "1Gi"})], {}, []),
    ("ratio without a limit", [limit_range(maxLimitRequestRatio={"cpu": "2"})], {}, ["maxLimitRequestRatio"]),
    ("ratio kept", [limit_range(maxLimitRequestRatio={"cpu": "2"})], {"cpu": "4"}, []),
    ("ratio kept in thousandths", [limit_range(maxLimitRequestRatio={"cpu": "1500m"})], {"cpu": "3"}, []),
    ("ratio over", [limit_range(maxLimitRequestRatio={"cpu": "1500m"})], {"cpu": "3001m"}, ["maxLimitRequestRatio"]),
    ("claims are not pods", [limit_range(type="PersistentVolumeClaim", max={"storage": "1Gi"})], {}, []),
    (
        "the ratio of a limit that max fills in",
        [limit_range(max={"memory": "100Gi"}, maxLimitRequestRatio={"memory": "2"})],
        {},
        ["maxLimitRequestRatio"],
    ),
]


@pytest.mark.parametrize(("bodies", "limits", "rules"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_pod_is_refused_by_the_rules_of_the_api_server(
    bodies: list[dict[str, Any]], limits: dict[str, str], rules: list[str]
) -> None:
    assert [each.rule.value for each in exceeded(stated(ENGINE, limits), ranges(*bodies))] == rules
    assert answers(bodies, ENGINE, limits) == {not rules}


def test_a_refusal_has_the_figures_of_both_sides() -> None:
    (cpu, memory) = exceeded(stated(ENGINE, {}), ranges(limit_range(max={"cpu": "1"}, default={"memory": "512Mi"})))
    assert (cpu.limit_range, cpu.limited, cpu.rule, cpu.resource) == (
        "limits",
        LimitedBy.CONTAINER,
        LimitRule.MAX,
        "cpu",
    )
    assert (cpu.asked, cpu.bound, cpu.of_limit) == (2000, 1000, False)
    assert (memory.rule, memory.asked, memory.bound) == (LimitRule.DEFAULT, 8 * 2**30 * 1000, 2**29 * 1000)


def test_a_bound_that_a_limit_would_not_lift_is_reported_first() -> None:
    body = limit_range(default={"cpu": "500m"}, max={"cpu": "1"})
    assert [each.rule for each in exceeded(stated(ENGINE, {}), ranges(body))] == [LimitRule.MAX]


def test_what_a_limit_range_adds_to_a_pod() -> None:
    both = ranges(
        limit_range("a", max={"ephemeral-storage": "10Gi"}),
        limit_range("b", default={"ephemeral-storage": "20Gi", "memory": "4Gi", "nvidia.com/gpu": "1"}),
    )
    assert default_limit("memory", both) == 4 * 2**30 * 1000
    assert default_limit("cpu", both) is None
    assert added_requests(both, ("cpu", "memory")) == {"ephemeral-storage": 20 * 2**30 * 1000}


def test_limit_ranges_are_those_of_their_namespace_by_name() -> None:
    bodies = [
        limit_range("b", "one", min={"cpu": "1"}),
        limit_range("a", "one", min={"cpu": "1"}),
        limit_range("claims", "other", type="PersistentVolumeClaim", min={"storage": "1"}),
    ]
    found = read_limit_ranges(bodies)
    assert {namespace: [each.name for each in listed] for namespace, listed in found.items()} == {"one": ["a", "b"]}


@pytest.mark.parametrize("spec", [{}, {"limits": None}, {"limits": [{"type": "Container", "max": {"cpu": "many"}}]}])
def test_what_cannot_be_read_limits_nothing(spec: dict[str, Any]) -> None:
    assert read_limit_ranges([{"metadata": {"name": "a", "namespace": "team"}, "spec": spec}]) == {}


def test_a_hostile_limit_range_costs_little_and_the_usual_resources_still_count() -> None:
    many = {f"example.com/device-{number:05}": "1" for number in range(20_000)}
    entry = {"type": "Container", "min": {**many, "cpu": "4"}, "default": {**many, "memory": "1Gi"}}
    small = {"type": "Pod", "min": {"cpu": "1"}}
    bodies = [limit_range_of([entry, *[small] * 999], f"limits-{number:03}") for number in range(20)]
    (found,) = read_limit_ranges(bodies).values()
    assert len(found) == MOST_ENTRIES
    assert {len(each.bounds) for each in found} == {MOST_ENTRIES + MOST_ENTRIES - 1}
    said = exceeded(stated(ENGINE, {}), found)
    assert {each.resource: each.rule for each in said} == {"cpu": LimitRule.MIN, "memory": LimitRule.DEFAULT}


RESOURCES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "ephemeral-storage"])
FEW = st.sampled_from(["250m", "1", "1500m", "2", "3", "4"])
AMOUNTS = st.dictionaries(RESOURCES, FEW, max_size=2)
PARTS = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
ENTRIES = st.fixed_dictionaries(
    {"type": st.sampled_from(["Container", "Container", "Pod", "PersistentVolumeClaim"])},
    optional=dict.fromkeys(PARTS, AMOUNTS),
)
BODIES = st.lists(st.lists(ENTRIES, min_size=1, max_size=2), max_size=3).map(
    lambda listed: [limit_range_of(entries, f"limits-{number}") for number, entries in enumerate(listed)]
)
GPU = {"nvidia.com/gpu": "2"}


@given(
    BODIES,
    st.fixed_dictionaries({"cpu": FEW, "memory": FEW}, optional={"ephemeral-storage": FEW}),
    st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage"]), FEW),
)
@example(
    [limit_range("a", default={"ephemeral-storage": "1"}), limit_range("b", default={"ephemeral-storage": "3"})],
    ENGINE,
    {},
)
@example([limit_range(type="Pod", max={"memory": "1"}), limit_range("b", default={"memory": "1"})], ENGINE, {})
def test_a_pod_that_we_admit_is_admitted_in_every_order_and_one_that_we_refuse_is_refused_in_some(
    bodies: list[dict[str, Any]], requests: dict[str, str], limits: dict[str, str]
) -> None:
    lowered = {
        name: min(amount, limits.get(name, amount), key=parse_quantity) for name, amount in requests.items()
    }  # a request of ours is never above its limit
    pod = stated({**lowered, **GPU}, {**limits, **GPU})
    assert (not exceeded(pod, ranges(*bodies))) == (answers(bodies, {**lowered, **GPU}, {**limits, **GPU}) == {True})
