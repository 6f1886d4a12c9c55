"""Whole passes next to a router that favours one replica: prefixes stick, and no number of replicas mends it."""

from __future__ import annotations

import pytest

from plimsoll.app.plan.rendered import Desired
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.reading import Reading
from tests.support.live_passes import AUTO, L40S, LivePasses, Open, live_part, pools

REPLICAS = 3
TURNS, TURN_SECONDS = 16, 15.0


def _sample(at: float, *, is_crowded: bool) -> EngineSample:
    return EngineSample(
        at=at,
        kv_usage=0.97 if is_crowded else 0.1,
        waiting=9 if is_crowded else 0,
        running=8 if is_crowded else 1,
        preemptions_total=0,
        kv_capacity_tokens=100_000,
        prompt_tokens_total=at,
        generation_tokens_total=at,
    )


def _serve(there: LivePasses, case: Desired, crowded: int) -> None:
    """Let so many replicas have a queue and a full cache, and the others next to nothing."""
    pods = sorted(pod.name for pod in case.outcome.deployment.placed.around.ready_pods())
    times = [there.now - 1 - 5 * index for index in reversed(range(8))]
    signals = {
        pod: PodSignals(pod, tuple(_sample(at, is_crowded=number < crowded) for at in times))
        for number, pod in enumerate(pods)
    }
    there.passes.live.readings[case.key] = Reading(signals)


@pytest.mark.parametrize("mode", ["Standalone", "Gateway"])
async def test_prefixes_that_stick_to_one_replica_bring_no_more_of_them_and_a_crowd_at_all_does(
    opened: Open, mode: str
) -> None:
    there = opened(l40s=8)
    routing = {"mode": mode} | ({"gateway": {"name": "shared"}} if mode == "Gateway" else {})
    loop = {**AUTO, "minReplicas": REPLICAS, "maxReplicas": 6}
    for name in ("sticks", "crowded"):
        there.put(name, L40S, replicas=REPLICAS, routing=routing, rebalancing=loop)
    await there.settle()
    cases = there.make()
    most = {"sticks": 0, "crowded": 0}
    for _ in range(TURNS):
        there.now += TURN_SECONDS
        _serve(there, cases["sticks"], crowded=1)
        _serve(there, cases["crowded"], crowded=REPLICAS)
        cases = there.make()
        there.carry_out(list(cases.values()))
        most = {name: max(known, pools(cases[name])[L40S, "Active"]) for name, known in most.items()}
    assert most["sticks"] == REPLICAS
    assert not live_part(cases["sticks"]).get("changes")
    assert live_part(cases["sticks"])["diagnosis"] == "Imbalanced"
    assert most["crowded"] > REPLICAS, "a queue at all of them asks for more"
