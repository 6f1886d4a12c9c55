"""Nodes and fields that nobody has changed: read from text, and decided on as the operator would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES, PODS
from plimsoll.app.review.hypothetical import after_changes, with_fields
from plimsoll.app.review.overlay import on_other_nodes
from plimsoll.app.review.reviewing import review_of
from plimsoll.app.review.values import AddNodes, DeploymentWish, RemoveNodes, Review, ReviewVerdict, SetField
from plimsoll.app.watch.store import key_of
from plimsoll.cli.plans.what_if import what_if_notes, what_if_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import GIB, parse_quantity
from plimsoll.facts.cluster.fleet_reading import read_fleet
from testbed.fleet import gpu_node
from tests.support.office import OBJECTS, Office
from tests.support.tables import every_case

SLICE = "nvidia.com/mig-3g.40gb"

READ = {
    "+2 h100-sxm-80gb x8": AddNodes(2, "h100-sxm-80gb", 8),
    "+1 l40s x 4": AddNodes(1, "l40s-48gb", 4),
    "+3 l4": AddNodes(3, "l4-24gb", 1),
    "-l40s": RemoveNodes("l40s-48gb"),
    "llama-70b.totalConcurrency=200": SetField(
        "", "llama-70b", ("totalConcurrency",), 200, "llama-70b.totalConcurrency=200"
    ),
    "chat/a.spec.gpu.allow=[l4-24gb]": SetField(
        "chat", "a", ("gpu", "allow"), ["l4-24gb"], "chat/a.spec.gpu.allow=[l4-24gb]"
    ),
    "a.suspend=": SetField("", "a", ("suspend",), None, "a.suspend="),
}


@every_case(("text", "value"), READ.items(), ids=READ)
def test_every_form_is_read(text: str, value: object) -> None:
    assert what_if_of([text]) == (value,)


def test_nodes_of_a_name_of_several_sizes_are_the_least_of_them_and_a_note_says_so() -> None:
    assert what_if_of(["+2 a100 x8", "+1 l40s"]) == (AddNodes(2, "a100-pcie-40gb", 8), AddNodes(1, "l40s-48gb", 1))
    (note,) = what_if_notes([" +2 a100 x8", "+1 a100", "+1 l40s", "-l4", "a.replicas=2"])
    assert "It is read as a100-pcie-40gb" in note


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("more", 'Write "+2 h100-sxm-80gb x8"'),
        ("a..b=1", 'Write "+2'),
        ("-h100", "Name one of h100-"),
        ("+1 abacus", "`plimsoll gpus` lists"),
        ("a.b=[", "Write the value as in YAML"),
    ],
)
def test_a_text_that_says_nothing_is_refused_with_what_to_write(text: str, fix: str) -> None:
    with pytest.raises(InvalidInput, match="--what-if") as refused:
        what_if_of([text])
    assert fix in str(refused.value)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """Five InferenceDeployments that serve."""
    made = Office.open(tmp_path)
    await made.settle()
    yield made
    await made.passes.reader.models.close()


def reviewed(office: Office, *texts: str) -> Review:
    passes, picture = office.passes, office.store.picture()
    before = passes.make(picture, {}, office.now).desired
    fleet = passes.reader.memo.fleet(picture, passes.reader.gpu_types, passes.prices.current)
    other = on_other_nodes(picture, what_if_of(texts), fleet, passes.reader.gpu_types)
    return review_of(before, passes.make(other, {}, office.now).desired, {}, fleet)


def places(office: Office) -> Mapping[str, str]:
    """The GPU type of each object that serves."""
    picture = office.store.picture()
    return {
        case.key.name: pool.gpu_type
        for case in office.passes.make(picture, {}, office.now).desired
        for pool in case.outcome.deployment.placed.pools
    }


def test_without_the_nodes_of_a_type_its_objects_move_and_no_other(office: Office) -> None:
    before = places(office)
    lost = min(before.values())
    found = reviewed(office, f"-{lost}")
    assert {change.key.name for change in found.changes} == {name for name, gpu in before.items() if gpu == lost}
    for change in found.changes:
        assert change.verdict in {ReviewVerdict.MOVED, ReviewVerdict.WAITING}
        assert lost not in {place.gpu_type for place in change.after}
        assert not change.regardless


def test_a_pod_without_gpus_goes_with_its_node_and_another_stays(office: Office) -> None:
    nodes = [body["metadata"]["name"] for body in office.store.all(NODES)]
    lost, kept = nodes[3], nodes[0]
    for name, node in (("goes", lost), ("stays", kept)):
        head = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        container = {"resources": {"requests": {"cpu": "1"}}}
        body = {"metadata": head, "spec": {"nodeName": node, "containers": [container]}, "status": {}}
        office.store.observe(PODS, "ADDED", body)
    passes, picture = office.passes, office.store.picture()
    fleet = passes.reader.memo.fleet(picture, passes.reader.gpu_types, {})
    (gpu_type,) = {node.gpu.name for node in fleet.nodes if node.name == lost}
    other = on_other_nodes(picture, (RemoveNodes(gpu_type),), fleet, passes.reader.gpu_types)
    left = {body["metadata"]["name"] for body in other.all(PODS)}
    assert "goes" not in left
    assert "stays" in left
    assert not passes.reader.memo.fleet(other, passes.reader.gpu_types, {}).of_type(gpu_type)


@pytest.mark.parametrize("gpu_type", ["l4-24gb", "b200-sxm-180gb", "mi300x-192gb"])
def test_more_nodes_are_there_whether_the_cluster_has_an_example_or_not(office: Office, gpu_type: str) -> None:
    passes, picture = office.passes, office.store.picture()
    fleet = passes.reader.memo.fleet(picture, passes.reader.gpu_types, {})
    other = on_other_nodes(picture, (AddNodes(2, gpu_type, 8),), fleet, passes.reader.gpu_types)
    larger = passes.reader.memo.fleet(other, passes.reader.gpu_types, {})
    added = [node for node in larger.of_type(gpu_type) if node not in fleet.of_type(gpu_type)]
    assert [(node.allocatable, node.held) for node in added] == [(8, 0), (8, 0)]
    announced = [
        body["status"]["allocatable"]
        for body in other.all(NODES)
        if body["metadata"]["name"] in {node.name for node in added}
    ]
    assert [parse_quantity(each["cpu"]) >= 8 for each in announced] == [True, True], "for each GPU one at least"
    assert all(parse_quantity(each["memory"]) >= 8 * 64 * GIB for each in announced), "for each GPU"
    assert len(larger.nodes) == len(fleet.nodes) + 2
    assert larger.ignored == fleet.ignored


def test_a_node_like_one_with_slices_has_whole_gpus_only() -> None:
    example = gpu_node("mixed", "A100-SXM4-80GB", 4)
    example["metadata"]["labels"] |= {
        "nvidia.com/mig.strategy": "mixed",
        f"{SLICE}.product": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb",
        f"{SLICE}.memory": "40192",
        f"{SLICE}.replicas": "1",
    }
    example["status"]["allocatable"][SLICE] = "8"
    types = load_gpu_types()
    fleet = read_fleet([example], [], types)
    nodes, _ = after_changes([example], [], (AddNodes(1, "a100-sxm-80gb", 2),), fleet, types)
    larger = read_fleet(nodes, [], types)
    assert {node.resource for node in fleet.nodes} == {"nvidia.com/gpu", SLICE}
    (added,) = [node for node in larger.nodes if node not in fleet.nodes]
    assert (added.resource, added.allocatable, larger.ignored) == ("nvidia.com/gpu", 2, ())


def test_a_node_like_one_with_an_unhealthy_gpu_is_whole() -> None:
    example, types = gpu_node("less", "L4", 3), load_gpu_types()
    example["status"]["capacity"] = {**example["status"]["allocatable"], "nvidia.com/gpu": "4"}
    fleet = read_fleet([example], [], types)
    nodes, _ = after_changes([example], [], (AddNodes(1, "l4-24gb", 4),), fleet, types)
    larger = read_fleet(nodes, [], types)
    assert [(node.name, node.allocatable) for node in larger.nodes if not node.unhealthy] == [("what-if-l4-24gb-1", 4)]
    assert [node.name for node in larger.unhealthy] == ["less"]


def test_more_nodes_disturb_nobody(office: Office) -> None:
    found = reviewed(office, "+2 h100-sxm-80gb x8")
    assert (found.changes, found.others, found.is_good) == ((), OBJECTS, True)


def test_a_field_of_a_live_object_makes_a_wish_of_it_and_leaves_the_rest_of_its_spec(office: Office) -> None:
    live = {key_of(body): body for body in office.store.all(INFERENCE_DEPLOYMENTS)}
    key, body = next(iter(live.items()))
    (wish,) = with_fields([], live, what_if_of([f"{key.name}.gpu.deny=[l4-24gb]", f"{key.name}.replicas=3"]))
    assert (wish.key, wish.is_whole) == (key, True)
    assert wish.body["spec"] == {**body["spec"], "gpu": {"deny": ["l4-24gb"]}, "replicas": 3}


def test_the_total_and_the_concurrency_of_a_replica_replace_each_other() -> None:
    (wish,) = with_fields([wish_of("a", concurrency=4)], {}, what_if_of(["a.totalConcurrency=200"]))
    assert wish.body["spec"] == {"totalConcurrency": 200}
    (back,) = with_fields([wish], {}, what_if_of(["a.concurrency=8"]))
    assert (back.body["spec"], back.where, back.is_whole) == ({"concurrency": 8}, "file", False)


def test_an_object_that_is_not_there_or_is_there_twice_is_named() -> None:
    twice = {ObjectKey(namespace, "a"): wish_of("a", namespace).body for namespace in ("n", "m")}
    with pytest.raises(InvalidInput, match="There is no such object"):
        with_fields([], twice, what_if_of(["b.replicas=1"]))
    with pytest.raises(InvalidInput, match="Write one of m/a, n/a before the field"):
        with_fields([], twice, what_if_of(["a.replicas=1"]))
    assert len(with_fields([], twice, what_if_of(["n/a.replicas=1"]))) == 1


def wish_of(name: str, namespace: str = "n", **spec: Any) -> DeploymentWish:
    head = {"name": name, "namespace": namespace}
    return DeploymentWish(
        "file",
        {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": head, "spec": spec},
    )
