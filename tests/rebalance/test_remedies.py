"""Each remedy asks the solver: a change is made with a destination or not at all, and the reason says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.requests.serving import ObservedCapacity
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import LoopResult, decide, shares_of
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies import REMEDIES, Remedy
from plimsoll.rebalance.remedies.scale import add_replicas
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import PodState, SignalState
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    Change,
    DecisionReason,
    Keep,
    Move,
    RemoveReplica,
    Retune,
    Wait,
)
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.situation import Situation
from tests.support import live_situations as live
from tests.support.engine_loads import NOW, Serves, replica_model
from tests.support.hypotheses import no_room, room_for_all
from tests.support.live_situations import AUTO
from tests.support.planning import ENGINE, H100, L4, L40S, fleet, node, pool, request, tenant
from tests.support.tables import every_case
from tests.support.toy_remedy import one_to_spare
from tests.support.world_plans import planned

ONE_OF_ONE: dict[str, Any] = {"model": None}
"""Where the speed is not known, the cache and the queue decide: one replica more for each of these loads."""
PRESSING = Serves(rate=1.0, kv_usage=0.99, running=250)
QUEUED = Serves(rate=1.0, waiting=5)
CALM = Serves(rate=1.0)
WIDE = fleet(node("l", L40S, 8, held=1), node("h", H100, 8))
FULL = fleet(node("l", L40S, 1, held=1), node("h", H100, 8, held=8))


def situation(*loads: Serves, replicas: int | None = None, **changed: Any) -> Situation:
    return live.situation(*(loads or (CALM,)), replicas=replicas, **ONE_OF_ONE | changed)


def too_small(**changed: Any) -> Situation:
    load = replace(live.loads_of(CALM), smallest_capacity_tokens=live.NEED.kv_tokens - 1)
    return situation(CALM, load=load, **changed)


def idle(replicas: int, ready: int = 2) -> Situation:
    return live.for_long(situation(*ready * (live.IDLE,), replicas=replicas, ready=ready), replicas - 1)


PRESSED = situation(PRESSING)
WAITING = situation(QUEUED)
UNKNOWN = LoadSummary(SignalState.MISSING)
JUST_ADDED = ChangeHistory((ChangeRecord(NOW - 1, ChangeKind.ADD),))


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
    decided = decide(PRESSED, about(running(), WIDE))
    assert isinstance(decided.decision, AddReplica)
    assert shares(decided.proposal) == ({L40S: 1}, {L40S: 2})
    assert decided.proposal is not None
    assert (decided.proposal.reason, decided.proposal.numbers) == ("SustainedKvPressure", decided.decision.numbers)
    assert decided.answer is not None
    assert (decided.answer.tenant.request.replicas, decided.answer.decision.missing) == (2, 0)


def test_a_queue_asks_for_a_replica_more_as_well() -> None:
    decided = decide(WAITING, about(running(), WIDE))
    assert (type(decided.decision), shares(decided.proposal)) == (AddReplica, ({L40S: 1}, {L40S: 2}))


def test_too_few_replicas_are_made_more_without_any_signal() -> None:
    fewer = situation(load=UNKNOWN, policy=replace(AUTO, min_replicas=2))
    decided = decide(fewer, about(running(), WIDE))
    assert (type(decided.decision), decided.decision.reason) == (AddReplica, DecisionReason.BELOW_MIN_REPLICAS)


def test_a_replica_less_needs_no_place() -> None:
    decided = decide(idle(2), about(running(2), FULL))
    assert isinstance(decided.decision, RemoveReplica)
    assert shares(decided.proposal) == ({L40S: 2}, {L40S: 1})


def test_too_many_replicas_are_made_fewer_without_any_signal() -> None:
    more = situation(CALM, CALM, load=UNKNOWN, policy=replace(AUTO, max_replicas=1))
    decided = decide(more, about(running(2), FULL))
    assert (type(decided.decision), decided.decision.reason) == (RemoveReplica, DecisionReason.ABOVE_MAX_REPLICAS)


def test_a_replica_less_is_carried_out_although_another_one_has_been_without_a_place_for_long() -> None:
    short = tenant(request(replicas=4), pool(L40S, replicas=2))
    decided = decide(idle(4), about(short, FULL))
    assert isinstance(decided.decision, RemoveReplica)
    assert decided.answer is not None
    assert (decided.answer.tenant.request.replicas, decided.answer.decision.missing) == (3, 1)


def test_a_place_that_is_too_small_is_left_for_another_one() -> None:
    seen = (ObservedCapacity(L40S, Split(1), 499),)
    decided = decide(too_small(), about(running(observed=seen), fleet(node("l", L40S, 2, held=1), node("h", H100))))
    assert isinstance(decided.decision, Move)
    assert shares(decided.proposal) == ({L40S: 1}, {H100: 1})
    assert decided.answer is not None
    assert {each.gpu_type: each.state.value for each in decided.answer.decision.pools} == {
        H100: "Active",
        L40S: "Retiring",
    }


def test_a_move_that_would_leave_everything_as_it_is_is_not_ordered() -> None:
    """The engine that reports too little ends already, and the one that takes its place fits."""
    decided = decide(too_small(), about(running(), WIDE))
    assert (decided.proposal, decided.answer) == (None, None)
    assert decided.decision == Wait(DecisionReason.NO_PLACE_FOUND, (("wanted", "PlacementTooSmall"), ("nearest", "")))


def test_a_move_that_only_changes_the_settings_of_its_engines_is_ordered() -> None:
    """The step with which they run does not fit any more, and a smaller one does."""
    tight = tenant(request(context=4096, concurrency=10), pool(L4, limits=StepLimits(8192)))
    decided = decide(too_small(), about(tight, fleet(node("4", L4, 1, held=1))))
    assert isinstance(decided.decision, Move)
    assert shares(decided.proposal) == ({L4: 1}, {L4: 1})
    assert decided.answer is not None
    assert [each.step_tokens for each in decided.answer.decision.pools] == [2048]


@pytest.mark.parametrize(
    ("where", "seen", "wanted"),
    [
        (PRESSED, (), DecisionReason.SUSTAINED_KV_PRESSURE),
        (WAITING, (), DecisionReason.SUSTAINED_QUEUE),
        (too_small(), (ObservedCapacity(L40S, Split(1), 499),), DecisionReason.PLACEMENT_TOO_SMALL),
    ],
    ids=["pressure", "queue", "too small"],
)
def test_without_a_place_nothing_is_ordered_and_the_nearest_is_named(
    where: Situation, seen: tuple[ObservedCapacity, ...], wanted: DecisionReason
) -> None:
    decided = decide(where, about(running(observed=seen), FULL))
    assert (decided.proposal, decided.answer) == (None, None)
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_PLACE_FOUND)
    assert decided.decision.number("wanted") == wanted.value
    nearest = "h100-sxm-80gb x 1 fits, but takes 1 GPU on one node and at most 0 are free"
    assert decided.decision.number("nearest") == nearest


def test_a_recommendation_is_made_without_a_place_too_and_has_no_proposal_then() -> None:
    advice = replace(AUTO, mode=Mode.RECOMMEND)
    without = decide(situation(PRESSING, policy=advice), about(running(), FULL))
    assert (type(without.decision), without.proposal, without.answer) == (AddReplica, None, None)
    having = decide(situation(PRESSING, policy=advice), about(running(), WIDE))
    assert having.decision == without.decision
    assert shares(having.proposal) == ({L40S: 1}, {L40S: 2})


@pytest.mark.parametrize(
    "held",
    [
        replace(idle(2), history=JUST_ADDED),
        replace(PRESSED, policy=replace(AUTO, mode=Mode.OFF)),
        replace(PRESSED, placement=replace(PRESSED.placement, moving=True)),
        situation(),
        situation(load=LoadSummary(SignalState.STALE, (PodState("a", SignalState.STALE, 99.0),))),
    ],
    ids=["cooling down", "off", "moving", "healthy", "unknown"],
)
def test_the_solver_is_not_asked_for_what_may_not_be_or_need_not_be(held: Situation) -> None:
    def never(_: Tenant) -> Answer:
        pytest.fail("the solver was asked")

    decided = decide(held, replace(room_for_all(held.placement.replicas), ask=never))
    assert isinstance(decided.decision, Keep | Wait)


def test_off_comes_before_a_move_under_way() -> None:
    off = replace(PRESSED, policy=replace(AUTO, mode=Mode.OFF))
    assert decide(replace(off, placement=replace(off.placement, moving=True)), no_room(1)).decision.reason is (
        DecisionReason.MODE_OFF
    )


def test_a_pool_that_holds_its_place_with_no_replicas_is_no_share() -> None:
    held = planned([tenant(request(replicas=0), pool(L40S, replicas=0))], WIDE).decisions[request().key]
    assert [each.replicas for each in held.pools] == [0]
    assert shares_of(held) == ()


# -- fewer than needed, where not all have a place ---------------------------------------------------------------------


@every_case(("free", "added"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 2), (5, 5), (20, 5)])
def test_as_many_replicas_are_added_as_have_a_place(free: int, added: int) -> None:
    """Five are needed. With each try, half as many are asked for; the next turn asks for the rest."""
    six = replace(AUTO, min_replicas=6)
    decided = decide(situation(policy=six), about(running(), fleet(node("l", L40S, 1 + free, held=1))))
    if not added:
        assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_PLACE_FOUND)
        return
    assert isinstance(decided.decision, AddReplica)
    assert shares(decided.proposal) == ({L40S: 1}, {L40S: 1 + decided.decision.count})
    assert decided.decision.count == added


# -- more requests at the same time ------------------------------------------------------------------------------------

NARROW = replica_model(max_sequences=8)
FILLED = Serves(rate=8.0, running=8)
"""More than a replica carries with eight requests at the same time, and less than it could with more of them."""


def eight_at_a_time(**wanted: Any) -> Tenant:
    return tenant(request(concurrency=8, **wanted), pool(H100, limits=StepLimits(sequences=8)))


def filled(**changed: Any) -> Situation:
    facts: dict[str, Any] = {"model": NARROW, "most_sequences": 64}
    return live.situation(FILLED, **facts | changed)


def test_engines_whose_batch_limit_binds_get_a_larger_one_and_no_replica_is_added() -> None:
    decided = decide(filled(), about(eight_at_a_time(), fleet(node("h", H100, 2, held=1))))
    assert isinstance(decided.decision, Retune)
    assert decided.decision.reason is DecisionReason.BATCH_LIMIT_BINDS or decided.decision.number("limit") == "Batch"
    assert decided.answer is not None
    [planned_pool] = decided.answer.decision.pools
    assert planned_pool.sequences == decided.decision.limits.sequences > 8
    assert shares(decided.proposal) == ({H100: 1}, {H100: 1})
    assert decided.decision.number("to_sequences") == decided.decision.limits.sequences


def test_a_larger_limit_needs_room_for_a_replica_that_starts_before_another_one_ends() -> None:
    decided = decide(filled(), about(eight_at_a_time(), fleet(node("h", H100, 1, held=1))))
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_PLACE_FOUND)


def test_a_limit_that_the_user_has_written_stays() -> None:
    fixed = eight_at_a_time(engine=replace(ENGINE, max_sequences=8))
    decided = decide(filled(), about(fixed, fleet(node("h", H100, 4, held=1))))
    assert isinstance(decided.decision, AddReplica)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": replica_model(kv_tokens=9_000, max_sequences=64)},
        {"most_sequences": 9},
        {"most_sequences": None},
    ],
    ids=["the cache limits", "hardly more is gained", "the highest one is unknown"],
)
def test_where_a_larger_limit_does_not_help_replicas_are_added(changed: dict[str, Any]) -> None:
    decided = decide(filled(**changed), about(eight_at_a_time(), fleet(node("h", H100, 8, held=1))))
    assert isinstance(decided.decision, AddReplica)


def test_after_a_restart_of_all_engines_a_larger_limit_waits_and_nothing_is_added_meanwhile() -> None:
    """It is in the bounds that a removal is in as well."""
    where = about(eight_at_a_time(), fleet(node("h", H100, 2, held=1)))
    restarted = ChangeHistory((ChangeRecord(NOW - 60, ChangeKind.RETUNE),))
    held = decide(filled(history=restarted), where)
    assert not isinstance(held.decision, Retune)
    spent = ChangeHistory(tuple(ChangeRecord(NOW - 700 - age, ChangeKind.MOVE) for age in range(AUTO.changes_per_hour)))
    assert not isinstance(decide(filled(history=spent), where).decision, Retune)


def queue_at_wider_engines(since: float, **changed: Any) -> Situation:
    """Engines got a limit of 64 a while ago, and as many requests wait at each as before."""
    history = ChangeHistory((ChangeRecord(NOW - since, ChangeKind.RETUNE),))
    return live.situation(
        replace(FILLED, waiting=6), history=history, model=replica_model(max_sequences=64), most_sequences=64, **changed
    )


@pytest.mark.parametrize("changed", [{"since": 5.0}, {"since": 600.0, "updating": True}], ids=["just now", "goes on"])
def test_a_queue_brings_no_replica_while_engines_get_a_larger_limit(changed: dict[str, Any]) -> None:
    where = about(
        tenant(request(concurrency=8), pool(H100, limits=StepLimits(sequences=64))), fleet(node("h", H100, 4, held=1))
    )
    assert not isinstance(decide(queue_at_wider_engines(**changed), where).decision, AddReplica)
    later = decide(queue_at_wider_engines(since=600.0), where)
    assert (type(later.decision), later.decision.reason) == (AddReplica, DecisionReason.SUSTAINED_QUEUE)


class NoRoom:
    """The answers of a solver without any room, which names the change that it was asked for."""

    tenant = running(2)

    def __call__(self, change: Change, tenant: Tenant) -> Wait:
        assert isinstance(change, AddReplica)
        return Wait(DecisionReason.NO_PLACE_FOUND, (("more", change.count), ("then", tenant.request.replicas)))


@every_case("kind", ["TooFewReplicas", "KvBound", "QueueBound", "MoreExpected", "StuckReplica", "Imbalanced"])
def test_nothing_is_added_to_as_many_replicas_as_are_needed(kind: str) -> None:
    two = situation(CALM, CALM)
    answers = [
        add_replicas(Diagnosis(DiagnosisKind(kind), DecisionReason.SUSTAINED_QUEUE, replicas=needed), two, NoRoom())
        for needed in (1, 2, 3)
    ]
    assert answers == [None, None, Wait(DecisionReason.NO_PLACE_FOUND, (("more", 1), ("then", 3)))]


# -- another remedy ----------------------------------------------------------------------------------------------------

WITH_TOY: tuple[Remedy, ...] = (one_to_spare, *REMEDIES)


def ready_ones(decided: LoopResult) -> int:
    assert decided.proposal is not None
    return sum(each.replicas for each in decided.proposal.after)


def test_a_new_remedy_is_one_file_and_decides_before_those_that_come_after_it() -> None:
    usual = decide(PRESSED, about(running(), WIDE))
    toy = decide(PRESSED, about(running(), WIDE), WITH_TOY)
    assert (ready_ones(usual), ready_ones(toy)) == (2, 3)
    assert isinstance(usual.decision, AddReplica)
    assert toy.decision == replace(usual.decision, count=2)
    assert toy.answer is not None
    assert (toy.answer.decision.request.replicas, toy.answer.decision.missing) == (3, 0)


def test_where_a_remedy_finds_no_place_the_next_one_is_asked() -> None:
    narrow = fleet(node("l", L40S, 2, held=1))
    assert ready_ones(decide(PRESSED, about(running(), narrow), WITH_TOY)) == 2


@pytest.mark.parametrize("where", [WAITING, too_small(), situation()], ids=["queue", "too small", "healthy"])
def test_what_a_remedy_does_not_treat_is_left_to_the_others(where: Situation) -> None:
    assert decide(where, room_for_all(1), WITH_TOY) == decide(where, room_for_all(1))


def test_a_new_remedy_is_within_the_same_bounds() -> None:
    held = replace(PRESSED, policy=replace(AUTO, max_replicas=1))
    decided = decide(held, about(running(), WIDE), WITH_TOY)
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.AT_MAX_REPLICAS)


def test_of_several_waits_the_first_is_reported() -> None:
    other = Wait(DecisionReason.AT_MAX_REPLICAS, (("wanted", "SustainedKvPressure"), ("max", 1)))

    def full(*_: object) -> Wait:
        return other

    asked = PRESSED, about(running(), FULL)
    assert decide(*asked, (full, *REMEDIES)).decision == other
    assert decide(*asked, (*REMEDIES, full)).decision.reason is DecisionReason.NO_PLACE_FOUND


def test_what_no_remedy_treats_is_kept_with_its_diagnosis() -> None:
    assert decide(WAITING, room_for_all(1), ()).decision == Keep(
        DecisionReason.SUSTAINED_QUEUE, decide(WAITING, room_for_all(1)).decision.numbers
    )
