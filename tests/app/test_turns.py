"""A pass plans once. What the live loop asks for is answered from what is left, or is not asked again."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from plimsoll.app.health import Beats
from plimsoll.decision import decide as decide_module
from plimsoll.decision.turns import take_turn
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.placement.places.warnings import warnings_for
from plimsoll.placement.transition import make_before_break
from tests.support.live_passes import AUTO, EASY, L4, L40S, PRESSURE, SLACK, Open, live_part, pools


async def test_a_wish_without_a_place_costs_one_question_and_its_neighbour_gets_its_own(opened: Open) -> None:
    there = opened(l4=1, l40s=2)
    there.put("full", L4, rebalancing=AUTO)
    there.put("honest", L40S, rebalancing=AUTO)
    there.put("quiet", L40S, rebalancing=AUTO | {"mode": "Off"}, replicas=0)
    await there.settle()
    for name, case in there.make().items():
        there.load(case, EASY if name == "quiet" else PRESSURE)
    cases = there.make()
    assert there.solved == [["full", "honest", "quiet"], ["full"], ["honest"]]
    assert (pools(cases["full"]), pools(cases["honest"])) == ({(L4, "Active"): 1}, {(L40S, "Active"): 2})
    full, honest = live_part(cases["full"]), live_part(cases["honest"])
    assert (full["decision"], full["reason"], full["targetReplicas"]) == ("Wait", "NoPlaceFound", 1)
    assert full["message"].startswith("Waiting (SustainedKvPressure): no place was found for it; nearest: l4-24gb x 1 ")
    assert "changes" not in full
    assert (honest["decision"], honest["targetReplicas"], len(honest["changes"])) == ("AddReplica", 2, 1)


async def test_an_accepted_wish_is_what_is_rendered_counted_and_planned_from_then_on(opened: Open) -> None:
    there = opened(l40s=4)
    there.put("asks", L40S, rebalancing=AUTO)
    await there.settle()
    there.load(there.make()["asks"], PRESSURE)
    case = there.make()["asks"]
    assert case.report is not None
    assert case.outcome.request is not None
    assert (case.report.replicas, case.outcome.request.replicas) == (2, 2)
    [deployment] = [each for each in case.manifests if each["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 2
    assert case.outcome.turn is not None
    assert case.outcome.turn.proposal is not None
    assert [share.replicas for share in (*case.outcome.turn.proposal.before, *case.outcome.turn.proposal.after)] == [
        1,
        2,
    ]
    there.carry_out([case])
    there.passes.live.readings.clear()
    after = there.make()["asks"]
    assert there.solved == [["asks"]]
    assert (pools(after), live_part(after)["targetReplicas"]) == ({(L40S, "Active"): 2}, 2)


async def test_a_change_whose_status_was_not_written_is_decided_anew(opened: Open) -> None:
    there = opened(l40s=2)
    there.put("asks", L40S, rebalancing=AUTO)
    await there.settle()
    there.load(there.make()["asks"], PRESSURE)
    for _ in range(2):
        case = there.make()["asks"]
        assert (pools(case), live_part(case)["targetReplicas"]) == ({(L40S, "Active"): 2}, 2)
    there.put("honest", L40S)
    cases = there.make()
    assert (pools(cases["asks"]), pools(cases["honest"])) == ({(L40S, "Active"): 1}, {(L40S, "Active"): 1})
    assert live_part(cases["asks"])["reason"] == "NoPlaceFound", "its GPU was given away in between"


@pytest.mark.parametrize(
    ("rebalancing", "reason"),
    [
        ({}, "ScaleContested"),
        ({"scale": "External"}, "ScaledExternally"),
        ({"mode": "Recommend"}, "SustainedKvPressure"),
    ],
    ids=["the loop decides the number", "another controller does", "people do"],
)
async def test_a_number_that_others_decide_is_contested_by_nobody(
    opened: Open, rebalancing: dict[str, Any], reason: str
) -> None:
    there = opened(l40s=4)
    there.put("asks", L40S, rebalancing=AUTO | rebalancing, replicas=1)
    await there.settle()
    for generation, replicas in enumerate((2, 1, 2), 2):
        there.change("asks", generation, replicas=replicas)
        there.carry_out(there.result().desired)
    there.load(there.make()["asks"], PRESSURE)
    case = there.make()["asks"]
    assert live_part(case)["reason"] == reason
    assert case.outcome.turn is not None
    assert any("spec.replicas was changed" in hint for hint in case.outcome.turn.hints) is (reason == "ScaleContested")


async def test_two_that_ask_for_the_last_gpu_do_not_both_get_it(opened: Open) -> None:
    there = opened(l40s=3)
    there.put("younger", L40S, created="04:00:00", rebalancing=AUTO)
    there.put("older", L40S, rebalancing=AUTO)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    cases = there.make()
    assert (pools(cases["older"]), pools(cases["younger"])) == ({(L40S, "Active"): 2}, {(L40S, "Active"): 1})
    assert live_part(cases["younger"])["reason"] == "NoPlaceFound"


async def test_a_wish_does_not_take_the_gpu_that_a_younger_objects_declared_replica_needs(opened: Open) -> None:
    there = opened(l40s=2)
    there.put("older", L40S, rebalancing=AUTO)
    await there.settle()
    there.load(there.make()["older"], PRESSURE)
    there.put("younger", L40S, created="04:00:00")
    cases = there.make()
    assert (pools(cases["older"]), pools(cases["younger"])) == ({(L40S, "Active"): 1}, {(L40S, "Active"): 1})
    assert live_part(cases["older"])["reason"] == "NoPlaceFound"


async def test_an_engine_with_too_little_cache_is_moved_new_before_old_within_the_pass(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    there.put("asks", L4, L40S, rebalancing=AUTO)
    there.put("honest", L40S, created="04:00:00")
    await there.settle()
    there.load(there.make()["asks"], EASY, capacity=1000)
    blocked = there.make()
    assert (pools(blocked["asks"]), live_part(blocked["asks"])["reason"]) == ({(L4, "Active"): 1}, "NoPlaceFound")
    assert pools(blocked["honest"]) == {(L40S, "Active"): 1}


async def test_a_move_with_a_place_opens_the_new_pool_and_is_waited_for(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    there.put("asks", L4, L40S, rebalancing=AUTO)
    await there.settle()
    there.load(there.make()["asks"], EASY, capacity=1000)
    case = there.make()["asks"]
    assert (pools(case), live_part(case)["decision"]) == ({(L40S, "Active"): 1, (L4, "Retiring"): 1}, "Move")
    there.carry_out([case])
    there.load(there.make()["asks"], PRESSURE, capacity=100_000)
    assert live_part(there.make()["asks"])["reason"] == "MoveUnderWay"


async def test_a_replica_less_is_planned_in_the_same_pass(opened: Open) -> None:
    there = opened(l40s=2)
    there.put("asks", L40S, replicas=2, rebalancing=AUTO)
    await there.settle()
    asks = there.make()["asks"]
    there.load(asks, SLACK)
    there.has_been_enough(asks)
    case = there.make()["asks"]
    assert (pools(case), live_part(case)["decision"], live_part(case)["targetReplicas"]) == (
        {(L40S, "Active"): 1},
        "RemoveReplica",
        1,
    )


async def test_recommend_mode_plans_what_it_proposes_and_leaves_everything_as_it_is(opened: Open) -> None:
    there = opened(l40s=2)
    there.put("advice", L40S, rebalancing=AUTO | {"mode": "Recommend"})
    there.put("auto", L40S, created="04:00:00", rebalancing=AUTO)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    cases = there.make()
    assert pools(cases["advice"]) == {(L40S, "Active"): 1}
    assert live_part(cases["advice"])["proposal"].startswith("Set spec.replicas to 2. 2 replicas are needed")
    assert live_part(cases["auto"])["reason"] == "NoPlaceFound"


async def test_the_snapshot_holds_what_is_proposed_and_nothing_that_is_carried_out(opened: Open) -> None:
    there = opened(l40s=4)
    there.put("asks", L40S, rebalancing=AUTO | {"mode": "Recommend"})
    there.put("acts", L40S, created="04:00:00", rebalancing=AUTO)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    [(key, proposal)] = there.snapshot().proposals
    assert (key.name, proposal.reason) == ("asks", "SustainedKvPressure")
    assert [share.replicas for share in (*proposal.before, *proposal.after)] == [1, 2]


async def test_a_change_of_the_spec_is_placed_whatever_the_load_asks_for(opened: Open) -> None:
    """The pods that report are of the old place. They serve until the new ones do, and then nothing is decided."""
    there = opened(l4=1, l40s=4)
    there.put("asks", L4, rebalancing=AUTO)
    await there.settle()
    there.load(there.make()["asks"], PRESSURE)
    there.change("asks", gpu={"allow": [L40S]})
    case = there.make()["asks"]
    assert pools(case) == {(L40S, "Active"): 2, (L4, "Retiring"): 1}
    there.carry_out([case])
    there.load(there.make()["asks"], PRESSURE)
    assert live_part(there.make()["asks"])["reason"] == "MoveUnderWay"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(KeyError("name"), "PlanFailed"), (UnsupportedModel("a/b", "a memory law"), "UnsupportedModel")],
    ids=["defect", "refusal"],
)
async def test_a_wish_that_cannot_be_planned_stays_with_its_object(
    opened: Open, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    there = opened(l40s=8)
    for name in ("a-poison", "b-honest"):
        there.put(name, L40S, rebalancing=AUTO)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    real = warnings_for

    def throw(wanted: Any, choice: Any) -> Any:
        if wanted.key.name == "a-poison" and wanted.replicas == 2:
            raise error
        return real(wanted, choice)

    monkeypatch.setattr(make_before_break, "warnings_for", throw)
    cases = there.make()
    poison = cases["a-poison"]
    assert poison.outcome.problem is not None
    assert (poison.outcome.problem.reason, poison.outcome.decision, poison.manifests) == (reason, None, ())
    assert poison.outcome.problem.permanent, "nothing comes of waiting"
    assert (pools(cases["b-honest"]), live_part(cases["b-honest"])["decision"]) == ({(L40S, "Active"): 2}, "AddReplica")


async def test_a_turn_that_raises_stays_with_its_object(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    there = opened(l40s=8)
    for name in ("a-poison", "b-honest"):
        there.put(name, L40S, rebalancing=AUTO)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    real = take_turn

    def throw(*arguments: Any, **options: Any) -> Any:
        if arguments[5].tenant.request.key.name == "a-poison":
            raise ZeroDivisionError
        return real(*arguments, **options)

    monkeypatch.setattr(decide_module, "take_turn", throw)
    cases = there.make()
    assert cases["a-poison"].outcome.problem is not None
    assert cases["a-poison"].outcome.problem.reason == "ListenFailed"
    assert pools(cases["b-honest"]) == {(L40S, "Active"): 2}


async def test_without_a_reading_a_suspended_object_and_one_that_is_off_take_no_turn(opened: Open) -> None:
    there = opened(l40s=8)
    there.put("unread", L40S, rebalancing=AUTO)
    there.put("off", L40S, rebalancing=AUTO | {"mode": "Off"})
    there.put("suspended", L40S, rebalancing=AUTO)
    there.put("asks", L40S, rebalancing=AUTO)
    await there.settle()
    for name, case in there.make().items():
        if name != "unread":
            there.load(case, PRESSURE)
    there.change("suspended", suspend=True)
    cases = there.make()
    assert {name for name, case in cases.items() if case.outcome.turn is not None} == {"asks"}
    assert live_part(cases["asks"])["decision"] == "AddReplica"


class Signs(Beats):
    """Signs of life, kept in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    @override
    def beat(self, loop: str, work: str) -> None:
        self.seen.append(work)


async def test_every_object_is_a_sign_of_life_at_every_step(opened: Open) -> None:
    there = opened(l40s=8)
    for name in ("a", "b"):
        there.put(name, L40S, rebalancing=AUTO)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    there.passes.beats = signs = Signs()
    there.make()
    seen = signs.seen
    for name in ("a", "b"):
        assert f"reading demands, after ns/{name}" in seen
        assert f"planning, after ns/{name}" in seen
        assert seen.count(f"listen ns/{name}") == 2, "once before the plan and once after it"
