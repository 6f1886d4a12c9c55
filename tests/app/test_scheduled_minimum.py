"""Passes in which a schedule asks for replicas: they are ready by its time, and its neighbours are untouched."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from plimsoll.decision.memory import TurnMemo
from plimsoll.placement.demands.pools import PoolState
from plimsoll.rebalance.state.memory import LoopMemory
from tests.app.test_zero import BY_HAND, asleep
from tests.support.live_passes import AUTO, EASY, H100, L40S, SLACK, LivePasses, Open, live_part, pools

STARTUP_SECONDS = 600.0
BEGINS = datetime.fromisoformat("2026-11-21T22:40:00+00:00").timestamp()
"""``NOW`` is 22:26:40 on that Saturday."""

PEAK = {"schedule": [{"cron": "40 23 * * sat", "timeZone": "Europe/Berlin", "minReplicas": 3, "duration": "1h"}]}
SUNDAY = {"schedule": [{"cron": "40 22 * * sun", "minReplicas": 3, "duration": "1h"}]}


def know_startup(there: LivePasses, *names: str) -> None:
    """Let replicas of these deployments have started for ten minutes."""
    known = there.passes.memory.turns.memories
    for case in there.make().values():
        if case.key.name in names:
            [pool] = [each.name for each in case.outcome.deployment.placed.pools if each.state is PoolState.ACTIVE]
            known = known | {case.uid: LoopMemory(pool=pool, startup_seconds=STARTUP_SECONDS)}
    there.passes.memory.turns = TurnMemo(known)


async def opened_with(opened: Open, usage: float = EASY, **rebalancing: dict[str, Any]) -> LivePasses:
    there = opened(h100=6, l40s=6)
    for name, given in rebalancing.items():
        there.put(name, H100, L40S, rebalancing=given)
    await there.settle()
    know_startup(there, *rebalancing)
    for case in there.make().values():
        there.load(case, usage)
    return there


async def test_replicas_are_ready_when_the_time_comes_and_neighbours_are_not_touched(opened: Open) -> None:
    there = await opened_with(opened, peak=AUTO | PEAK, plain=AUTO, sunday=AUTO | SUNDAY)
    begun = dict[str, float]()
    while there.now < BEGINS:
        cases = there.make()
        for name, case in cases.items():
            there.load(case, EASY)
            if sum(pools(case).values()) > 1:
                begun.setdefault(name, there.now)
        there.now += 20
    assert set(begun) == {"peak"}
    assert BEGINS - 120 <= begun["peak"] + STARTUP_SECONDS <= BEGINS


async def test_the_status_says_how_many_and_by_when_and_in_recommend_mode_it_is_a_proposal(opened: Open) -> None:
    there = await opened_with(opened, peak=AUTO | PEAK, asks=AUTO | PEAK | {"mode": "Recommend"})
    there.now = BEGINS - STARTUP_SECONDS
    cases = there.make()
    said = (
        "More replicas are needed: 1 replica is fewer than the 3 that spec.rebalancing.schedule asks for, ready by "
        "2026-11-21T22:40:00Z (a start-up takes 600 s)."
    )
    hint = ["spec.rebalancing.schedule asks for 3 ready replicas from 2026-11-21T22:40:00Z on."]
    assert sum(pools(cases["peak"]).values()) == 3
    assert sum(pools(cases["asks"]).values()) == 1
    for name, proposal in (("peak", None), ("asks", f"Set spec.replicas to 3. {said}")):
        loop = live_part(cases[name])
        assert (loop["reason"], loop["message"], loop["hints"]) == ("ScheduledMinimum", said, hint)
        assert loop.get("proposal") == proposal


async def test_no_replica_goes_while_the_schedule_counts_and_superfluous_ones_go_after_it(opened: Open) -> None:
    there = await opened_with(opened, peak=AUTO | PEAK, plain=AUTO | {"minReplicas": 3})
    there.now = BEGINS
    there.carry_out(list(there.make().values()))

    def idle(after: float) -> tuple[str, str]:
        there.now = BEGINS + after
        case = there.make()["peak"]
        there.load(case, SLACK)
        there.has_been_enough(case)
        loop = live_part(there.make()["peak"])
        return loop["reason"], loop["message"]

    assert idle(1800) == (
        "AtMinReplicas",
        "Waiting (SustainedSlack): there are as few replicas as allowed, 3 (spec.rebalancing.schedule).",
    )
    assert idle(3660)[0] == "SustainedSlack"


async def test_a_schedule_wakes_what_sleeps_and_keeps_it_awake(opened: Open) -> None:
    there = await asleep(opened, BY_HAND | PEAK, L40S, l40s=4)
    there.now = BEGINS - 1200
    assert live_part(there.make()["chat"])["reason"] == "NoRequestWaits"
    there.now = BEGINS
    case = there.make()["chat"]
    assert (live_part(case)["reason"], pools(case)) == ("ScheduledMinimum", {(L40S, "Active"): 3})


async def test_what_somebody_scaled_to_zero_stays_there(opened: Open) -> None:
    there = await opened_with(opened, off=AUTO | PEAK, on=AUTO | PEAK)
    there.change("off", replicas=0)
    there.carry_out(list(there.make().values()))
    there.now = BEGINS
    cases = there.make()
    assert sum(pools(cases["off"]).values()) == 0
    assert sum(pools(cases["on"]).values()) == 3


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"cron": "0 25 * * *", "duration": "4h"}, "schedule[0].cron: '0 25 * * *'"),
        ({"cron": "0 8 * * *", "until": "0 9 32 * *"}, "schedule[0].until: '0 9 32 * *'"),
        ({"cron": "0 8 * * *", "duration": "4h", "timeZone": "Mars/Base"}, "schedule[0].timeZone: 'Mars/Base'"),
        ({"cron": "0 8 * * *", "duration": "4h", "minReplicas": -2}, "minReplicas"),
        (
            {"cron": "0 8 * * *", "duration": "4h", "minReplicas": 5},
            "schedule[0].minReplicas: 5 cannot be used. Write at most the 4",
        ),
        ({"cron": "0 8 * * *"}, "schedule[0].until: a value is missing. Write exactly one of"),
    ],
)
async def test_a_schedule_that_cannot_be_is_an_invalid_spec_and_what_runs_stays(
    opened: Open, entry: dict[str, Any], named: str
) -> None:
    there = await opened_with(opened, bad=AUTO, good=AUTO | PEAK)
    there.change("bad", rebalancing=AUTO | {"schedule": [{"minReplicas": 2} | entry]})
    there.now = BEGINS
    cases = there.make()
    status = cases["bad"].new_status
    assert status is not None
    [planned] = [each for each in status["conditions"] if each["type"] == "Planned"]
    assert planned["reason"] == "InvalidSpec"
    assert named in planned["message"]
    assert len(cases["bad"].outcome.deployment.placed.around.ready_pods()) == 1
    assert sum(pools(cases["good"]).values()) == 3
