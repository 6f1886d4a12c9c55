"""Nodes that go soon: how long pods are replaced for them."""

from __future__ import annotations

from plimsoll.decision.memory import LeavingNodes
from plimsoll.domain.cluster.fleet import Fleet, IgnoredNode
from plimsoll.domain.public_words import NodeReason
from plimsoll.placement.extra_pods import REPLACEMENT_SECONDS


def cordoned(*names: str) -> Fleet:
    return Fleet((), tuple(IgnoredNode(name, NodeReason.CORDONED) for name in names))


def test_a_node_that_does_not_go_after_all_counts_for_an_hour_and_anew_after_it_took_pods_again() -> None:
    nodes = LeavingNodes()
    assert nodes.look(cordoned("a"), 100.0) == {"a"}
    assert nodes.look(cordoned("a", "b"), 200.0) == {"a", "b"}
    assert sorted(nodes.ends()) == [100.0 + REPLACEMENT_SECONDS, 200.0 + REPLACEMENT_SECONDS]
    assert nodes.look(cordoned("a", "b"), 100.0 + REPLACEMENT_SECONDS) == {"b"}
    assert nodes.look(cordoned("b"), 150.0 + REPLACEMENT_SECONDS) == {"b"}
    assert nodes.look(cordoned("a", "b"), 200.0 + REPLACEMENT_SECONDS) == {"a"}


def test_a_clock_that_was_set_back_lets_no_node_count_longer() -> None:
    nodes = LeavingNodes()
    nodes.look(cordoned("a"), 10_000.0)
    nodes.look(cordoned("a"), 100.0)
    assert nodes.look(cordoned("a"), 100.0 + REPLACEMENT_SECONDS) == frozenset()
