"""Proposals in a pass: shown in the status of who waits and in the snapshot, and never carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS, PRIORITY_CLASSES
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.priority_reading import PREEMPTS
from tests.support.bodies import POOL, inference_deployment_body, pod_body
from tests.support.desk import Desk

SPEC = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 6}


def priority_class(name: str, value: int, *, preempts: bool) -> dict[str, Any]:
    head = {"name": name, "uid": name, "resourceVersion": "1"}
    return {"metadata": {**head, "annotations": {PREEMPTS: "true"} if preempts else {}}, "value": value}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def with_a_running_one(desk: Desk, *, preempts: bool) -> None:
    """``runs`` has the only GPU, ``gold`` waits, and a third one has the wrong class."""
    desk.store.replace(PRIORITY_CLASSES, [priority_class("gold", 1000, preempts=preempts)])
    await desk.settle("runs", gpus=1)
    [runs] = desk.store.all(INFERENCE_DEPLOYMENTS)
    head = {**runs["metadata"], "resourceVersion": "5"}
    status = desk.recorder.statuses["runs"]
    template = {"podTemplate": {"priorityClassName": "gold"}}
    gold = inference_deployment_body("gold", uid="uid-gold", spec={**SPEC, **template})
    desk.store.replace(INFERENCE_DEPLOYMENTS, [{**runs, "metadata": head, "status": status}, gold])
    workload = next(each for each in desk.recorder.applied if each["kind"] == "Deployment")
    owned = {**workload["metadata"], "uid": "w", "resourceVersion": "1"}
    desk.store.replace(DEPLOYMENTS, [{**workload, "metadata": owned}])
    pod = pod_body("runs-0", pool=POOL, owner="runs")
    pod["spec"]["nodeName"] = "h100-0"
    pod["spec"]["containers"] = [{"name": "engine", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    desk.store.replace(PODS, [pod])
    await desk.planner.one_pass()


async def test_who_may_preempt_sees_whose_end_would_make_room_and_nothing_ends(desk: Desk) -> None:
    await with_a_running_one(desk, preempts=True)
    [proposal] = desk.recorder.statuses["gold"]["proposals"]
    assert proposal["reason"] == "PreemptLowerPriority"
    assert proposal["message"].startswith("end 1 of runs on h100-sxm-80gb x 1 (node h100-0): makes room for 1 more")
    assert "proposals" not in desk.recorder.statuses["runs"]
    assert desk.planner.latest is not None
    assert [key for key, _ in desk.planner.latest.proposals] == [ObjectKey("ns", "gold")]
    assert desk.recorder.statuses["runs"]["pools"][0]["replicas"] == 1


async def test_without_the_admin_s_word_nothing_is_proposed(desk: Desk) -> None:
    await with_a_running_one(desk, preempts=False)
    assert desk.recorder.reason("gold") == "WaitingForGpus"
    assert "proposals" not in desk.recorder.statuses["gold"]


async def test_a_later_pass_says_the_same_without_a_new_search(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await with_a_running_one(desk, preempts=True)
    before = desk.recorder.statuses["gold"]["proposals"]

    def refused(*_: Any) -> Any:
        raise AssertionError("nothing has changed")

    monkeypatch.setattr("plimsoll.decision.memory.proposals", refused)
    await desk.planner.one_pass()
    assert desk.recorder.statuses["gold"]["proposals"] == before


async def test_a_search_that_fails_costs_nobody_a_decision(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("plimsoll.decision.memory.proposals", broken)
    await with_a_running_one(desk, preempts=True)
    assert desk.recorder.reason("gold") == "WaitingForGpus"
    assert "proposals" not in desk.recorder.statuses["gold"]
