"""A load for all replicas together, pass after pass: the size stays, and the live loop never goes below it."""

from __future__ import annotations

from typing import Any

from plimsoll.app.plan.rendered import Desired
from plimsoll.decision.surroundings import wanted_replicas
from tests.support.live_passes import AUTO, H100, L4, L40S, PRESSURE, SLACK, LivePasses, Open, live_part, pools

TOTAL: dict[str, Any] = {"concurrency": None, "totalConcurrency": 24, "minReplicas": 3}


def put(there: LivePasses, name: str, *kinds: str, **spec: Any) -> None:
    """A deployment that declares the load of all its replicas."""
    load: dict[str, Any] = {"model": {"name": "Qwen/Qwen2.5-7B-Instruct"}, "contextLength": 4096} | spec
    there.put(name, *kinds, **load)


def size(case: Desired) -> tuple[int, int]:
    written = (case.new_status or {}).get("size") or {}
    return written["replicas"], written["concurrency"]


def deployed(case: Desired) -> int:
    return sum(each["spec"]["replicas"] for each in case.manifests if each["kind"] == "Deployment")


async def test_the_chosen_size_is_rendered_reported_and_kept(opened: Open) -> None:
    there = opened(l4=8, l40s=8)
    put(there, "total", L4, **TOTAL)
    there.put("plain", L40S, replicas=2)
    await there.settle()
    cases = there.make()
    case = cases["total"]
    assert (size(case), pools(case), deployed(case)) == ((3, 8), {(L4, "Active"): 3}, 3)
    assert case.report is not None
    assert case.report.replicas == 3
    assert (case.new_status or {})["replicasSummary"] == "3/3"
    assert wanted_replicas(case.body) == 3
    assert (pools(cases["plain"]), (cases["plain"].new_status or {}).get("size")) == ({(L40S, "Active"): 2}, None)
    assert there.make()["total"].outcome.decision == case.outcome.decision


async def test_a_better_size_that_becomes_free_changes_nothing_until_the_spec_changes(opened: Open) -> None:
    there = opened(l4=8, h100=1)
    put(there, "total", L4, H100, **(TOTAL | {"minReplicas": 1}))
    there.put("first", H100, created="02:00:00")
    await there.settle()
    before = there.make()["total"]
    assert pools(before).keys() == {(L4, "Active")}
    there.change("first", gpu={"deny": [H100]}, suspend=False, replicas=0)
    assert pools(there.make()["total"]) == pools(before)
    assert size(there.make()["total"]) == size(before)
    there.change("total", totalConcurrency=60)
    after = there.make()["total"]
    replicas, concurrency = size(after)
    assert replicas * concurrency >= 60
    assert after.outcome.decision is not None
    assert after.outcome.decision.request.replicas == replicas


async def test_the_live_loop_adds_replicas_and_never_goes_below_the_chosen_number(opened: Open) -> None:
    there = opened(l4=8)
    put(there, "idle", L4, **TOTAL, rebalancing=AUTO)
    await there.settle()
    served = there.make()["idle"]
    there.load(served, SLACK)
    there.has_been_enough(served)
    idle = there.make()["idle"]
    assert (live_part(idle)["reason"], live_part(idle)["targetReplicas"]) == ("AtMinReplicas", 3)
    assert live_part(idle)["baseReplicas"] == 3
    there.load(idle, PRESSURE)
    pressed = there.make()["idle"]
    assert (live_part(pressed)["decision"], live_part(pressed)["targetReplicas"]) == ("AddReplica", 4)
    there.carry_out([pressed])
    after = there.make()["idle"]
    assert (pools(after), size(after)) == ({(L4, "Active"): 4}, (3, 8))


async def test_a_user_who_goes_back_to_declared_replicas_loses_the_size(opened: Open) -> None:
    there = opened(l4=8)
    put(there, "total", L4, **TOTAL)
    await there.settle()
    there.change("total", totalConcurrency=None, minReplicas=None, concurrency=8, replicas=2)
    case = there.make()["total"]
    assert ((case.new_status or {}).get("size"), pools(case)) == (None, {(L4, "Active"): 2})
