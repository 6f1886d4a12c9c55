"""A pass reads what is new: counted in calls, and its statuses are those of a process that has just started."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.planning.passes import look_up, new_passes
from benchmarks.planning.pictures import carry_out
from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, PODS, ObjectKind
from plimsoll.app.reading import deployments as deployments_module
from plimsoll.app.reading import reading_memo
from plimsoll.app.reading.reading_memo import ReadingMemo
from plimsoll.app.watch import pruning
from plimsoll.app.watch.prices import PriceList
from plimsoll.app.watch.store import Body
from plimsoll.decision import memory as memory_module
from plimsoll.decision.kept import ChangedRequests, Kept
from plimsoll.domain.cluster.gpus import Price
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.kubernetes_names import QUEUE_LABEL
from plimsoll.domain.units import from_rfc3339
from plimsoll.facts.cluster import fleet_reading
from plimsoll.status.record import reading
from tests.support.bodies import pod_body
from tests.support.office import MACHINES, NOW, OBJECTS, Office
from tests.support.planning import H100, L4, gpu, request


@pytest.fixture
async def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    made = Office.open(tmp_path)
    made.count(monkeypatch, fleet_reading, "_read_node")
    made.count(monkeypatch, reading_memo, "read_pod")
    made.count(monkeypatch, deployments_module, "parse_inference_deployment")
    made.count(monkeypatch, deployments_module, "to_request")
    made.count(monkeypatch, reading_memo, "digests_of")
    made.count(monkeypatch, memory_module, "figures_of")
    made.count_estimates(monkeypatch)
    yield made
    await made.passes.reader.models.close()


async def test_the_first_pass_reads_everything(office: Office) -> None:
    office.make()
    assert office.calls == {"read_node": MACHINES, "parse_inference_deployment": OBJECTS, "digests_of": OBJECTS}
    await look_up(office.passes)
    carry_out(office.store, office.make().desired, 2)
    assert office.calls["to_request"] == OBJECTS
    assert office.calls["estimate"] > 0
    office.make()
    assert office.calls["read_pod"] == OBJECTS


async def test_an_unchanged_picture_is_not_read_again(office: Office) -> None:
    before = await office.settle()
    after = office.make()
    assert office.calls == {}
    assert all(
        case.outcome.decision is not None and case.outcome.deployment.placed.around.ready_pods()
        for case in after.desired
    )
    assert [case.new_status for case in after.desired] == [case.new_status for case in before.desired]
    assert all(
        one.outcome.request is other.outcome.request for one, other in zip(before.desired, after.desired, strict=True)
    )


async def test_of_a_changed_object_only_its_own_is_read(office: Office) -> None:
    await office.settle()
    office.change(INFERENCE_DEPLOYMENTS, 2, _with_a_longer_context)
    cases = office.make().desired
    own = {name: count for name, count in office.calls.items() if name != "estimate"}
    assert own == {"parse_inference_deployment": 1, "to_request": 1, "digests_of": 1}
    assert office.calls["estimate"] > 0
    assert [case.outcome.request.shape.context_tokens for case in cases if case.outcome.request] == [
        4096,
        4096,
        9000,
        4096,
        4096,
    ]


def _with_a_longer_context(body: dict[str, Any]) -> None:
    body["metadata"]["generation"] = 2
    body["spec"]["contextLength"] = 9000


async def test_a_status_that_changes_makes_nobody_read_the_spec_again(office: Office) -> None:
    await office.settle()
    office.change(INFERENCE_DEPLOYMENTS, 2, lambda body: body["status"].update(replicas=7))
    case = office.make().desired[2]
    assert office.calls == {}
    assert case.outcome.deployment.record.status.replicas == 7
    assert case.new_status is not None
    assert case.new_status["replicas"] == 1


async def test_a_pod_that_changes_is_read_alone_and_leaves_the_fleet_as_it_was(office: Office) -> None:
    await office.settle()
    fleet = office.passes.reader.memo.fleet(
        office.store.picture(), office.passes.reader.gpu_types, office.passes.prices.current
    )
    office.change(PODS, 0, _not_ready)
    cases = office.make().desired
    assert office.calls == {"read_pod": 1, "figures_of": 1}
    assert sum(len(case.outcome.deployment.placed.around.ready_pods()) for case in cases) == OBJECTS - 1
    again = office.passes.reader.memo.fleet(
        office.store.picture(), office.passes.reader.gpu_types, office.passes.prices.current
    )
    assert again is fleet


async def test_a_node_that_changes_is_read_alone_and_a_new_price_reads_all(office: Office) -> None:
    await office.settle()
    office.change(NODES, 0, lambda body: body["spec"].update(unschedulable=True))
    office.make()
    assert office.calls["read_node"] == 1
    memo, picture, types = office.passes.reader.memo, office.store.picture(), office.passes.reader.gpu_types
    dearer = dict.fromkeys(gpu.name for gpu in types)
    assert memo.fleet(picture, types, dearer) == fleet_reading.read_fleet(
        picture.all(NODES), picture.all(PODS), types, dearer
    )


async def test_pods_and_workloads_are_gathered_again_only_when_one_of_them_or_an_owner_changes(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.settle()
    office.count(monkeypatch, reading_memo, "surroundings_of")
    office.change(NODES, 0, lambda body: body["spec"].update(unschedulable=True))
    office.make()
    assert office.calls.get("surroundings_of", 0) == 0
    before = [case.outcome.deployment.placed.around for case in office.make().desired]
    office.change(PODS, 0, _not_ready)
    after = [case.outcome.deployment.placed.around for case in office.make().desired]
    assert office.calls["surroundings_of"] == 1
    assert [one == other for one, other in zip(before, after, strict=True)].count(False) == 1
    office.change(DEPLOYMENTS, 0, lambda body: body["spec"].update(replicas=9))
    office.make()
    assert office.calls["surroundings_of"] == 1
    office.change(INFERENCE_DEPLOYMENTS, 0, lambda body: body["status"].update(replicas=7))
    office.make()
    assert office.calls["surroundings_of"] == 1


def _not_ready(body: dict[str, Any]) -> None:
    body["status"]["conditions"][1]["status"] = "False"


async def test_a_node_that_changes_changes_the_fleet(office: Office) -> None:
    await office.settle()
    office.change(NODES, 0, lambda body: body["spec"].update(unschedulable=True))
    office.make()
    seen = office.passes.reader.memo.fleet(
        office.store.picture(), office.passes.reader.gpu_types, office.passes.prices.current
    )
    assert [each.name for each in seen.ignored] == ["n0000"]


async def test_the_nodes_of_a_changed_fleet_are_new_objects_only_if_something_of_them_changed(office: Office) -> None:
    await office.settle()
    memo, types, prices = office.passes.reader.memo, office.passes.reader.gpu_types, office.passes.prices.current
    before = memo.fleet(office.store.picture(), types, prices)
    home = office.store.all(PODS)[0]["spec"]["nodeName"]
    office.change(PODS, 0, lambda body: body["status"].update(phase="Succeeded"))
    picture = office.store.picture()
    after = memo.fleet(picture, types, prices)
    assert [mine.name for mine, its in zip(after.nodes, before.nodes, strict=True) if mine is not its] == [home]
    assert after == fleet_reading.read_fleet(picture.all(NODES), picture.all(PODS), types) != before
    office.change(NODES, 1, lambda body: body["metadata"]["labels"].update(rack="7"))
    moved = memo.fleet(office.store.picture(), types, prices)
    assert [mine.name for mine, its in zip(moved.nodes, after.nodes, strict=True) if mine is not its] == ["n0001"]
    assert ("rack", "7") in moved.nodes[1].labels


async def test_new_prices_are_read_at_once(office: Office) -> None:
    await office.settle()
    dearer = {gpu.name: Price(Decimal(99), "test") for gpu in office.passes.reader.gpu_types}
    office.passes.prices = cast("PriceList", SimpleNamespace(current=dearer))
    choices = [case.outcome.decision.choice for case in office.make().desired if case.outcome.decision]
    assert {choice.hourly_price for choice in choices if choice} <= {Decimal(99), Decimal(198)}


async def test_what_is_kept_gives_the_statuses_of_a_process_that_has_just_started(
    office: Office, tmp_path: Path
) -> None:
    await office.settle()
    changes: tuple[tuple[ObjectKind, int, Callable[[dict[str, Any]], object]], ...] = (
        (INFERENCE_DEPLOYMENTS, 0, _with_a_longer_context),
        (PODS, 1, _not_ready),
        (INFERENCE_DEPLOYMENTS, 4, lambda body: body.update(status={})),
        # The last one: for how long a node has been cordoned, only the process knows that has seen it.
        (NODES, 3, lambda body: body["spec"].update(unschedulable=True)),
    )
    for hour, (kind, index, change) in enumerate(changes):
        office.change(kind, index, change)
        office.now = NOW + 3600 * hour
        fresh = Office(new_passes(tmp_path / str(hour)), office.store, now=office.now)
        fresh.make()
        await look_up(fresh.passes)
        told = [(case.new_status, case.manifests) for case in office.make().desired]
        assert told == [(case.new_status, case.manifests) for case in fresh.make().desired]
        await fresh.passes.reader.models.close()


def test_what_a_whole_pass_does_not_ask_for_is_forgotten() -> None:
    kept = Kept[str]()
    kept.put("a", "x")
    kept.put("b", "y")
    kept.begin()
    kept.put("a", kept.get("a") or "")
    kept.begin()
    assert (kept.get("a"), kept.get("b")) == ("x", None)


def test_a_request_stays_the_same_object_while_its_changes_are_equal() -> None:
    memo, base, learned = ChangedRequests(), request(), cast("Correction", object())
    first = memo.of("u", base, corrections=(learned,))
    memo.begin()
    assert memo.of("u", base, corrections=(learned,)) is first
    assert memo.of("u", base, corrections=()) is base
    assert memo.of("u", base, corrections=(learned, learned)).corrections == (learned, learned)
    memo.begin()
    assert memo.of("u", request(context=1), corrections=(learned,)).shape.context_tokens == 1


def test_an_object_of_the_same_name_that_is_another_is_read_anew() -> None:
    memo = ReadingMemo()
    body: Body = {"metadata": {"uid": "a", "name": "x", "generation": 1}, "spec": {}}
    other: Body = {"metadata": {"uid": "b", "name": "x", "generation": 1}, "spec": {}}
    asked: list[Body] = []
    for each in (body, dict(body), other):
        memo.resource(each, lambda told: cast("Any", asked.append(told)))
    assert asked == [body, other]


async def test_a_status_is_read_when_it_changes_and_by_no_pass(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    await office.settle()
    office.count(monkeypatch, pruning, "read")
    office.count(monkeypatch, reading, "read")
    cases = office.make().desired
    assert [len(case.outcome.deployment.record.pools) for case in cases] == [1] * OBJECTS
    assert office.calls == {}
    office.change(INFERENCE_DEPLOYMENTS, 2, lambda body: body["status"].update(replicas=7))
    assert office.calls == {"read": 1}
    assert office.make().desired[2].outcome.deployment.record.status.replicas == 7
    assert office.calls == {}


def _waiting(reason: str, version: int) -> Body:
    """A pod that was made at 03:00:00, behind a gate or without one."""
    since = {"lastTransitionTime": "2026-11-21T03:00:00Z", "reason": reason, "message": "x"}
    body = pod_body(
        "p", version=version, phase="Pending", conditions=[{"type": "PodScheduled", "status": "False", **since}]
    )
    return {**body, "spec": {**body["spec"], "nodeName": None}}


def test_a_pod_waits_for_a_node_since_its_gate_was_opened() -> None:
    """The condition keeps the time at which the pod was made, because it was false before, too."""
    memo, made = ReadingMemo(), from_rfc3339("2026-11-21T03:00:00Z") or 0.0
    assert memo.pod(_waiting("SchedulingGated", 1), made + 10).unscheduled_since == made
    for version, now, since in ((2, 5000, 5000), (3, 5005, 5000), (4, 6000, 5000)):
        assert memo.pod(_waiting("Unschedulable", version), made + now).unscheduled_since == made + since
    assert ReadingMemo().pod(_waiting("Unschedulable", 5), made + 7000).unscheduled_since == made
    bound = {**_waiting("Unschedulable", 6), "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
    assert memo.pod(bound, made + 7000).unscheduled_since is None


def _noted(asked: list[Body], body: Body) -> Body:
    asked.append(body)
    return body


def test_the_queue_of_an_object_is_read_when_its_label_changes_and_other_labels_are_not() -> None:
    memo = ReadingMemo()
    asked: list[Body] = []

    def read(labels: Any) -> None:
        body: Body = {"metadata": {"uid": "a", "name": "x", "generation": 1, "labels": labels}, "spec": {}}
        memo.resource(body, lambda reading: cast("Any", _noted(asked, reading)))

    for labels in (
        {},
        {"team": "a"},
        {QUEUE_LABEL: "q"},
        {QUEUE_LABEL: "q", "team": "b"},
        {QUEUE_LABEL: "r"},
        None,
        "x",
    ):
        read(labels)
    assert [each["metadata"]["labels"] for each in asked] == [{}, {QUEUE_LABEL: "q"}, {QUEUE_LABEL: "r"}, None]


def test_the_priced_catalogue_is_made_anew_only_for_new_prices() -> None:
    memo, catalog = ReadingMemo(), (gpu(L4), gpu(H100))
    own = {L4: Price(Decimal("0.5"), "own")}
    first = memo.priced(catalog, own)
    assert memo.priced(catalog, own) is first
    assert [each.price for each in first] == [own[L4], gpu(H100).price]
    assert memo.priced(catalog, {}) == catalog
