"""What leaves the cluster of a status that somebody has written into."""

from __future__ import annotations

from plimsoll.status.sharing import with_other_digests, with_other_nodes, without_messages


def test_what_should_be_a_part_and_is_none_stays_in_the_cluster() -> None:
    odd = {"conditions": "a log", "failedMoves": ["a log", {"message": "a log", "times": 1}], "note": "a log"}
    assert without_messages(odd) == {"conditions": None, "failedMoves": [{"times": 1}]}


def test_who_acknowledged_what_and_where_it_serves_stay_in_the_cluster() -> None:
    status = {"replicas": 1, "url": "http://chat.ns", "selector": "a=b", "acknowledged": [{"by": "lena"}]}
    assert without_messages(status) == {"replicas": 1}


def test_nodes_have_other_names_wherever_they_are_named() -> None:
    status = {
        "placement": {"avoidedNodes": ["b", "a"]},
        "pools": [{"name": "p", "avoidedNodes": ["a"]}, {"name": "q"}],
        "rehomings": [{"node": "b"}, {"reason": "r"}],
    }
    assert with_other_nodes(status, {"a": "node-2", "b": "node-1"}.__getitem__) == {
        "placement": {"avoidedNodes": ["node-1", "node-2"]},
        "pools": [{"name": "p", "avoidedNodes": ["node-2"]}, {"name": "q"}],
        "rehomings": [{"node": "node-1"}, {"reason": "r"}],
    }


def test_each_part_has_the_digest_that_it_depends_on() -> None:
    entry, other = {"spec": 1}, {"reason": "r"}
    several = ("pools", "tooSmall", "observations", "failedMoves")
    status = {**{name: [entry, other] for name in several}, "move": entry, "size": entry}
    retune = {"spec": 1, "pools": [{"name": "p", "inputs": "i"}]}
    found = with_other_digests(
        {**status, "retune": retune}, *(f"{name} of {{}}".format for name in ("spec", "size", "start"))
    )
    assert found == {
        **{name: [{"spec": "spec of 1"}, other] for name in several},
        "failedMoves": [{"spec": "start of 1"}, other],
        "move": {"spec": "start of 1"},
        "size": {"spec": "size of 1"},
        "retune": {"spec": "spec of 1", "pools": [{"name": "p"}]},
    }
