"""Maintenance windows, the fleet's budget and the cluster's switch in whole passes, with an honest neighbour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.planning.passes import look_up, new_passes
from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from plimsoll.api.v1alpha1 import RebalancingMode
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.settings import Settings
from plimsoll.decision.turns import LoopTurn, Standing
from plimsoll.decision.world import ClusterSettings
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import to_rfc3339
from plimsoll.rebalance.state.decisions import DecisionReason, Wait
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.status.record.reading import RECORD, Record, read
from plimsoll.status.record.report import Report
from plimsoll.status.writing import document_of, new_status
from tests.support.live_passes import AUTO, EASY, H100, L4, L40S, NOW, PRESSURE, LivePasses, Open, live_part, pools
from tests.support.proposal_passes import ProposalPasses

ADVICE, MOVES = AUTO | {"mode": "Recommend"}, AUTO | {"moves": "Recommend"}
CLOSED = {"maintenanceWindows": [{"schedule": "0 2 * * tue", "duration": "4h", "timeZone": "Europe/Berlin"}]}
OPEN = {"maintenanceWindows": [{"schedule": "0 22 * * sat", "duration": "90m"}]}
"""``NOW`` is 22:26:40 on Saturday, 21 November 2026 (UTC)."""

MOVED, STAYED = {(L40S, "Active"): 1, (L4, "Retiring"): 1}, {(L4, "Active"): 1}


async def too_small(there: LivePasses, *names: str) -> None:
    """Let these deployments have engines with too little KV cache on L4, and those called ``busy`` much to do."""
    await there.settle()
    for name, case in there.make().items():
        if name in names:
            there.load(case, EASY, capacity=1000)
        elif name.startswith("busy"):
            there.load(case, PRESSURE)


def put_small(there: LivePasses, name: str, rebalancing: dict[str, Any] = AUTO, **more: Any) -> None:
    there.put(name, L4, L40S, rebalancing=rebalancing, **more)


def claim(there: LivePasses, name: str, *changes: dict[str, Any]) -> None:
    """Let somebody write these changes into the status of a deployment."""
    there.version += 1
    [body] = [each for each in there.store.all(INFERENCE_DEPLOYMENTS) if each["metadata"]["name"] == name]
    loop = {"decision": "Keep", "reason": "WithinBand", "message": "", "changes": list(changes)}
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    raw = {key: value for key, value in body.items() if key != RECORD}
    forged = {**raw, "metadata": head, "status": {**body["status"], "rebalancing": loop}}
    there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", forged)


def changed(kind: str = "Move", *, ago: float = 60.0) -> dict[str, Any]:
    return {"at": to_rfc3339(NOW - ago), "kind": kind}


def reason(case: Desired) -> str:
    return str(live_part(case)["reason"])


# -- maintenance windows -----------------------------------------------------------------------------------------------


async def test_a_move_waits_for_its_window_and_its_neighbours_do_not(opened: Open) -> None:
    there = opened(l4=2, l40s=3, h100=2)
    put_small(there, "waits", AUTO | CLOSED)
    put_small(there, "moves", AUTO | OPEN)
    there.put("busy", H100, rebalancing=AUTO | CLOSED)
    await too_small(there, "waits", "moves")
    cases = there.make()
    assert (pools(cases["waits"]), reason(cases["waits"])) == (STAYED, "OutsideMaintenanceWindow")
    assert live_part(cases["waits"])["message"] == (
        "Waiting (PlacementTooSmall): no maintenance window is open. The next one opens at 2026-11-24T01:00:00Z, 3,034 "
        "min after this was decided."
    )
    assert pools(cases["moves"]) == MOVED
    assert pools(cases["busy"]) == {(H100, "Active"): 2}, "replicas are added at any time"


def test_the_message_stays_while_the_next_window_does_and_another_window_gives_another_one() -> None:
    def turn(opens: str, minutes: int) -> LoopTurn:
        numbers = (("wanted", "PlacementTooSmall"), ("opens", opens), ("minutes", minutes))
        return LoopTurn(Standing(1, 1, ChangeHistory()), Wait(DecisionReason.OUTSIDE_MAINTENANCE_WINDOW, numbers))

    first = turn("2026-11-24T01:00:00Z", 3034).report(Record(), RebalancingMode.AUTO)
    written = read(document_of(new_status(Report("x", 1, 1, rebalancing=first), Record(), "")))
    later = turn("2026-11-24T01:00:00Z", 12).report(written, RebalancingMode.AUTO)
    assert later.message == first.message
    assert "opens at 2026-11-24T01:00:00Z, 3,034 min" in later.message
    other = turn("2026-11-23T01:00:00Z", 12).report(written, RebalancingMode.AUTO)
    assert "opens at 2026-11-23T01:00:00Z, 12 min" in other.message


async def test_the_window_opens_and_the_move_is_made(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    put_small(there, "waits", AUTO | CLOSED)
    await too_small(there, "waits")
    there.carry_out([there.make()["waits"]])
    there.now += 3034 * 60
    there.load(there.make()["waits"], EASY, capacity=1000)
    case = there.make()["waits"]
    assert pools(case) == MOVED
    assert [each["kind"] for each in live_part(case)["changes"]] == ["Move"]


@pytest.mark.parametrize("given", [ADVICE, MOVES], ids=["mode Recommend", "moves Recommend"])
async def test_outside_its_window_a_move_is_proposed_and_an_approval_is_carried_out_at_once(
    opened: Open, given: dict[str, Any]
) -> None:
    there = opened(l4=1, l40s=1)
    put_small(there, "asks", given | CLOSED)
    room = ProposalPasses.open(there)
    await too_small(there, "asks")
    proposed = (await room.turn())["asks"]
    assert (live_part(proposed)["decision"], pools(proposed)) == ("Move", STAYED)
    [body] = room.proposals()
    room.answer(body["id"])
    assert pools((await room.turn())["asks"]) == MOVED


@pytest.mark.parametrize(
    ("window", "named"),
    [
        ({"schedule": "0 25 * * *", "duration": "4h"}, "maintenanceWindows[0].schedule: '0 25 * * *'"),
        ({"schedule": "@daily", "duration": "4h"}, "maintenanceWindows[0].schedule: '@daily'"),
        ({"schedule": "0 2 * * *", "duration": "4 hours"}, "maintenanceWindows[0].duration: '4 hours'"),
        (
            {"schedule": "0 2 * * *", "duration": "4h", "timeZone": "Berlin"},
            "maintenanceWindows[0].timeZone: 'Berlin'",
        ),
    ],
    ids=["schedule", "macro", "duration", "zone"],
)
async def test_a_window_that_cannot_be_read_is_named_and_what_runs_goes_on(
    opened: Open, window: dict[str, str], named: str
) -> None:
    there = opened(l4=2, l40s=2)
    put_small(there, "bad")
    put_small(there, "honest")
    await too_small(there, "honest")
    there.change("bad", rebalancing=AUTO | {"maintenanceWindows": [window]})
    cases = there.make()
    bad = cases["bad"]
    assert bad.outcome.problem is not None
    assert (bad.outcome.problem.reason, bad.outcome.problem.permanent) == ("InvalidSpec", True)
    assert f"spec.rebalancing.{named} cannot be used. " in bad.outcome.problem.message
    assert bad.manifests == (), "nothing of it is changed"
    assert [pool.name for pool in bad.outcome.deployment.placed.pools] == ["l4-24gb-tp1"]
    assert pools(cases["honest"]) == MOVED


# -- the deployment's own limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dollars", "replicas"), [(None, 2), ("{two}", 2), ("{one}", 1), ("0.0001", 1)])
async def test_no_addition_costs_more_than_the_limit_and_a_neighbour_without_one_grows(
    opened: Open, dollars: str | None, replicas: int
) -> None:
    there = opened(l4=8)
    [each] = {gpu.price.usd_per_hour for gpu in load_gpu_types() if gpu.name == L4 and gpu.price is not None}
    limits = {} if dollars is None else {"limits": {"dollarsPerHour": dollars.format(one=each, two=2 * each)}}
    there.put("bounded", L4, rebalancing=AUTO | limits)
    there.put("free", L4, created="04:00:00", rebalancing=AUTO)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    cases = there.make()
    assert (pools(cases["bounded"]), pools(cases["free"])) == ({(L4, "Active"): replicas}, {(L4, "Active"): 2})
    if replicas < 2:
        words = live_part(cases["bounded"])["message"]
        assert words.startswith("Waiting (SustainedKvPressure): all replicas would cost ")
        assert words.endswith(f"spec.rebalancing.limits.dollarsPerHour allows {limits['limits']['dollarsPerHour']}.")


# -- the fleet's budget ------------------------------------------------------------------------------------------------


def bounded(there: LivePasses, moves: int) -> None:
    there.passes.reader.settings = Settings(rebalancing_moves_per_hour=moves)


def test_an_admin_who_sets_nothing_has_the_settings_of_a_world_without_an_admin() -> None:
    assert Settings().of_cluster == ClusterSettings()


async def test_two_want_the_last_move_of_a_pass_and_one_gets_it(opened: Open) -> None:
    there = opened(l4=2, l40s=4, h100=4)
    bounded(there, 4)
    there.put("busy-first", H100, namespace="f", created="02:00:00", rebalancing=AUTO)
    put_small(there, "older", namespace="a")
    put_small(there, "younger", namespace="b", created="04:00:00")
    there.put("busy", H100, namespace="b", created="05:00:00", rebalancing=AUTO)
    for name in ("c", "d", "e"):
        there.put(name, H100, namespace=name, rebalancing=AUTO, replicas=0)
    await too_small(there, "older", "younger")
    for name in ("c", "d", "e"):
        claim(there, name, changed(ago=3599))
    cases = there.make()
    assert (pools(cases["older"]), pools(cases["younger"])) == (MOVED, STAYED)
    assert live_part(cases["younger"])["message"] == (
        "Waiting (PlacementTooSmall): the last hour saw 4 moves and changes of settings of all deployments, and the "
        "operator allows 4."
    )
    for name in ("busy-first", "busy"):
        assert pools(cases[name]) == {(H100, "Active"): 2}, "an addition is not delayed, and does not count"
    there.carry_out(list(cases.values()))
    there.now += 60
    there.load(there.make()["younger"], EASY, capacity=1000)
    assert pools(there.make()["younger"]) == MOVED, "the hour of three others has passed"


async def test_a_restart_of_the_operator_forgets_no_move(opened: Open, tmp_path: Path) -> None:
    there = opened(l4=2, l40s=4)
    bounded(there, 1)
    put_small(there, "first", namespace="a")
    put_small(there, "second", namespace="b", created="04:00:00")
    await too_small(there, "first", "second")
    cases = there.make()
    assert (pools(cases["first"]), reason(cases["second"])) == (MOVED, "FleetBudgetSpent")
    there.carry_out(list(cases.values()))
    reader = there.passes.live.reader
    await there.passes.reader.models.close()
    there.passes = new_passes(tmp_path / "successor")
    there.passes.live.reader = reader
    there.make()
    await look_up(there.passes)
    there.load(there.make()["second"], EASY, capacity=1000)
    assert pools(there.make()["second"]) == MOVED, "the usual bound would let it move"
    bounded(there, 1)
    assert reason(there.make()["second"]) == "FleetBudgetSpent"


@pytest.mark.parametrize("claims", [10_000, 250], ids=["more than a status may hold", "as many as a status may hold"])
@pytest.mark.parametrize("namespace", ["a", "b"], ids=["same namespace", "another namespace"])
async def test_forged_moves_in_one_status_stop_nobody_else(opened: Open, claims: int, namespace: str) -> None:
    there = opened(l4=2, l40s=4)
    put_small(there, "forger", namespace="a")
    put_small(there, "honest", namespace=namespace, created="04:00:00")
    await too_small(there, "forger", "honest")
    claim(there, "forger", *(claims * [changed()]))
    there.load(there.make()["forger"], EASY, capacity=1000)
    cases = there.make()
    assert pools(cases["honest"]) == MOVED
    if claims == 250:
        assert pools(cases["forger"]) == STAYED, "it has stopped its own moves"


async def test_a_status_that_cannot_be_read_stops_nobody(opened: Open) -> None:
    there = opened(l4=2, l40s=4)
    bounded(there, 2)
    put_small(there, "broken", namespace="a")
    put_small(there, "honest", namespace="b", created="04:00:00")
    await too_small(there, "honest")
    claim(there, "broken", {"at": "yesterday", "kind": "Move"}, {"at": to_rfc3339(NOW), "kind": "Guess"})
    assert pools(there.make()["honest"]) == MOVED
    there.change("broken", generation=3)
    there.version += 1
    [body] = [each for each in there.store.all(INFERENCE_DEPLOYMENTS) if each["metadata"]["name"] == "broken"]
    raw = {key: value for key, value in body.items() if key != RECORD}
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**raw, "metadata": head, "status": {"rebalancing": 7}})
    assert pools(there.make()["honest"]) == MOVED


async def test_an_approved_move_is_made_beyond_the_bound_and_counts(opened: Open) -> None:
    there = opened(l4=2, l40s=4)
    bounded(there, 1)
    put_small(there, "asks", MOVES, namespace="ns")
    put_small(there, "waits", namespace="b", created="04:00:00")
    room = ProposalPasses.open(there)
    await too_small(there, "asks", "waits")
    claim(there, "waits", changed())
    there.load(there.make()["waits"], EASY, capacity=1000)
    assert reason((await room.turn())["waits"]) == "FleetBudgetSpent"
    [body] = room.proposals()
    room.answer(body["id"])
    assert pools((await room.turn())["asks"]) == MOVED


# -- one switch for the cluster ----------------------------------------------------------------------------------------

SUSPENDED = Settings(rebalancing_suspended=True)
WORDS = (
    "Waiting: rebalancing is suspended for the whole cluster. Nothing is decided, and no approved proposal is carried "
    "out."
)


async def test_while_the_switch_is_set_every_status_says_so_and_nothing_changes_but_what_users_declare(
    opened: Open,
) -> None:
    there = opened(l4=1, l40s=5, h100=2)
    put_small(there, "moves")
    there.put("busy", L40S, rebalancing=AUTO)
    there.put("advice", L40S, rebalancing=ADVICE)
    there.put("off", L40S, rebalancing=AUTO | {"mode": "Off"})
    there.put("zero", L40S, rebalancing=AUTO, replicas=0)
    await too_small(there, "moves")
    there.passes.reader.settings = SUSPENDED
    there.put("new", H100, rebalancing=AUTO)
    there.make()
    cases = there.make()
    for name in ("moves", "busy", "advice", "zero", "new"):
        part = live_part(cases[name])
        assert (part["decision"], part["reason"], part["message"]) == ("Wait", "SuspendedForCluster", WORDS), name
        assert "proposal" not in part
    assert live_part(cases["off"]) == {}
    assert (pools(cases["moves"]), pools(cases["busy"])) == (STAYED, {(L40S, "Active"): 1})
    assert pools(cases["new"]) == {(H100, "Active"): 1}, "new deployments are placed"
    busy = cases["busy"].outcome.turn
    assert busy is not None
    assert busy.figures is not None
    assert (busy.figures.needed, busy.figures.reason) == (2, "SuspendedForCluster"), "metrics go on"
    there.passes.reader.settings = Settings()
    there.now += 11
    for name, case in there.make().items():
        if name == "moves":
            there.load(case, EASY, capacity=1000)
        elif name == "busy":
            there.load(case, PRESSURE, capacity=100_000)
    after = there.make()
    assert (pools(after["moves"]), pools(after["busy"])) == (MOVED, {(L40S, "Active"): 2})


async def test_while_the_switch_is_set_no_approved_proposal_is_carried_out(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    put_small(there, "asks", MOVES)
    room = ProposalPasses.open(there)
    await too_small(there, "asks")
    await room.turn()
    [body] = room.proposals()
    there.passes.reader.settings = SUSPENDED
    name = room.answer(body["id"])
    held = (await room.turn())["asks"]
    assert (pools(held), reason(held), room.outcome(name)) == (STAYED, "SuspendedForCluster", "Waiting")
    there.passes.reader.settings = Settings()
    assert pools((await room.turn())["asks"]) == MOVED


# -- settings ----------------------------------------------------------------------------------------------------------


def test_the_settings_are_read_from_the_environment_and_wrong_ones_are_refused_by_name() -> None:
    plain = Settings.from_environment({})
    assert (plain.rebalancing_suspended, plain.rebalancing_moves_per_hour) == (False, 12)
    given = {"PLIMSOLL_REBALANCING_SUSPENDED": "true", "PLIMSOLL_REBALANCING_MOVES_PER_HOUR": "0"}
    set_so = Settings.from_environment(given)
    assert (set_so.rebalancing_suspended, set_so.rebalancing_moves_per_hour) == (True, 0)
    for name, value in (("SUSPENDED", "yes"), ("MOVES_PER_HOUR", "-1"), ("MOVES_PER_HOUR", "100000")):
        with pytest.raises(InvalidInput, match=f"PLIMSOLL_REBALANCING_{name}: '{value}' cannot be used"):
            Settings.from_environment({f"PLIMSOLL_REBALANCING_{name}": value})
