"""CPU and memory: what pods take of nodes, by the scheduler's own sums."""

from __future__ import annotations

from typing import Any

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.watch import pruning
from plimsoll.domain.cluster.host import UNKNOWN_HOST, HostNeed, HostRoom
from plimsoll.domain.units import GIB
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.host_reading import host_room, pod_need
from tests.facts.nodes import nvidia_node
from tests.support.tables import every_case

Body = dict[str, Any]


def container(cpu: str | None = None, memory: str | None = None, field: str = "requests", **more: Any) -> Body:
    asked = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"resources": {field: asked}, **more}


def pod(
    *containers: Body, init: tuple[Body, ...] = (), node: str | None = "h", phase: str = "Running", **spec: Any
) -> Body:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
        "spec": {"nodeName": node, "containers": list(containers), "initContainers": list(init), **spec},
        "status": {"phase": phase},
    }


SIDECAR = {"restartPolicy": "Always"}

NEEDS = [
    ("containers add up", pod(container("500m", "1Gi"), container("1", "2Gi")), (1500, 3 * GIB)),
    ("limits stand for requests that are missing", pod(container("2", field="limits")), (2000, 0)),
    ("a large step of starting up counts alone", pod(container("1"), init=(container("4"), container("3"))), (4000, 0)),
    ("a sidecar runs beside the containers", pod(container("1"), init=(container("2", **SIDECAR),)), (3000, 0)),
    (
        "and beside the steps after it",
        pod(container("1"), init=(container("2", **SIDECAR), container("4"))),
        (6000, 0),
    ),
    ("the runtime takes its share", pod(container("1"), overhead={"cpu": "250m"}), (1250, 0)),
    (
        "what the pod asks for as a whole stands for all",
        pod(container("1"), resources={"requests": {"cpu": "5"}}),
        (5000, 0),
    ),
    ("fractions are rounded up", pod(container("0.0001")), (1, 0)),
    ("nothing asked is nothing taken", pod({"name": "c"}), (0, 0)),
    ("what is no quantity is not counted", pod(container("lots", "x")), (0, 0)),
]


@every_case(("body", "need"), [each[1:] for each in NEEDS], ids=[each[0] for each in NEEDS])
def test_a_pod_takes_what_the_scheduler_counts(body: Body, need: tuple[int, int]) -> None:
    assert pod_need(body) == HostNeed(*need)


@every_case("body", [each[1] for each in NEEDS], ids=[each[0] for each in NEEDS])
def test_a_pod_that_was_cut_down_takes_the_same(body: Body) -> None:
    kept = pruning.pod(body)
    assert kept is not None
    assert pruning.is_plain(kept)
    assert set(kept) == {"metadata", "spec", "requests"}
    assert pod_need(kept) == pod_need(body)


def test_a_node_that_does_not_say_is_not_limited() -> None:
    assert host_room({}) == UNKNOWN_HOST
    assert host_room({"cpu": "3920m", "memory": "1Gi", "pods": "110"}) == HostRoom(3920, GIB, 110, ())
    assert host_room({"cpu": "many"}) == HostRoom(others=())


def test_a_node_offers_what_it_has_besides_gpus_and_nothing_of_what_it_does_not_list() -> None:
    listed = {"nvidia.com/gpu": "8", "rdma/ib": "2", "hugepages-2Mi": "0", "ephemeral-storage": "1Ki", "odd/x": "many"}
    assert host_room(listed) == HostRoom(others=(("ephemeral-storage", 1024), ("rdma/ib", 2)))
    assert host_room(listed).takes(HostNeed(others=(("rdma/ib", 1),)), 5) == 2
    assert host_room(listed).takes(HostNeed(others=(("hugepages-2Mi", 1),)), 5) == 0


def test_pods_take_further_resources_from_their_node_as_they_take_cpu() -> None:
    """An init container counts if it asks for more, a sidecar in addition, a limit as a request, and the overhead."""
    body = nvidia_node("h")
    body["status"]["allocatable"] |= {"rdma/ib": "9", "ephemeral-storage": "100"}
    first = {
        "initContainers": [
            {"resources": {"requests": {"ephemeral-storage": "60"}}},
            {"resources": {"limits": {"rdma/ib": "2"}}, "restartPolicy": "Always"},
        ],
        "containers": [
            {"resources": {"requests": {"rdma/ib": "3", "ephemeral-storage": "20"}}},
            {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
        ],
        "overhead": {"ephemeral-storage": "1"},
    }
    second = {"containers": [{"resources": {"limits": {"rdma/ib": "1"}}}]}
    pods = [pod(container("1", "1Gi")) for _ in range(3)]
    for each, spec in zip(pods, (first, second), strict=False):
        each["spec"] |= spec
    assert pod_need(pods[0]).others == (("ephemeral-storage", 61), ("rdma/ib", 5))
    whole = read_fleet([body], pods, load_gpu_types())
    cut = read_fleet([body], [kept for kept in map(pruning.pod, pods) if kept is not None], load_gpu_types())
    assert whole == cut
    assert whole.nodes[0].host_free.others == (("ephemeral-storage", 39), ("rdma/ib", 3))


def test_every_pod_of_a_node_takes_its_share_whether_it_holds_gpus_or_not() -> None:
    body = nvidia_node("h")
    body["status"]["allocatable"] |= {"cpu": "16", "memory": "64Gi", "pods": "10"}
    gpu = container("2", "8Gi")
    gpu["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    pods = [
        pod(gpu),
        pod(container("4", "16Gi")),
        pod(container("1", "1Gi"), phase="Succeeded"),
        pod(container("1", "1Gi"), node=None),
        pod(container("1", "1Gi"), node="elsewhere"),
    ]
    whole = read_fleet([body], pods, load_gpu_types())
    cut = read_fleet([body], [kept for kept in map(pruning.pod, pods) if kept is not None], load_gpu_types())
    assert whole == cut
    [node] = whole.nodes
    assert node.host[:3] == (16_000, 64 * GIB, 10)
    assert node.host_free[:3] == (10_000, 40 * GIB, 8)
    assert node.held == 1


@every_case(
    ("room", "need", "pods"),
    [
        (UNKNOWN_HOST, HostNeed(900_000, 0), 5),
        (HostRoom(4000, 16 * GIB, 9), HostNeed(2000, 8 * GIB), 2),
        (HostRoom(9000, 9 * GIB, 9), HostNeed(2000, 8 * GIB), 1),
        (HostRoom(9000, 99 * GIB, 1), HostNeed(2000, 8 * GIB), 1),
        (HostRoom(-1, 99 * GIB, 9), HostNeed(1, 0), 0),
        (HostRoom(0, 0, 9), HostNeed(0, 0), 5),
    ],
)
def test_how_many_pods_a_node_takes(room: HostRoom, need: HostNeed, pods: int) -> None:
    assert room.takes(need, 5) == pods
