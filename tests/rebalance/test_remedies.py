"""Each remedy asks the solver: a change is made with a destination or not at all, and the reason says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.outcomes import Split
from plimsoll.domain.proposals import Proposal
from plimsoll.domain.serving import ObservedCapacity
from plimsoll.placement.answers import Answer
from plimsoll.placement.hypothesis import WhatIf
from plimsoll.placement.pools import Tenant
from plimsoll.rebalance.asking import shares_of
from plimsoll.rebalance.decide import Decided, decide
from plimsoll.rebalance.decisions import AddReplica, DecisionReason, Keep, Move, RemoveReplica, Wait
from plimsoll.rebalance.history import ChangeHistory
from plimsoll.rebalance.policy import Mode, RebalancePolicy
from plimsoll.rebalance.remedies import REMEDIES, Remedy
from plimsoll.rebalance.signals import LoadSummary, PodState, SignalState
from plimsoll.rebalance.situation import DeclaredNeed, PlacementState, Situation
from tests.support.hypotheses import no_room, room_for_all
from tests.support.planning import H100, L4, L40S, fleet, node, pool, request, tenant
from tests.support.toy_remedy import whole_step
from tests.support.world_plans import planned

NOW = 1_700_000_000.0
AUTO = RebalancePolicy(mode=Mode.AUTO, min_replicas=1, max_replicas=9)
LOAD = LoadSummary(
    SignalState.FRESH,
    (PodState("a", SignalState.FRESH, 1.0),),
    window_seconds=120,
    demanded_sustained_tokens=600,
    demanded_peak_tokens=600,
    held_tokens=1000,
    largest_capacity_tokens=1000,
    smallest_capacity_tokens=1000,
    preemptions=0,
)
PRESSED = replace(LOAD, demanded_sustained_tokens=2000, demanded_peak_tokens=2000)
QUEUED = replace(LOAD, waiting_sustained=5)
TOO_SMALL = replace(LOAD, smallest_capacity_tokens=499)
TWO_IDLE = replace(
    LOAD,
    pods=tuple(PodState(name, SignalState.FRESH, 1.0) for name in "ab"),
    held_tokens=2000,
    demanded_sustained_tokens=0,
    demanded_peak_tokens=100,
)
WIDE = fleet(node("l", L40S, 8, held=1), node("h", H100, 8))
FULL = fleet(node("l", L40S, 1, held=1), node("h", H100, 8, held=8))


def situation(
    load: LoadSummary, replicas: int = 1, *, ready: int | None = None, policy: RebalancePolicy = AUTO
) -> Situation:
    serving = replicas if ready is None else ready
    state = PlacementState(replicas, serving, kv_capacity_tokens=1000, budget_bytes_per_gpu=80)
    return Situation(DeclaredNeed(kv_tokens=500, bytes_per_gpu=60), state, load, ChangeHistory(), NOW, policy)


def running(replicas: int = 1, observed: tuple[ObservedCapacity, ...] = ()) -> Tenant:
    return tenant(request(replicas=replicas, observed=observed), pool(L40S, replicas=replicas))


def about(runs: Tenant, where: Fleet) -> WhatIf:
    return planned([runs], where).what_if(runs.request.key)


def shares(proposal: Proposal | None) -> tuple[dict[str, int], dict[str, int]]:
    assert proposal is not None
    before, after = (
        {each.target.gpu_type: each.replicas for each in side} for side in (proposal.before, proposal.after)
    )
    return before, after


def test_a_replica_more_has_its_place_in_the_proposal() -> None:
    decided = decide(situation(PRESSED), about(running(), WIDE))
    assert isinstance(decided.decision, AddReplica)
    assert shares(decided.proposal) == ({L40S: 1}, {L40S: 2})
    assert decided.proposal is not None
    assert (decided.proposal.reason, decided.proposal.numbers) == ("SustainedKvPressure", decided.decision.numbers)
    assert decided.answer is not None
    assert (decided.answer.tenant.request.replicas, decided.answer.decision.missing) == (2, 0)


def test_a_queue_asks_for_a_replica_more_as_well() -> None:
    decided = decide(situation(QUEUED), about(running(), WIDE))
    assert (type(decided.decision), shares(decided.proposal)) == (AddReplica, ({L40S: 1}, {L40S: 2}))


def test_too_few_replicas_are_made_more_without_any_signal() -> None:
    fewer = situation(LoadSummary(SignalState.MISSING), policy=replace(AUTO, min_replicas=2))
    decided = decide(fewer, about(running(), WIDE))
    assert (type(decided.decision), decided.decision.reason) == (AddReplica, DecisionReason.BELOW_MIN_REPLICAS)


def test_a_replica_less_needs_no_place() -> None:
    decided = decide(situation(TWO_IDLE, 2), about(running(2), FULL))
    assert isinstance(decided.decision, RemoveReplica)
    assert shares(decided.proposal) == ({L40S: 2}, {L40S: 1})


def test_too_many_replicas_are_made_fewer_without_any_signal() -> None:
    more = situation(LoadSummary(SignalState.MISSING), 2, policy=replace(AUTO, max_replicas=1))
    decided = decide(more, about(running(2), FULL))
    assert (type(decided.decision), decided.decision.reason) == (RemoveReplica, DecisionReason.ABOVE_MAX_REPLICAS)


def test_a_replica_less_is_carried_out_although_another_one_has_been_without_a_place_for_long() -> None:
    short = tenant(request(replicas=4), pool(L40S, replicas=2))
    decided = decide(situation(TWO_IDLE, 4, ready=2), about(short, FULL))
    assert isinstance(decided.decision, RemoveReplica)
    assert decided.answer is not None
    assert (decided.answer.tenant.request.replicas, decided.answer.decision.missing) == (3, 1)


def test_a_place_that_is_too_small_is_left_for_another_one() -> None:
    seen = (ObservedCapacity(L40S, Split(1), 499),)
    decided = decide(
        situation(TOO_SMALL), about(running(observed=seen), fleet(node("l", L40S, 2, held=1), node("h", H100)))
    )
    assert isinstance(decided.decision, Move)
    assert shares(decided.proposal) == ({L40S: 1}, {H100: 1})
    assert decided.answer is not None
    assert {each.gpu_type: each.state.value for each in decided.answer.decision.pools} == {
        H100: "Active",
        L40S: "Retiring",
    }


def test_a_move_that_would_leave_everything_as_it_is_is_not_ordered() -> None:
    """The engine that reports too little ends already, and the one that takes its place fits."""
    decided = decide(situation(TOO_SMALL), about(running(), WIDE))
    assert (decided.proposal, decided.answer) == (None, None)
    assert decided.decision == Wait(DecisionReason.NO_PLACE_FOUND, (("wanted", "PlacementTooSmall"), ("nearest", "")))


def test_a_move_that_only_changes_the_settings_of_its_engines_is_ordered() -> None:
    """The step with which they run does not fit any more, and a smaller one does."""
    tight = tenant(request(context=4096, concurrency=8), pool(L4, batched_tokens=8192))
    decided = decide(situation(TOO_SMALL), about(tight, fleet(node("4", L4, 1, held=1))))
    assert isinstance(decided.decision, Move)
    assert shares(decided.proposal) == ({L4: 1}, {L4: 1})
    assert decided.answer is not None
    assert [each.step_tokens for each in decided.answer.decision.pools] == [2048]


@pytest.mark.parametrize(
    ("load", "seen", "wanted"),
    [
        (PRESSED, (), DecisionReason.SUSTAINED_KV_PRESSURE),
        (QUEUED, (), DecisionReason.SUSTAINED_QUEUE),
        (TOO_SMALL, (ObservedCapacity(L40S, Split(1), 499),), DecisionReason.PLACEMENT_TOO_SMALL),
    ],
    ids=["pressure", "queue", "too small"],
)
def test_without_a_place_nothing_is_ordered_and_the_nearest_is_named(
    load: LoadSummary, seen: tuple[ObservedCapacity, ...], wanted: DecisionReason
) -> None:
    decided = decide(situation(load), about(running(observed=seen), FULL))
    assert (decided.proposal, decided.answer) == (None, None)
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_PLACE_FOUND)
    assert decided.decision.number("wanted") == wanted.value
    nearest = "h100-sxm-80gb x 1 fits, but takes 1 GPUs on one node and at most 0 are free"
    assert decided.decision.number("nearest") == nearest


def test_a_recommendation_is_made_without_a_place_too_and_has_no_proposal_then() -> None:
    advice = replace(AUTO, mode=Mode.RECOMMEND)
    without = decide(situation(PRESSED, policy=advice), about(running(), FULL))
    assert (type(without.decision), without.proposal, without.answer) == (AddReplica, None, None)
    having = decide(situation(PRESSED, policy=advice), about(running(), WIDE))
    assert having.decision == without.decision
    assert shares(having.proposal) == ({L40S: 1}, {L40S: 2})


@pytest.mark.parametrize(
    "held",
    [
        replace(situation(PRESSED), history=ChangeHistory((NOW - 1,))),
        replace(situation(PRESSED), policy=replace(AUTO, mode=Mode.OFF)),
        replace(situation(PRESSED), placement=replace(situation(PRESSED).placement, moving=True)),
        situation(LOAD),
        situation(replace(LOAD, state=SignalState.STALE, pods=(PodState("a", SignalState.STALE, 99.0),))),
    ],
    ids=["cooling down", "off", "moving", "healthy", "unknown"],
)
def test_the_solver_is_not_asked_for_what_may_not_be_or_need_not_be(held: Situation) -> None:
    def never(_: Tenant) -> Answer:
        pytest.fail("the solver was asked")

    decided = decide(held, replace(room_for_all(1), ask=never))
    assert isinstance(decided.decision, Keep | Wait)


def test_off_comes_before_a_move_under_way() -> None:
    off = replace(situation(PRESSED), policy=replace(AUTO, mode=Mode.OFF))
    assert decide(replace(off, placement=replace(off.placement, moving=True)), no_room(1)).decision.reason is (
        DecisionReason.MODE_OFF
    )


def test_a_pool_that_holds_its_place_with_no_replicas_is_no_share() -> None:
    held = planned([tenant(request(replicas=0), pool(L40S, replicas=0))], WIDE).decisions[request().key]
    assert [each.replicas for each in held.pools] == [0]
    assert shares_of(held) == ()


# -- another remedy ----------------------------------------------------------------------------------------------------

WITH_TOY: tuple[Remedy, ...] = (whole_step, *REMEDIES)


def ready_ones(decided: Decided) -> int:
    assert decided.proposal is not None
    return sum(each.replicas for each in decided.proposal.after)


def test_a_new_remedy_is_one_file_and_decides_before_those_that_come_after_it() -> None:
    usual = decide(situation(PRESSED), about(running(), WIDE))
    toy = decide(situation(PRESSED), about(running(), WIDE), WITH_TOY)
    assert (ready_ones(usual), ready_ones(toy)) == (2, 3)
    assert toy.decision == usual.decision
    assert toy.answer is not None
    assert (toy.answer.decision.request.replicas, toy.answer.decision.missing) == (3, 0)


def test_where_a_remedy_finds_no_place_the_next_one_is_asked() -> None:
    narrow = fleet(node("l", L40S, 2, held=1))
    assert ready_ones(decide(situation(PRESSED), about(running(), narrow), WITH_TOY)) == 2


@pytest.mark.parametrize("load", [QUEUED, TOO_SMALL, LOAD], ids=["queue", "too small", "healthy"])
def test_what_a_remedy_does_not_treat_is_left_to_the_others(load: LoadSummary) -> None:
    usual = decide(situation(load), room_for_all(1))
    assert decide(situation(load), room_for_all(1), WITH_TOY) == usual


def test_a_new_remedy_is_within_the_same_bounds() -> None:
    held = replace(situation(PRESSED), history=ChangeHistory((NOW - 1,)))
    decided = decide(held, about(running(), WIDE), WITH_TOY)
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.COOLING_DOWN)


def test_of_several_waits_the_first_is_reported() -> None:
    other = Wait(DecisionReason.AT_MAX_REPLICAS, (("wanted", "SustainedKvPressure"), ("max", 1)))

    def full(*_: object) -> Wait:
        return other

    asked = situation(PRESSED), about(running(), FULL)
    assert decide(*asked, (full, *REMEDIES)).decision == other
    assert decide(*asked, (*REMEDIES, full)).decision.reason is DecisionReason.NO_PLACE_FOUND


def test_what_no_remedy_treats_is_kept_with_its_diagnosis() -> None:
    assert decide(situation(QUEUED), room_for_all(1), ()).decision == Keep(
        DecisionReason.SUSTAINED_QUEUE, decide(situation(QUEUED), room_for_all(1)).decision.numbers
    )
