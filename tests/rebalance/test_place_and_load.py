"""A wrong place hides no pressure: while a move waits for people or for a bound, the number of replicas follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import ObservedCapacity
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Move, RemoveReplica, Wait
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.situation import Situation
from tests.support import live_situations as live
from tests.support.engine_loads import NOW, Serves
from tests.support.hypotheses import room_for_all
from tests.support.live_situations import AUTO
from tests.support.planning import H100, L40S, fleet, node, pool, request, tenant
from tests.support.world_plans import planned

PRESSING = Serves(rate=1.0, kv_usage=0.99, running=250)
CALM = Serves(rate=1.0)
SPENT = ChangeHistory(tuple(ChangeRecord(NOW - 700 - age, ChangeKind.MOVE) for age in range(AUTO.changes_per_hour)))


def outgrown(*loads: Serves, **changed: Any) -> Situation:
    """Engines with less cache than is declared."""
    load = replace(live.loads_of(*loads), smallest_capacity_tokens=live.NEED.kv_tokens - 1)
    return live.situation(*loads, load=load, **{"model": None} | changed)


def runs(replicas: int = 1) -> WhatIf:
    """L40S that report too little, with free H100."""
    wanted = request(replicas=replicas, observed=(ObservedCapacity(L40S, Split(1), 499),))
    where = fleet(node("l", L40S, replicas, held=replicas), node("h", H100, 8))
    return planned([tenant(wanted, pool(L40S, replicas=replicas))], where).what_if(wanted.key)


def after(decided: LoopResult) -> dict[str, int]:
    assert decided.proposal is not None
    return {share.target.gpu_type: share.replicas for share in decided.proposal.after}


@pytest.mark.parametrize(
    "held",
    [
        {"policy": replace(AUTO, asks_before_moves=True)},
        {"policy": replace(AUTO, mode=Mode.RECOMMEND)},
        {"history": SPENT},
    ],
    ids=["people are asked", "recommend", "a bound"],
)
def test_replicas_are_added_while_a_move_waits(held: dict[str, Any]) -> None:
    decided = decide(replace(outgrown(PRESSING), **held), runs())
    assert (type(decided.decision), decided.decision.reason) == (AddReplica, DecisionReason.SUSTAINED_KV_PRESSURE)
    assert sum(after(decided).values()) == 2


def test_a_move_that_is_made_at_once_comes_before_the_replicas() -> None:
    decided = decide(outgrown(PRESSING), runs())
    assert (type(decided.decision), after(decided)) == (Move, {H100: 1})


def test_without_pressure_the_move_is_proposed() -> None:
    decided = decide(replace(outgrown(CALM), policy=replace(AUTO, asks_before_moves=True)), runs())
    assert (type(decided.decision), after(decided)) == (Move, {H100: 1})


def test_where_the_replicas_have_no_place_the_move_is_proposed() -> None:
    full = tenant(request(observed=(ObservedCapacity(L40S, Split(1), 499),)), pool(L40S))
    where = planned([full], fleet(node("l", L40S, 1, held=1), node("h", H100, 1))).what_if(full.request.key)
    most = replace(AUTO, max_replicas=1)
    decided = decide(outgrown(PRESSING, policy=replace(most, asks_before_moves=True)), where)
    assert isinstance(decided.decision, Move)


def test_idle_replicas_go_while_a_move_waits() -> None:
    idle = live.for_long(outgrown(live.IDLE, live.IDLE), 1)
    decided = decide(replace(idle, policy=replace(idle.policy, asks_before_moves=True)), runs(2))
    assert isinstance(decided.decision, RemoveReplica)


def test_a_bound_that_holds_the_move_back_is_said_where_the_load_asks_for_nothing() -> None:
    decided = decide(outgrown(CALM, history=SPENT), runs())
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.HOURLY_BUDGET_SPENT)


@pytest.mark.parametrize(
    ("reasons", "kinds", "goes_to"),
    [
        (("PromiseOutOfReach",), (L40S,), (L40S, Split(1))),
        (("PromiseOutOfReach", "CheaperPlace"), (L40S,), (L40S, Split(1))),
        (("CheaperPlace",), (L40S,), None),
        ((), (L40S,), None),
        (("PromiseOutOfReach",), (L40S, H100), None),
    ],
    ids=["it left a slow place", "once", "a dear one", "none", "it has two places"],
)
def test_whoever_left_a_place_that_was_too_slow_gets_further_replicas_where_the_others_are(
    reasons: tuple[str, ...], kinds: tuple[str, ...], goes_to: tuple[str, Split] | None
) -> None:
    asked: list[Tenant] = []
    usual = room_for_all(2)
    tenant_now = replace(usual.tenant, pools=tuple(pool(kind, replicas=2 // len(kinds)) for kind in kinds))

    def ask(changed: Tenant) -> Answer:
        asked.append(changed)
        return usual.ask(changed)

    history = ChangeHistory(
        tuple(ChangeRecord(NOW - 9000 - at, ChangeKind.MOVE, each) for at, each in enumerate(reasons))
    )
    pressed = replace(live.situation(PRESSING, PRESSING), history=history)
    decided = decide(pressed, replace(usual, tenant=tenant_now, ask=ask))
    assert isinstance(decided.decision, AddReplica)
    assert [each.goes_to for each in asked] == [goes_to]
