"""Proposals in words: what to do, what it brings and costs, and no names of other namespaces."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.proposals import Change, Proposal, ProposalReason, Share
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.render.proposal_words import MOST_CHANGES, proposal_sentence
from tests.support.planning import H100, pool


def share(replicas: int, gpus: int = 1) -> Share:
    return Share(replace(pool(H100).target, split=Split(gpus)), replicas)


def preempting(*changes: Change) -> Proposal:
    numbers = (("replicas", 1), ("ended", len(changes)), ("saved", "3.08"), ("added", "6.16"))
    return Proposal((), (share(1, 2),), ProposalReason.PREEMPT_LOWER_PRIORITY, numbers, changes)


BATCH = Change(ObjectKey("ns", "batch"), share(2), "node-1")


def test_preemption_names_what_ends_what_has_room_and_both_prices() -> None:
    assert proposal_sentence(preempting(BATCH), "ns") == (
        "end 2 of batch on h100-sxm-80gb x 1 (node node-1): makes room for 1 more on h100-sxm-80gb x 2. "
        "The new replicas cost $6.16/h, those that end save $3.08/h."
    )


def test_the_name_of_a_deployment_of_another_namespace_is_not_shown() -> None:
    said = proposal_sentence(preempting(BATCH), "other")
    assert "end 2 of another deployment on" in said
    assert "batch" not in said


def test_moves_name_both_nodes_and_what_they_cost_once() -> None:
    numbers = (("replicas", 1), ("moved", 1), ("gpus", 2), ("charge", "0.154"), ("added", "24.64"))
    move = Change(ObjectKey("ns", "chat"), share(1, 2), "node-1", "node-2")
    found = Proposal((), (share(1, 8),), ProposalReason.DEFRAGMENT_NODE, numbers, (move,))
    assert proposal_sentence(found, "ns") == (
        "move 1 of chat on h100-sxm-80gb x 2 from node-1 to node-2: makes room for 1 more on h100-sxm-80gb x 8. "
        "The new replicas cost $24.64/h, the moves of 2 GPUs $0.15 once."
    )


def test_many_changes_are_counted_so_that_a_status_stays_readable() -> None:
    said = proposal_sentence(preempting(*[BATCH] * (MOST_CHANGES + 3)), "ns")
    assert said.count("end 2 of batch") == MOST_CHANGES
    assert "; 3 more: makes room" in said
