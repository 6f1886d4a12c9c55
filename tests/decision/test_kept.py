"""Values that are kept from pass to pass, and requests that stay the same object while nothing changes."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.decision.kept import ChangedRequests, Kept
from tests.support.planning import request


def test_a_value_is_kept_until_a_whole_pass_does_not_use_it() -> None:
    kept = Kept[str]()
    assert kept.get("a") is None
    assert kept.put("a", "first") == "first"
    assert kept.get("a") == "first"
    kept.begin()
    assert kept.get("a") == "first", "of the pass before"
    assert kept.put("a", "second") == "second"
    assert kept.get("a") == "second", "the latest one"
    kept.begin()
    kept.begin()
    assert kept.get("a") is None


def test_a_value_that_means_no_is_a_value() -> None:
    kept = Kept[int]()
    kept.put("a", 1)
    kept.begin()
    kept.put("a", 0)
    assert kept.get("a") == 0


def test_a_request_with_the_same_changes_is_the_same_object_pass_after_pass() -> None:
    requests, asked = ChangedRequests(), request()
    changed = requests.of("uid", asked, replicas=3)
    assert (changed.replicas, asked.replicas) == (3, 1)
    for _ in range(3):
        requests.begin()
        assert requests.of("uid", asked, replicas=3) is changed
    assert requests.of("uid", asked, replicas=1) is asked, "it has that already"
    assert requests.of("uid", asked, replicas=1, priority_class="high") is not asked
    assert requests.of("other", asked, replicas=3) is not changed


def test_another_value_and_another_request_make_another_one() -> None:
    requests, asked = ChangedRequests(), request()
    three = requests.of("uid", asked, replicas=3)
    four = requests.of("uid", asked, replicas=4)
    assert (three.replicas, four.replicas) == (3, 4)
    again = replace(asked, priority_class="high")
    found = requests.of("uid", again, replicas=4)
    assert (found.replicas, found.priority_class) == (4, "high")


def test_what_is_found_for_a_request_is_found_for_it_on_each_other_engine() -> None:
    requests, asked = ChangedRequests(), request()
    on_other = replace(asked, engine=replace(asked.engine, name="sglang"))
    open_to = replace(asked, others=(on_other,), alternatives=(on_other,))
    found = requests.each("uid", open_to, lambda each: {"priority_class": each.engine.name})
    assert found.priority_class == "vllm"
    assert [each.priority_class for each in (*found.others, *found.alternatives)] == ["sglang", "sglang"]
    assert requests.each("uid", asked, lambda _: {}) is asked
