"""Passes of the operator lead to the states of the table: the way from a spec to the metric, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll.app.plan.snapshot import Snapshot
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.severity import Severity, State
from tests.support.desk import Desk

KEY = ObjectKey("ns", "chat")
LARGE = {"model": {"name": "meta-llama/Llama-3.3-70B-Instruct"}, "contextLength": 8192, "concurrency": 8}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def settled(desk: Desk, **spec: Any) -> Snapshot:
    await desk.settle("chat", **spec)
    latest = desk.planner.latest
    assert latest is not None
    return latest


@pytest.mark.parametrize(
    ("spec", "state", "severity", "note"),
    [
        ({}, State.STARTING, Severity.PASSING, "PlacementDecided"),
        ({"suspend": True}, State.SUSPENDED, Severity.FINE, None),
        ({"replicas": 0}, State.ASLEEP, Severity.FINE, None),
        ({"concurrency": 0}, State.INVALID, Severity.OUTAGE, "InvalidSpec"),
        ({**LARGE, "gpus": 1}, State.REFUSED, Severity.OUTAGE, "PlacementImpossible"),
        ({"gpus": 0}, State.REFUSED, Severity.OUTAGE, "PlacementImpossible"),
    ],
    ids=["placed", "suspended", "zero", "invalid", "too large", "no GPUs"],
)
async def test_a_spec_leads_to_its_state_and_its_event(
    desk: Desk, spec: dict[str, Any], state: State, severity: Severity, note: str | None
) -> None:
    judged = (await settled(desk, **spec)).states[KEY]
    assert (judged.state, judged.severity) == (state, severity)
    assert desk.recorder.notes == ([] if note is None else [note])
    page = {
        (sample.labels["state"], sample.labels["severity"])
        for family in desk.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "plimsoll_deployment_state"
    }
    assert page == {(state.value, severity.name.lower())}


async def test_what_waits_for_gpus_waits_and_what_came_first_has_them(desk: Desk) -> None:
    desk.put("chat", "mail", gpus=1)
    await desk.planner.one_pass()
    await desk.look_up()
    await desk.planner.one_pass()
    latest = desk.planner.latest
    assert latest is not None
    assert sorted(each.state for each in latest.states.values()) == [State.STARTING, State.WAITS_FOR_GPUS]


async def test_all_errors_of_a_spec_are_said_at_once(desk: Desk) -> None:
    """A field with a slip, the one that is missing for it, a number that cannot be, and a GPU type that is none."""
    wrong = {"contextLength": None, "contextLenght": 4096, "concurrency": 0, "gpu": {"allow": ["h100"]}}
    await settled(desk, **wrong)
    reason, message = desk.recorder.ready()
    assert reason == "InvalidSpec"
    for field in (
        "spec.contextLength:",
        "spec.contextLenght: 4096",
        "spec.concurrency: 0",
        "spec.gpu.allow[0]: 'h100'",
    ):
        assert field in message
    assert "What helps: " in message
