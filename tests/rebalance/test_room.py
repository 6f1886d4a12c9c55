"""Where nothing is free for one more replica, the loop says what others could do, and does none of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.decisions.proposals import Change, Proposal, ProposalReason, Share
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.demands.pools import Decision, as_it_is
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import Room, WhatIf
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Wait
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.situation import Situation
from plimsoll.rebalance.why import sentence
from tests.support import live_situations as live
from tests.support.engine_loads import Serves
from tests.support.hypotheses import no_room, room_for_all
from tests.support.live_situations import AUTO, BUSY, EASY
from tests.support.planning import L40S, pool
from tests.support.tables import examples

ADVICE = replace(AUTO, mode=Mode.RECOMMEND)
THERE = Target(L40S, Split(1), ("k", "v"), "nvidia.com/gpu")
OTHER = Change(ObjectKey("elsewhere", "low"), Share(THERE, 1), "n")
PRESSING = Serves(rate=1.0, kv_usage=0.99, running=250)


def proposal(reason: ProposalReason = ProposalReason.PREEMPT_LOWER_PRIORITY) -> Proposal:
    figures = (("replicas", 1), ("ended" if reason == ProposalReason.PREEMPT_LOWER_PRIORITY else "moved", 2))
    return Proposal((Share(THERE, 1),), (Share(THERE, 1), Share(THERE, 1)), reason, figures, (OTHER,))


def after(lacking: Answer) -> Decision:
    replicas = lacking.tenant.request.replicas
    return Decision(lacking.tenant.request, (as_it_is(pool(L40S, replicas=replicas)),))


def with_others(about: WhatIf, made: Proposal | None, asked: list[int] | None = None) -> WhatIf:
    """Return the answers of a deployment whose neighbours could make this room; ``asked`` notes the looks for it."""

    def look(lacking: Answer) -> Room | None:
        if asked is not None:
            asked.append(lacking.tenant.request.replicas)
        return None if made is None else Room(made, after(lacking), 120)

    return replace(about, room=look)


def pressed(replicas: int = 1, **changes: object) -> Situation:
    return live.situation(*replicas * (PRESSING,), model=None, **changes)  # type: ignore[arg-type]


def asks(where: Situation, made: Proposal | None = None, asked: list[int] | None = None) -> LoopResult:
    return decide(where, with_others(no_room(where.placement.replicas), made, asked))


def test_what_would_be_carried_out_waits_and_names_what_others_can_do() -> None:
    decided = asks(pressed(), proposal())
    assert decided.decision == Wait(
        DecisionReason.OTHERS_CAN_MAKE_ROOM,
        (("wanted", "SustainedKvPressure"), ("how", "PreemptLowerPriority"), ("ended", 2), ("minutes", 7)),
    )
    assert decided.answer is None, "nothing is carried out"
    assert decided.room is not None
    assert (type(decided.room.change), decided.room.change.count) == (AddReplica, 1)
    assert decided.proposal == decided.room.proposal
    assert [each.replicas for each in decided.room.then.pools] == [2]
    words = sentence(decided.decision)
    assert words.startswith("Waiting (SustainedKvPressure): no GPUs are free for it. Others can make room within 7 min")
    assert "(PreemptLowerPriority): 2 replicas of lower priority would end. People decide" in words


def test_moves_are_said_as_moves() -> None:
    words = sentence(asks(pressed(), proposal(ProposalReason.DEFRAGMENT_NODE)).decision)
    assert "(DefragmentNode): 2 replicas would move to other nodes." in words


def test_a_recommendation_stays_what_it_was_and_says_what_others_can_do() -> None:
    decided = asks(pressed(policy=ADVICE), proposal())
    without = asks(pressed(policy=ADVICE))
    assert decided.decision == without.decision
    assert (without.proposal, without.room) == (None, None)
    assert decided.proposal is not None
    assert decided.answer is None


def test_where_others_can_do_nothing_the_nearest_place_is_named_as_ever() -> None:
    decided = asks(pressed())
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_PLACE_FOUND)
    assert (decided.proposal, decided.room) == (None, None)


def test_the_time_is_that_of_the_others_and_then_the_start_up() -> None:
    def seconds(memory: LoopMemory) -> object:
        found = asks(pressed(memory=memory), proposal()).proposal
        assert found is not None
        return dict(found.numbers)["seconds"]

    assert seconds(LoopMemory(startup_seconds=500.0)) == 620
    assert seconds(LoopMemory()) == 120 + FIRST_STARTUP_SECONDS


@pytest.mark.parametrize("policy", [AUTO, ADVICE], ids=["Auto", "Recommend"])
def test_with_a_free_place_nobody_looks_at_others(policy: object) -> None:
    asked: list[int] = []
    decided = decide(pressed(policy=policy), with_others(room_for_all(1), proposal(), asked))
    assert (asked, decided.room) == ([], None)
    assert decided.answer is not None


def test_without_need_nobody_looks_at_others() -> None:
    asked: list[int] = []
    assert asks(live.situation(EASY), proposal(), asked).room is None
    assert asks(pressed(replicas=9), proposal(), asked).decision.reason is DecisionReason.AT_MAX_REPLICAS
    assert asked == []


@pytest.mark.parametrize("policy", [AUTO, ADVICE], ids=["Auto", "Recommend"])
def test_of_several_replicas_that_are_needed_others_are_asked_for_one(policy: object) -> None:
    asked: list[int] = []
    where = live.situation(BUSY, BUSY, BUSY, BUSY, policy=policy)  # type: ignore[arg-type]
    decided = asks(where, proposal(), asked)
    assert asked == [5]
    assert decided.room is not None
    assert decided.room.change.count == 1
    if policy is ADVICE:
        assert isinstance(decided.decision, AddReplica)
        assert decided.decision.count > 1, "the recommendation says how many are needed"


def test_a_recommendation_takes_the_places_that_are_free_as_auto_does() -> None:
    """Four more are needed and one fits: both modes choose that one, and nobody looks at others."""
    asked: list[int] = []
    about = no_room(4)

    def one_fits(changed: object) -> Answer:
        answer = about.ask(changed)  # type: ignore[arg-type]
        if answer.tenant.request.replicas > 5:
            return answer
        return answer._replace(decision=after(answer))

    what_if = with_others(replace(about, ask=one_fits), proposal(), asked)
    for policy in (AUTO, ADVICE):
        decided = decide(live.situation(BUSY, BUSY, BUSY, BUSY, policy=policy), what_if)
        assert isinstance(decided.decision, AddReplica)
        assert (decided.decision.count, decided.answer is not None) == (1, True)
    assert asked == []


def test_who_lacks_a_replica_already_is_answered_by_the_plan() -> None:
    asked: list[int] = []
    about = no_room(1)
    short = replace(about, decision=replace(about.decision, missing=1))
    decided = decide(pressed(), with_others(short, proposal(), asked))
    assert (asked, decided.decision.reason) == ([], DecisionReason.NO_PLACE_FOUND)


@settings(max_examples=examples(60), deadline=None)
@given(
    replicas=st.integers(1, 4),
    mode=st.sampled_from([Mode.AUTO, Mode.RECOMMEND, Mode.OFF]),
    load=st.sampled_from([PRESSING, BUSY, EASY, live.IDLE]),
    reason=st.sampled_from(list(ProposalReason)),
    is_free=st.booleans(),
)
def test_room_at_others_is_never_carried_out_and_is_always_for_an_addition(
    replicas: int, mode: Mode, load: Serves, reason: ProposalReason, *, is_free: bool
) -> None:
    where = live.situation(*replicas * (load,), policy=replace(AUTO, mode=mode))
    about = room_for_all(replicas) if is_free else no_room(replicas)
    decided = decide(where, with_others(about, proposal(reason)))
    assert decided == decide(where, with_others(about, proposal(reason)))
    if decided.room is not None:
        assert decided.answer is None
        assert isinstance(decided.decision, AddReplica if mode is Mode.RECOMMEND else Wait)
        assert decided.proposal is not None
        assert decided.proposal.changes
    if is_free or mode is Mode.OFF or load in (EASY, live.IDLE):
        assert decided.room is None
