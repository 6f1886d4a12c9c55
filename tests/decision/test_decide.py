"""A pass and its deployments one by one: who has a turn, and what is known of its engines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planning.passes import look_up
from plimsoll.app.plan import passes as passes_module
from plimsoll.decision.decide import decide
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.memory import Memory
from plimsoll.decision.observing import measured_speeds
from plimsoll.decision.outcome import Outcomes
from plimsoll.decision.supervisor import PassSupervisor
from plimsoll.decision.world import World
from plimsoll.domain.public_words import ConditionReason
from plimsoll.status.record.report import DeploymentProblem
from tests.support.bodies import inference_deployment_body
from tests.support.live_passes import H100, L4, L40S, LivePasses
from tests.support.outcomes import deployment_of, without_answers
from tests.support.planning import pool, request

WAITS = DeploymentProblem(ConditionReason.PLANNING_QUEUED, "It waits for a later pass.", permanent=False)


class Queue(PassSupervisor):
    """Reads all demands one by one before the plan, and lets one of them wait."""

    def __init__(self, queue: Sequence[Deployment], waits: str) -> None:
        self.queue, self.waiting = queue, waits
        self.beats: list[str] = []

    def first(self) -> Sequence[Deployment]:
        return self.queue

    def waits(self, deployment: Deployment) -> DeploymentProblem | None:
        return WAITS if deployment.key.name == self.waiting else None

    def beat(self, at: str) -> None:
        self.beats.append(at)


@pytest.mark.parametrize(("waits", "read"), [("asks", ["chat", "mail"]), ("chat", ["asks", "mail"])])
async def test_who_waits_for_a_later_pass_keeps_nobody_else_waiting(
    waits: str, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, worlds = LivePasses.open(tmp_path, {L4: 3}), list[World]()

    def noted(world: World, memory: Memory, supervisor: PassSupervisor | None = None, **tools: Any) -> Outcomes:
        worlds.append(world)
        return decide(world, memory, supervisor, **tools)

    monkeypatch.setattr(passes_module, "decide", noted)
    for name in ("asks", "chat", "mail"):
        there.put(name, L4)
    there.make()
    await look_up(there.passes)
    there.make()
    queue = Queue(worlds[-1].deployments, waits)
    found = decide(worlds[-1], without_answers(there.passes.memory), queue)
    begun = [at.rpartition("/")[2] for at in queue.beats if at.startswith("reading the demand of")]
    assert begun == read
    assert {each.deployment.key.name: each.problem for each in found.each} == {waits: WAITS, **dict.fromkeys(read)}


@pytest.mark.parametrize(
    ("percent", "elsewhere", "factors"),
    [(100, 100, []), (110, 112, [(L40S, 1.25)]), (125, 100, [(L4, 1.25)]), (80, 157, [(L4, 0.8), (L40S, 1.5625)])],
)
def test_a_pool_teaches_its_speed_in_steps_of_a_quarter_if_it_is_not_the_estimated_one(
    percent: int, elsewhere: int, factors: list[tuple[str, float]]
) -> None:
    body = inference_deployment_body("chat")
    learned = {"pool": "l4-24gb-tp1", "tokenTimePercent": percent}
    learned |= {"elsewhere": [{"pool": "l40s-48gb-tp1", "tokenTimePercent": elsewhere}]}
    loop = {"decision": "Keep", "reason": "WithinBand", "message": "", "baseReplicas": 1, "targetReplicas": 1}
    body["status"] = {"rebalancing": {**loop, "learned": learned}}
    pools = (pool(L4), pool(L40S), pool(H100))
    given = deployment_of(body, request=request(), pools=pools)
    assert [(each.kind.gpu_type, round(each.factor, 4)) for each in measured_speeds(given)] == factors
    assert measured_speeds(deployment_of(request=request(), pools=pools)) == ()
