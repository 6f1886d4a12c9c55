"""A review: objects as kubectl would leave them, the operator's settings, and the difference to what runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.client import (
    INFERENCE_DEPLOYMENTS,
    NODES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    Cluster,
    ClusterRefused,
    Listing,
    ObjectKind,
)
from plimsoll.adapters.cluster.kinds import LIMIT_RANGES, RESOURCE_CLAIMS, RESOURCE_SLICES
from plimsoll.api.crd.lost_fields import LAST_APPLIED
from plimsoll.app.review.looking import look, operator_settings
from plimsoll.app.review.overlay import applied, overlaid, stored
from plimsoll.app.review.reviewing import review_of
from plimsoll.app.review.values import Review, ReviewVerdict
from plimsoll.app.settings import Settings
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from tests.support.bodies import Body, inference_deployment_body
from tests.support.office import OBJECTS, Office

SPEC: dict[str, Any] = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 8}


def manifest(**spec: Any) -> Body:
    body = inference_deployment_body(spec=SPEC | spec)
    body["metadata"] = {"name": "llama", "namespace": "ns", "uid": "of another cluster", "labels": {"new": "label"}}
    return body


def live(before: Mapping[str, Any] | None, **spec: Any) -> Body:
    body = inference_deployment_body(spec=SPEC | spec)
    if before is not None:
        body["metadata"]["annotations"] = {LAST_APPLIED: json.dumps({"spec": {**SPEC, **before}})}
    return body


def test_a_field_that_left_the_manifest_goes_and_one_that_others_set_stays() -> None:
    had = live({"gpu": {"deny": ["l4-24gb"]}}, gpu={"deny": ["l4-24gb"]}, replicas=3, suspend=True)
    sent = applied(manifest(), had)
    assert sent["spec"] == SPEC | {"replicas": 3, "suspend": True}
    assert sent["metadata"]["labels"] == {"new": "label"}
    assert (sent["metadata"]["uid"], sent["metadata"]["resourceVersion"]) == ("u1", "1")


def test_the_record_of_the_manifest_before_is_not_that_of_this_one() -> None:
    """Otherwise the fields that the last manifest lost would be said to be in this one."""
    had = live({"sloo": {}})
    had["metadata"]["annotations"]["other"] = "kept"
    assert applied(manifest(), had)["metadata"]["annotations"] == {"other": "kept"}


def test_without_a_record_of_the_manifest_only_scaled_replicas_stay() -> None:
    had = live(None, gpu={"deny": ["l4-24gb"]}, replicas=3)
    assert applied(manifest(), had)["spec"] == SPEC
    had["metadata"]["managedFields"] = [{"subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
    assert applied(manifest(), had)["spec"] == SPEC | {"replicas": 3}
    assert "managedFields" not in applied(manifest(), had)["metadata"]


def test_only_another_spec_is_another_generation() -> None:
    first = stored(applied(manifest(), None), None, 0.0)
    assert (first["metadata"]["generation"], first["spec"]["replicas"]) == (1, 1)
    assert stored(applied(manifest(), first), first, 0.0)["metadata"]["generation"] == 1
    assert stored(applied(manifest(contextLength=8192), first), first, 0.0)["metadata"]["generation"] == 2


class FakeCluster:
    """Lists these Deployments of operators."""

    def __init__(self, *found: Body, refusal: ClusterRefused | None = None) -> None:
        self.found, self.refusal = found, refusal

    async def list(self, _: object, *, labels: str, namespace: str | None) -> Listing:
        assert labels == "app.kubernetes.io/name=plimsoll"
        if self.refusal is not None:
            raise self.refusal
        return Listing([each for each in self.found if namespace in (None, each["metadata"]["namespace"])])


def operator(namespace: str, **environment: str) -> Body:
    entries: list[Body] = [{"name": name, "value": value} for name, value in environment.items()]
    entries.append({"name": "PLIMSOLL_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}})
    pod = {"spec": {"containers": [{"name": "operator", "env": entries}]}}
    return {"metadata": {"name": "plimsoll", "namespace": namespace}, "spec": {"template": pod}}


async def settings_of(cluster: FakeCluster, **own: str) -> Any:
    return await operator_settings(cast("Cluster", cluster), own)


async def test_settings_are_those_of_the_operator_s_deployment_unless_this_process_has_its_own() -> None:
    found = FakeCluster(operator("gpus", PLIMSOLL_WATCH_NAMESPACES="a,b", PLIMSOLL_STRANDED_SECONDS="30"))
    settings, notes = await settings_of(found, PLIMSOLL_STRANDED_SECONDS="5", HOME="/")
    assert (settings.namespace, settings.watch_namespaces, settings.stranded_seconds) == ("gpus", ("a", "b"), 5.0)
    assert notes == ()
    read_from_a_file = operator("gpus", PLIMSOLL_FLEET_FILE="/etc/fleet.yaml")
    settings, notes = await settings_of(FakeCluster(read_from_a_file))
    assert settings.fleet_file is None
    assert "reads its nodes from a file" in notes[0]


async def test_without_the_operator_s_deployment_its_defaults_hold_and_that_is_said() -> None:
    settings, notes = await settings_of(FakeCluster())
    assert settings.namespace == "plimsoll-system"
    assert "No Deployment of the operator" in notes[0]
    _, notes = await settings_of(FakeCluster(refusal=ClusterRefused("list", 403, "you may not")))
    assert "(you may not)" in notes[0]


class Closed:
    """A cluster without objects that refuses to list one kind."""

    def __init__(self, kind: ObjectKind, status: int) -> None:
        self.kind, self.status = kind, status

    async def list(self, kind: ObjectKind, **_: object) -> Listing:
        if kind == self.kind:
            raise ClusterRefused("list", self.status, "no")
        return Listing([])


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (RESOURCE_QUOTAS, 403),
        (PRIORITY_CLASSES, 404),
        (RESOURCE_SLICES, 403),
        (RESOURCE_CLAIMS, 403),
        (LIMIT_RANGES, 403),
    ],
)
async def test_a_kind_that_the_operator_can_do_without_is_named_where_it_cannot_be_listed(
    kind: ObjectKind, status: int
) -> None:
    found = await look(cast("Cluster", Closed(kind, status)), Settings())
    assert found.notes == (f"{kind.plural} cannot be read (no): the plan is without them.",)


@pytest.mark.parametrize("kind", [RESOURCE_SLICES, RESOURCE_CLAIMS])
async def test_where_kubernetes_is_older_than_a_kind_nothing_is_missing(kind: ObjectKind) -> None:
    found = await look(cast("Cluster", Closed(kind, 404)), Settings())
    assert found.notes == ()


@pytest.mark.parametrize(("kind", "status"), [(PRIORITY_CLASSES, 500), (NODES, 403), (INFERENCE_DEPLOYMENTS, 404)])
async def test_without_a_kind_that_decides_or_an_answer_nothing_is_planned(kind: ObjectKind, status: int) -> None:
    with pytest.raises(ClusterRefused):
        await look(cast("Cluster", Closed(kind, status)), Settings())


async def test_of_two_operators_one_must_be_named() -> None:
    both = FakeCluster(operator("one"), operator("two"))
    with pytest.raises(InvalidInput, match="one of one, two"):
        await settings_of(both)
    assert (await settings_of(both, PLIMSOLL_NAMESPACE="two"))[0].namespace == "two"


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """Five InferenceDeployments that serve."""
    made = Office.open(tmp_path)
    await made.settle()
    yield made
    await made.passes.reader.models.close()


def reviewed(office: Office, *bodies: Mapping[str, Any]) -> Review:
    """The review of these objects, which come from files."""
    picture = office.store.picture()
    before = office.passes.make(picture, {}, office.now).desired
    after = office.passes.make(overlaid(picture, bodies), {}, office.now).desired
    fleet = office.passes.reader.memo.fleet(picture, office.passes.reader.gpu_types, {})
    return review_of(before, after, {key(each): "file" for each in bodies}, fleet)


def key(body: Mapping[str, Any]) -> ObjectKey:
    return ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])


def changed(office: Office, index: int, **spec: Any) -> Body:
    """A live object with another spec, as the API server would store it."""
    body = office.store.all(INFERENCE_DEPLOYMENTS)[index]
    head = {**body["metadata"], "generation": 2}
    return {**body, "metadata": head, "spec": {**body["spec"], **spec}}


def test_an_object_of_the_files_that_does_not_change_is_kept_and_the_others_are_counted(office: Office) -> None:
    found = reviewed(office, office.store.all(INFERENCE_DEPLOYMENTS)[0])
    (change,) = found.changes
    assert (change.verdict, change.before, change.regardless) == (ReviewVerdict.KEPT, change.after, True)
    assert (found.others, found.others_unserved, found.is_good) == (OBJECTS - 1, 0, True)
    assert found.bill.before == found.bill.after > 0


def test_the_bill_grows_by_a_new_replica_of_the_object_and_by_nothing_else(office: Office) -> None:
    found = reviewed(office, changed(office, 0, replicas=2))
    (change,) = found.changes
    assert (change.verdict, change.restarts) == (ReviewVerdict.CHANGED, False)
    (place,) = change.before
    assert place.hourly_price is not None
    assert found.bill.after - found.bill.before == place.hourly_price > Decimal(0)


def test_an_object_outside_the_files_is_shown_where_it_changes_whatever_the_cause(office: Office) -> None:
    late = changed(office, 0) | {"status": {}}
    late["metadata"] |= {"name": "late", "uid": "late", "resourceVersion": "7", "generation": 1}
    office.store.observe(INFERENCE_DEPLOYMENTS, "ADDED", late)
    found = reviewed(office, office.store.all(INFERENCE_DEPLOYMENTS)[0])
    kept, placed = found.changes
    assert (kept.verdict, kept.where) == (ReviewVerdict.KEPT, "file")
    assert (placed.key.name, placed.verdict, placed.where) == ("late", ReviewVerdict.PLACED, "")
    assert placed.regardless, "it is placed without the files, too"
    assert found.is_good


def test_an_object_outside_the_files_that_loses_its_place_by_them_is_no_good_review(office: Office) -> None:
    """One GPU is left: the object of the files is older, so it gets it."""
    picture = office.store.picture()
    held = {
        node.name: node.free
        for node in office.passes.reader.memo.fleet(picture, office.passes.reader.gpu_types, {}).nodes
    }
    for index, body in enumerate(office.store.all(NODES)):
        name, free = body["metadata"]["name"], 1 if index == 0 else 0
        taken = int(body["status"]["allocatable"].get("nvidia.com/gpu", 0)) - held[name]
        office.change(NODES, index, partial(_leave, gpus=free + taken))
    late = changed(office, 0, **SPEC) | {"status": {}}
    late["metadata"] |= {
        "name": "late",
        "uid": "late",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-22T00:00:00Z",
    }
    office.store.observe(INFERENCE_DEPLOYMENTS, "ADDED", late)
    early = {**late, "metadata": {**late["metadata"], "name": "early", "uid": "early"}}
    early["metadata"]["creationTimestamp"] = "2026-11-21T23:00:00Z"
    found = reviewed(office, early)
    verdicts = {change.key.name: (change.verdict, change.regardless) for change in found.changes}
    assert verdicts == {"early": (ReviewVerdict.PLACED, False), "late": (ReviewVerdict.WAITING, False)}
    assert not found.is_good


def _leave(node: Body, gpus: int) -> None:
    allocatable = node["status"]["allocatable"]
    allocatable |= {name: str(gpus) for name in allocatable if name.endswith("/gpu")}
