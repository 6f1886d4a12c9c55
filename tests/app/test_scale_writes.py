"""Who writes the number of replicas through the scale subresource, and when that is a contest."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.app import pruning
from plimsoll.app.scale_writes import ScaleWrite, ScaleWrites, scale_write_of
from plimsoll.domain.times import from_rfc3339
from tests.support.bodies import inference_deployment_body

NOW = 1_700_000_000.0
HPA = "kube-controller-manager"


def entry(manager: str, time: str, *, subresource: str = "scale", field: str = "f:replicas") -> dict[str, Any]:
    return {"manager": manager, "time": time, "subresource": subresource, "fieldsV1": {"f:spec": {field: {}}}}


def stored(*entries: dict[str, Any]) -> Any:
    body = inference_deployment_body()
    body["metadata"]["managedFields"] = list(entries)
    return pruning.inference_deployment(body)


def contender(*writes: ScaleWrite, now: float = NOW) -> str:
    known = ScaleWrites()
    return [known.contender("uid", write, now) for write in writes][-1]


def written(*ages: float, manager: str = HPA) -> list[ScaleWrite]:
    return [ScaleWrite(manager, NOW - age) for age in ages]


def test_the_store_keeps_the_last_write_of_the_scale_subresource_and_no_managed_fields() -> None:
    body = stored(
        entry("kubectl", "2026-11-21T03:00:00Z"),
        entry(HPA, "2026-11-21T04:00:00Z"),
        entry("argocd", "2026-11-21T05:00:00Z", subresource=""),
        entry("other", "2026-11-21T06:00:00Z", field="f:suspend"),
    )
    assert "managedFields" not in body["metadata"]
    assert scale_write_of(body) == ScaleWrite(HPA, from_rfc3339("2026-11-21T04:00:00Z") or 0.0)
    assert scale_write_of(stored()) is None
    assert scale_write_of(stored(entry(HPA, "yesterday"))) is None


def test_three_writes_of_one_client_within_an_hour_are_a_contest() -> None:
    assert contender(*written(30, 20, 10)) == HPA
    assert contender(*written(20, 10)) == ""
    assert contender(*written(10, 10, 10)) == "", "one write that is seen in three passes"
    assert contender(*written(3700, 20, 10)) == ""


@pytest.mark.parametrize("manager", ["kubectl", "kubectl-edit", "kubectl-client-side-apply"])
def test_a_person_may_scale_as_often_as_needed(manager: str) -> None:
    assert contender(*written(40, 30, 20, 10, manager=manager)) == ""


def test_several_clients_are_told_apart() -> None:
    assert contender(*written(40, 30), *written(20, 10, manager="keda-operator")) == ""
    assert contender(*written(50, 40, 30), *written(20, manager="keda-operator")) == HPA


def test_a_contest_ends_an_hour_after_the_writes_and_with_the_object() -> None:
    known, last = ScaleWrites(), written(10)[0]
    for write in written(30, 20, 10):
        known.contender("uid", write, NOW)
    assert known.contender("uid", last, NOW) == HPA
    assert known.contender("other", last, NOW) == "", "an honest neighbour"
    assert known.contender("uid", last, NOW + 3700) == ""
    for write in written(30, 20, 10):
        known.contender("uid", write, NOW)
    known.keep_only(["other"])
    assert known.contender("uid", last, NOW) == ""
