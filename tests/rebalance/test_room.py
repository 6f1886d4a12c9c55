"""Where nothing is free for one more replica, the loop says what others could do; and what it does for others."""

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
from plimsoll.rebalance.state.allowance import Allowance, Opening
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, RemoveReplica, ReplaceReplica, Wait
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.replacement import Progress, Replacement, Step, step_of
from plimsoll.rebalance.state.room import Asked, Leaving, RoomOrder, last_failure, leaving_of, rests, sealed
from plimsoll.rebalance.state.situation import Situation
from plimsoll.rebalance.why import sentence
from tests.support import live_situations as live
from tests.support.engine_loads import NOW, Serves
from tests.support.hypotheses import no_room, room_for_all
from tests.support.live_situations import AUTO, BUSY, EASY
from tests.support.planning import L40S, pool
from tests.support.tables import examples

LONGEST_SECONDS = 3600.0
STRAY_SECONDS = 300.0

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


HOUR = 3600.0
FAILED = ChangeRecord(NOW - HOUR, ChangeKind.ROLL_BACK, "MakesRoom")
GOES, ENDS = Asked("p0", "n0", "chat"), Asked("p0", "n0", "chat", ends=True)


def made_for_others(decided: LoopResult) -> bool:
    """Whether a decision is the change that somebody else has asked for."""
    return decided.decision.reason in (DecisionReason.MAKES_ROOM, DecisionReason.GIVES_WAY)


def test_a_replica_makes_room_with_a_successor_or_ends_with_none_and_says_for_whom() -> None:
    moved = decide(replace(live.situation(EASY), asked=GOES), room_for_all(1))
    numbers = (("pod", "p0"), ("node", "n0"), ("whom", "chat"))
    assert moved.decision == ReplaceReplica(DecisionReason.MAKES_ROOM, numbers, "p0", "n0")
    assert moved.answer is not None
    assert moved.answer.tenant.request.replicas == 1, "no more are wanted afterwards"
    assert sentence(moved.decision).startswith("Pod p0 on node n0 goes to another node, to make room for chat:")
    ended = decide(replace(live.situation(EASY, EASY), asked=ENDS), room_for_all(2))
    assert ended.decision == RemoveReplica(DecisionReason.GIVES_WAY, numbers, 1, "p0", "n0")
    assert ended.answer is not None
    assert ended.answer.tenant.request.replicas == 1
    assert sentence(ended.decision).startswith("Pod p0 on node n0 ends to make room for chat, which has a higher")


def test_a_change_of_its_own_comes_first_and_without_another_place_nothing_moves() -> None:
    own = decide(replace(live.situation(BUSY), asked=GOES), room_for_all(1))
    assert isinstance(own.decision, AddReplica)
    stays = decide(replace(live.situation(EASY), asked=GOES), no_room(1))
    assert stays.decision == decide(live.situation(EASY), no_room(1)).decision


@settings(max_examples=examples(200), deadline=None)
@given(
    replicas=st.integers(1, 4),
    ready=st.integers(0, 4),
    least=st.integers(0, 4),
    mode=st.sampled_from(Mode),
    asks_first=st.booleans(),
    is_open=st.booleans(),
    suspended=st.booleans(),
    changes=st.integers(0, 2),
    failed=st.booleans(),
    ends=st.booleans(),
    busy=st.booleans(),
)
def test_what_others_ask_for_keeps_the_bounds_of_the_deployment(
    replicas: int,
    ready: int,
    least: int,
    mode: Mode,
    changes: int,
    *,
    asks_first: bool,
    is_open: bool,
    suspended: bool,
    failed: bool,
    ends: bool,
    busy: bool,
) -> None:
    policy = replace(AUTO, mode=mode, min_replicas=least, asks_before_moves=asks_first, changes_per_hour=changes)
    where = live.situation(
        *min(ready, replicas) * (EASY,), replicas=replicas, policy=policy, starting_since=(), updating=busy
    )
    allowance = Allowance(suspended=suspended, opening=Opening(is_open=is_open, opens_at=NOW + HOUR))
    history = ChangeHistory((FAILED,) if failed else ())
    where = replace(where, history=history, allowance=allowance)
    decided = decide(replace(where, asked=ENDS if ends else GOES), room_for_all(replicas))
    if not made_for_others(decided):
        assert decided == decide(where, room_for_all(replicas)), "else it is as if nobody had asked"
        return
    assert (mode, asks_first, is_open, suspended, failed, busy) == (Mode.AUTO, False, True, False, False, False)
    assert (changes > 0, ready >= replicas) == (True, True)
    assert decided.answer is not None
    left = decided.answer.tenant.request.replicas
    assert left == (replicas - 1 if ends else replicas)
    assert left >= max(1, least) or not ends


def test_the_pause_after_a_failure_grows_as_that_of_a_place_and_ends() -> None:
    assert last_failure(ChangeHistory()) == (None, 6 * HOUR)
    marks = tuple(replace(FAILED, at=NOW - HOUR * index) for index in range(8, 0, -1))
    assert [last_failure(ChangeHistory(marks[:count]))[1] / HOUR for count in (1, 2, 3, 4, 8)] == [6, 12, 24, 48, 72]
    late = replace(live.situation(EASY, now=NOW), asked=GOES)
    for hours, moves in ((5.9, False), (6.1, True)):
        history = ChangeHistory((replace(FAILED, at=NOW - hours * HOUR),))
        assert made_for_others(decide(replace(late, history=history), room_for_all(1))) == moves


def test_a_replica_that_ended_for_others_and_comes_back_is_no_reversal() -> None:
    gone = ChangeRecord(NOW - 60, ChangeKind.REMOVE, "GivesWay", 1)
    back = ChangeRecord(NOW - 30, ChangeKind.ADD, "SustainedKvPressure", 2, added=1)
    assert ChangeHistory((gone, back)).reversals(NOW) == 0
    assert ChangeHistory((replace(gone, reason="SustainedSlack"), back)).reversals(NOW) == 1


def test_other_pods_another_node_or_another_end_are_another_proposal() -> None:
    leaving = (Leaving("one", "n0"), Leaving("two", "n1", ends=True))
    known = sealed("basis", leaving)
    assert sealed("basis", reversed(leaving)) == known
    others = (
        leaving[:1],
        (Leaving("three", "n0"), leaving[1]),
        (Leaving("one", "n1"), leaving[1]),
        (Leaving("one", "n0", ends=True), leaving[1]),
    )
    assert {sealed("basis", each) for each in others}.isdisjoint({known, sealed("other", leaving)})
    order = RoomOrder(known, "basis", "approval", 1, NOW, leaving)
    assert order.is_as_approved
    assert not any(replace(order, leaving=each).is_as_approved for each in others)


@pytest.mark.parametrize(
    ("reason", "changes", "seconds", "step"),
    [
        ("MakesRoom", {}, 10, Step.START),
        ("MakesRoom", {"is_there": False}, 10, Step.DONE),
        ("MakesRoom", {"is_suspect": False}, 10, Step.RECOVERED),
        ("MakesRoom", {"stray": "p9"}, 10, Step.END_STRAY),
        ("MakesRoom", {"stray": "p9"}, STRAY_SECONDS, Step.START),
        ("MakesRoom", {"stray": "p9"}, LONGEST_SECONDS, Step.NOT_SERVING),
        ("MakesRoom", {"spare": 1, "newest_since": 10.0}, 100, Step.END_OLD),
        ("MakesRoom", {"spare": 0, "newest_since": 10.0}, 100, Step.START),
        ("MakesRoom", {"spare": 1, "newest_since": 90.0}, 100, Step.START),
        ("GivesWay", {}, 10, Step.END_OLD),
        ("GivesWay", {"is_suspect": False}, 10, Step.RECOVERED),
        ("GivesWay", {"is_there": False}, 10, Step.DONE),
    ],
)
def test_the_steps_of_a_replica_that_makes_room(
    reason: str, changes: dict[str, object], seconds: float, step: Step
) -> None:
    usual = Progress(
        is_there=True,
        is_suspect=True,
        spare=0,
        newest_since=None,
        newest_is_doubtful=False,
        newest_is_certain=False,
        newest_is_elsewhere=False,
        patience_seconds=LONGEST_SECONDS,
    )
    begun = Replacement("p0", "n0", DecisionReason(reason), 0.0, "chat")
    assert step_of(begun, replace(usual, **changes), seconds) is step  # type: ignore[arg-type]


@pytest.mark.parametrize(("hours", "is_resting"), [(0.0, True), (5.9, True), (6.1, False)])
def test_a_deployment_whose_move_for_others_failed_moves_for_nobody_for_six_hours(
    hours: float, *, is_resting: bool
) -> None:
    assert rests(ChangeHistory((FAILED,)), FAILED.at + hours * HOUR) is is_resting
    assert not rests(ChangeHistory(), FAILED.at)


def test_the_pods_of_a_proposal_move_or_end_each_on_its_node() -> None:
    share = Share(THERE, 2)
    moves = Change(ObjectKey("default", "a"), share, "n", "m", ("p1", "p2"))
    ends = Change(ObjectKey("default", "b"), share, "k", None, ("p3",))
    proposal = Proposal((), (), "R", (), changes=(moves, ends))
    assert leaving_of(proposal) == (
        Leaving("p1", "n", ends=False),
        Leaving("p2", "n", ends=False),
        Leaving("p3", "k", ends=True),
    )
    assert leaving_of(replace(proposal, changes=())) == ()
    assert sealed("id", leaving_of(proposal)) == sealed("id", reversed(leaving_of(proposal))) != sealed("id", ())


@pytest.mark.parametrize(
    ("reason", "is_for_others"),
    [
        (DecisionReason.MAKES_ROOM, True),
        (DecisionReason.GIVES_WAY, True),
        (DecisionReason.REPLICA_SLOW, False),
        (DecisionReason.REPLICA_SILENT, False),
    ],
)
def test_a_replica_is_replaced_for_others_or_because_of_itself(reason: DecisionReason, *, is_for_others: bool) -> None:
    replacement = Replacement("p", "n", reason, NOW)
    assert replacement.is_for_others is is_for_others
    for strays, may in ((("a", "b"), True), (("a", "b", "c"), False), (("a", "b", "x"), True)):
        assert replace(replacement, strays=strays).may_end("x") is may
