from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.app.watch import equal_parts
from plimsoll.app.watch.equal_parts import shared
from tests.support.work import counted_calls

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 2.5]) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=12,
)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with no kept part, as a new process does."""
    monkeypatch.setattr(equal_parts, "_parts", {})
    monkeypatch.setattr(equal_parts, "_ids", set())
    monkeypatch.setattr(equal_parts, "_members", 0)


@given(st.lists(JSON, max_size=6))
def test_the_same_json_comes_out(values: list[Any]) -> None:
    assert [json.dumps(shared(copy.deepcopy(value))) for value in values] == [json.dumps(value) for value in values]


def test_equal_parts_of_different_objects_are_one_object() -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000}, "command": ["sleep", "5"]}
    one, other = shared({"name": "a", "probe": copy.deepcopy(probe)}), shared({"name": "b", "probe": probe})
    assert one["probe"] is other["probe"]
    assert (one["name"], other["name"]) == ("a", "b")


@pytest.mark.parametrize("other", [1.0, True, "1", [1], None])
def test_numbers_are_told_from_what_python_calls_equal(other: Any) -> None:
    assert json.dumps([shared({"a": 1}), shared({"a": other}), shared({"a": 1})]) == json.dumps(
        [{"a": 1}, {"a": other}, {"a": 1}]
    )


def test_the_order_of_a_mapping_may_differ() -> None:
    assert shared({"a": 1, "b": 2}) == shared({"b": 2, "a": 1})


def test_a_value_that_has_the_hash_of_another_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_parts, "hash", lambda _: 7, raising=False)
    values = [{"a": "x"}, {"a": "y"}, ["x"], {"a": "x"}]
    assert [shared(value) for value in values] == values


def test_no_more_parts_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_parts, "MOST_KEPT", 50)
    kept = [shared({"name": str(number), "same": {"a": "b"}}) for number in range(500)]
    assert len(equal_parts._parts) <= 50  # noqa: SLF001 - the limit is about the memory behind it
    assert kept == [{"name": str(number), "same": {"a": "b"}} for number in range(500)]


def test_versions_of_a_large_object_leave_little_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_parts, "MOST_MEMBERS", 5000)
    for version in range(200):
        shared({"list": [version] * 1000, "text": f"{version}" * 64_000})
    held = sum(len(part) for part in equal_parts._parts.values())  # noqa: SLF001 - the limit is about the memory behind it
    assert held < 10_000


def test_a_kept_part_is_given_back_without_a_look_inside() -> None:
    spec = shared({"containers": [{"args": [f"--flag-{number}" for number in range(100)]}]})
    with counted_calls() as work:
        assert shared({"name": "a", "spec": spec})["spec"] is spec
    assert work.amount < 50
