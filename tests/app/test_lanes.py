"""Turns: many namespaces, few places."""

from __future__ import annotations

from collections import deque

from plimsoll.app.lookups.lanes import Lane


def lane(at_once: int, per_namespace: int, **queues: list[str]) -> Lane[str]:
    made: Lane[str] = Lane(at_once, per_namespace)
    made.offer({namespace: deque(queue) for namespace, queue in queues.items()})
    return made


def test_no_more_begins_than_there_are_places_in_all_and_for_one() -> None:
    both = lane(4, 2, a=["a1", "a2", "a3"], b=["b1"])
    assert [both.begin() for _ in range(4)] == ["a1", "b1", "a2", None]
    three = lane(2, 2, a=["a1"], b=["b1"], c=["c1"])
    assert [three.begin() for _ in range(3)] == ["a1", "b1", None]


def test_who_waited_longest_is_next_even_behind_a_crowd() -> None:
    crowd = lane(1, 1, a=[f"a{number}" for number in range(60)])
    assert crowd.begin() == "a0"
    crowd.offer({"a": deque(["a1", "a2"]), "b": deque(["b1", "b2"])})
    order = []
    for namespace in ("a", "b", "a", "b"):
        crowd.end(namespace)
        order.append(crowd.begin())
    assert order == ["b1", "a1", "b2", "a2"]


def test_the_turn_that_was_had_is_kept_while_it_runs() -> None:
    turns = lane(2, 1, a=["a1"])
    assert turns.begin() == "a1"
    turns.offer({"a": deque(["a2"]), "b": deque(["b1"])})
    assert (turns.begin(), turns.begin()) == ("b1", None)
    turns.end("a")
    assert turns.begin() == "a2"


def test_who_waited_longest_is_next_whatever_order_the_namespaces_are_offered_in() -> None:
    turns = lane(1, 1, a=["a1"], b=["b1"], c=["c1"])
    for namespace in ("a", "b", "c"):
        assert turns.begin() == f"{namespace}1"
        turns.end(namespace)
    turns.offer({"c": deque(["c2"]), "b": deque(["b2"]), "a": deque(["a2"])})
    order = []
    for namespace in ("a", "b", "c"):
        order.append(turns.begin())
        turns.end(namespace)
    assert order == ["a2", "b2", "c2"]


def test_a_namespace_that_has_nothing_to_do_comes_first_when_it_has_again() -> None:
    turns = lane(1, 1, a=["a1"], b=["b1"])
    for namespace in ("a", "b"):
        turns.begin()
        turns.end(namespace)
    turns.offer({"a": deque(["a2"]), "b": deque()})
    turns.offer({"a": deque(["a2"]), "b": deque(["b2"])})
    assert turns.begin() == "b2"


def test_the_place_of_an_item_that_ends_is_free_for_its_own_namespace() -> None:
    turns = lane(3, 2, a=["a1", "a2", "a3"])
    assert [turns.begin() for _ in range(3)] == ["a1", "a2", None]
    turns.end("a")
    assert [turns.begin() for _ in range(2)] == ["a3", None]
    turns.end("a")
    turns.end("a")
    turns.offer({"a": deque(["a4", "a5", "a6"])})
    assert [turns.begin() for _ in range(3)] == ["a4", "a5", None]
