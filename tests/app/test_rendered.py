"""What is rendered is rendered again when something about it has changed, and only then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from benchmarks.planning.passes import look_up
from benchmarks.planning.pictures import carry_out
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES, PODS, ClusterRefused
from plimsoll.app.plan import rendered as rendered_module
from plimsoll.app.plan.passes import PassResult
from plimsoll.app.plan.rendered import UNWRITTEN_SECONDS, Desired
from tests.support.office import OBJECTS, Office


@pytest.fixture
async def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    made = Office.open(tmp_path)
    made.count(monkeypatch, rendered_module, "report_of")
    await made.settle()
    yield made
    await made.passes.reader.models.close()


def told(done: PassResult) -> list[tuple[Any, ...]]:
    return [(case.report, case.manifests, case.new_status) for case in done.desired]


async def test_what_has_not_changed_is_given_again_whatever_the_clock_says(office: Office) -> None:
    before = told(office.make())
    office.now += 3600 * 24
    assert told(office.make()) == before
    assert office.calls == {}
    assert all(status and manifests for _, manifests, status in before)


async def test_an_object_whose_pod_changes_is_rendered_alone(office: Office) -> None:
    office.change(PODS, 3, lambda body: body["status"]["conditions"][1].update(status="False"))
    cases = office.make().desired
    assert office.calls == {"report_of": 1}
    assert [ready(case) for case in cases] == [1, 1, 1, 0, 1]


async def test_the_objects_to_make_are_rendered_again_for_another_spec_and_not_for_another_pod(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.make()
    office.count(monkeypatch, rendered_module, "manifests_of")
    office.change(PODS, 3, lambda body: body["status"]["conditions"][1].update(status="False"))
    office.change(INFERENCE_DEPLOYMENTS, 1, lambda body: body["spec"].update(contextLength=2048))
    before = [case.manifests for case in office.make().desired]
    assert office.calls["manifests_of"] == 2, "nothing was rendered while this was counted"
    office.calls.clear()
    office.change(PODS, 3, lambda body: body["status"]["conditions"][1].update(status="True"))
    office.change(INFERENCE_DEPLOYMENTS, 1, lambda body: body["spec"].update(contextLength=4096))
    after = [case.manifests for case in office.make().desired]
    assert office.calls["manifests_of"] == 1
    assert [known is new for known, new in zip(before, after, strict=True)] == [True, False, True, True, True]


def ready(case: Desired) -> Any:
    return case.new_status["readyReplicas"] if case.new_status else None


async def test_an_object_whose_status_somebody_edits_is_rendered_anew(office: Office) -> None:
    right = office.make().desired[2].new_status
    office.change(INFERENCE_DEPLOYMENTS, 2, lambda body: body["status"].update(readyReplicas=9))
    cases = office.make().desired
    assert office.calls == {"report_of": 1}
    assert cases[2].outcome.deployment.record.status.ready_replicas == 9
    assert cases[2].new_status == right


async def test_a_status_that_is_not_written_yet_is_rendered_once_and_anew_after_a_while(office: Office) -> None:
    office.change(INFERENCE_DEPLOYMENTS, 2, lambda body: body.update(status={}))
    first = office.make().desired[2].new_status
    assert office.calls == {"report_of": 1}
    assert first
    office.now += UNWRITTEN_SECONDS - 1
    assert office.make().desired[2].new_status is first
    assert office.calls == {}
    office.now += 2
    assert office.make().desired[2].new_status == {**first, "conditions": ANY}
    assert office.calls == {"report_of": 1}


async def test_a_new_object_is_not_rendered_again_because_others_have_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office.open(tmp_path)
    office.make()
    await look_up(office.passes)
    office.count(monkeypatch, rendered_module, "report_of")
    before = office.make().desired
    assert office.calls == {"report_of": OBJECTS}
    carry_out(office.store, before[:1], 1)
    after = office.make().desired
    assert office.calls == {"report_of": 1}
    assert [new.new_status is known.new_status for new, known in zip(after, before, strict=True)][1:] == [True] * 4
    await office.passes.reader.models.close()


async def test_an_object_that_the_api_server_refuses_is_rendered_anew(office: Office) -> None:
    refusal = ClusterRefused("apply", 403, "no more pods")
    office.passes.noticed.refusals.note(office.make().desired[1].uid, "", refusal)
    cases = office.make().desired
    assert office.calls == {"report_of": 1}
    assert "no more pods" in str(cases[1].new_status)


async def test_a_node_that_leaves_no_room_for_an_update_changes_what_is_rendered(office: Office) -> None:
    """Whether a new replica may start before the old one ends depends on the nodes alone."""
    before = told(office.make())
    for index in range(len(office.store.all(NODES))):
        office.change(NODES, index, lambda body: body["status"]["allocatable"].update(pods="0"))
    after = office.make()
    assert office.calls == {"report_of": OBJECTS}
    assert [manifests for _, manifests, _ in told(after)] != [manifests for _, manifests, _ in before]
