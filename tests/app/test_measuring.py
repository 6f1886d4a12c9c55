"""How many more replicas fit on a cluster: the number up to which the operator itself finds places for all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, Cluster, Listing, ObjectKind
from plimsoll.app.review.looking import OPERATOR_SELECTOR
from plimsoll.app.review.measuring import measure, measured
from plimsoll.app.review.overlay import overlaid
from plimsoll.app.review.values import DeploymentWish, Means, Measured
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.units import to_rfc3339
from tests.support.office import Office


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """Five InferenceDeployments that serve."""
    made = Office.open(tmp_path)
    await made.settle()
    yield made
    await made.passes.reader.models.close()


def asked(office: Office, body: Mapping[str, Any]) -> Measured:
    """The answer about an object that is applied to the cluster."""
    done = office.passes.make(overlaid(office.store.picture(), [body]), {}, office.now)
    return measured(done, DeploymentWish("file", body))


def missing(office: Office, body: Mapping[str, Any]) -> int:
    """How many replicas of the object find no place."""
    done = office.passes.make(overlaid(office.store.picture(), [body]), {}, office.now)
    (case,) = [case for case in done.desired if case.key.name == body["metadata"]["name"]]
    assert case.outcome.decision is not None
    return case.outcome.decision.missing


def with_spec(body: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "generation": 2}, "spec": {**body["spec"], **spec}}


def test_the_operator_places_that_many_more_replicas_and_not_one_more(office: Office) -> None:
    body = office.store.all(INFERENCE_DEPLOYMENTS)[0]
    found = asked(office, body)
    assert (found.runs, found.capacity.total > 1) == (1, True)
    assert missing(office, with_spec(body, replicas=1 + found.capacity.total)) == 0
    assert missing(office, with_spec(body, replicas=2 + found.capacity.total)) == 1


def test_a_node_that_was_left_closes_no_other_node_of_its_type(office: Office) -> None:
    body = office.store.all(INFERENCE_DEPLOYMENTS)[0]
    first = asked(office, body).capacity.rooms[0].option
    degree = first.split.tensor_parallel
    left = {"gpuType": first.gpu.name, "tensorParallel": degree, "at": to_rfc3339(office.now)}
    counted = []
    for where in ({}, {"node": "gone", "reason": "ReplicaSlow"}, {"node": "gone", "reason": "GpuUnusable"}):
        entry = {"rehomings": [left | where]}
        office.change(INFERENCE_DEPLOYMENTS, 0, lambda changed: changed["status"].update(entry))  # noqa: B023 - at once
        found = asked(office, office.store.all(INFERENCE_DEPLOYMENTS)[0])
        counted.append(first.target.place in [room.option.target.place for room in found.capacity.rooms])
    assert counted == [False, True, True]


def test_an_object_that_is_decided_as_suspended_takes_nothing_and_others_keep_their_gpus(office: Office) -> None:
    body = office.store.all(INFERENCE_DEPLOYMENTS)[0]
    head = {**body["metadata"], "name": "new", "uid": "new", "resourceVersion": "9"}
    new = {**body, "metadata": head, "status": {}, "spec": {**body["spec"], "suspend": True}}
    found = asked(office, new)
    assert found.runs == 0
    assert found.capacity.total == asked(office, body).capacity.total


class Served:
    """A cluster that lists the objects of the office and has no operator's Deployment and no prices."""

    def __init__(self, office: Office) -> None:
        self.office = office

    async def list(
        self,
        kind: ObjectKind,
        *,
        labels: str | None = None,
        namespace: str | None = None,
        keep: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: body,
    ) -> Listing:
        if labels == OPERATOR_SELECTOR:
            return Listing([])
        found = self.office.store.all(kind)
        return Listing([keep(dict(each)) for each in found if namespace in (None, each["metadata"].get("namespace"))])

    async def get(self, *_: object) -> None:
        return None


async def test_an_object_that_the_cluster_lacks_gets_the_count_of_one_that_runs(office: Office, tmp_path: Path) -> None:
    body = office.store.all(INFERENCE_DEPLOYMENTS)[0]
    new = {name: body[name] for name in ("apiVersion", "kind", "spec")}
    new["metadata"] = {"name": "new", "namespace": body["metadata"]["namespace"]}
    cluster, means = cast("Cluster", Served(office)), Means(tmp_path)
    found = await measure(cluster, DeploymentWish("file", new), means, {}, office.now)
    same = await measure(cluster, DeploymentWish("file", body), means, {}, office.now)
    assert (found.runs, same.runs) == (0, 1)
    assert found.capacity.total == same.capacity.total == asked(office, body).capacity.total
    assert any("No Deployment of the operator" in note for note in found.notes)
    with pytest.raises(InvalidInput, match="Use one of: elsewhere"):
        await measure(
            cluster, DeploymentWish("file", new), means, {"PLIMSOLL_WATCH_NAMESPACES": "elsewhere"}, office.now
        )


def test_an_object_that_cannot_be_planned_is_named_with_the_reason(office: Office) -> None:
    body = office.store.all(INFERENCE_DEPLOYMENTS)[0]
    with pytest.raises(PlimsollError, match=r"file: .*gpu\.allow.*no-such-gpu"):
        asked(office, with_spec(body, gpu={"allow": ["no-such-gpu"]}))
