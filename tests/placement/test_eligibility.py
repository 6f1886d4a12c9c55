"""Which nodes are counted for a request: its type's, with its labels, whose taints its pods tolerate."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Taint, Toleration
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.placement.options.nodes import eligible_nodes, most_gpus
from tests.support.planning import H100, L4, fleet, node, request
from tests.support.tables import every_case

TEAM = Taint("team", "ml", "NoSchedule")
NODES = fleet(
    node("a-large", H100, 8, labels={"zone": "a", "disk": "ssd"}),
    node("a-small", H100, 2, labels={"zone": "a"}),
    node("b-kept", H100, 4, labels={"zone": "b"}, taints=(TEAM,)),
    node("b-wish", H100, 1, labels={"zone": "b"}, taints=(Taint("team", "ml", "PreferNoSchedule"),)),
    node("c-vendor", H100, 3, labels={"zone": "c"}, taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"),)),
    node("l", L4, 1, labels={"zone": "a"}),
)
ANY = ("a-large", "a-small", "b-wish", "c-vendor")


@every_case(
    ("selector", "tolerations", "names", "most"),
    [
        ({}, (), ANY, 8),
        ({"zone": "a"}, (), ("a-large", "a-small"), 8),
        ({"zone": "a", "disk": "ssd"}, (), ("a-large",), 8),
        ({"zone": "b"}, (), ("b-wish",), 1),
        ({"zone": "b"}, (Toleration("team", "Exists"),), ("b-kept", "b-wish"), 4),
        ({"zone": "b"}, (Toleration("team", "Equal", "other"),), ("b-wish",), 1),
        ({"zone": "c"}, (), ("c-vendor",), 3),
        ({"zone": "a", "disk": "hdd"}, (), (), None),
        ({"rack": "1"}, (), (), None),
    ],
)
def test_labels_select_and_taints_keep_away(
    selector: dict[str, str], tolerations: tuple[Toleration, ...], names: tuple[str, ...], most: int | None
) -> None:
    wanted = request(node_selector=tuple(sorted(selector.items())), tolerations=tolerations)
    for _ in range(2):  # the second answer is the remembered one
        assert tuple(each.name for each in eligible_nodes(wanted, NODES, H100)) == names
        assert most_gpus(wanted, NODES, H100) == most


def test_a_type_that_the_fleet_lacks_has_no_nodes() -> None:
    assert eligible_nodes(request(), NODES, "t4-16gb") == ()
    assert most_gpus(request(), NODES, "t4-16gb") is None


def test_slices_cannot_work_together_however_many_a_node_has() -> None:
    kind = "h100-sxm-80gb-mig-3g.40gb"
    assert most_gpus(request(), fleet(node("s", kind, 2)), kind) == 1


def test_a_fleet_with_other_nodes_answers_for_those() -> None:
    assert names(NODES) == ANY
    assert names(NODES.with_nodes(NODES.nodes[:1])) == ("a-large",)
    assert names(Fleet()) == ()


def test_an_emptied_fleet_has_the_same_nodes_with_nothing_held() -> None:
    busy = fleet(*(node(each.name, each.gpu, each.allocatable, held=1) for each in NODES.nodes))
    assert [(each.name, each.free) for each in busy.emptied.nodes] == [free(each) for each in NODES.nodes]
    assert busy.emptied is busy.emptied


def test_an_emptied_node_has_all_of_its_processors_and_memory() -> None:
    whole = HostRoom(64_000, 2**38, 110)
    busy = fleet(*(replace(each, host=whole, host_free=HostRoom(0, 0, 0)) for each in NODES.nodes))
    assert {each.host_free for each in busy.emptied.nodes} == {whole}


def free(each: GpuNode) -> tuple[str, int]:
    return each.name, each.allocatable


def names(where: Fleet) -> tuple[str, ...]:
    return tuple(each.name for each in eligible_nodes(request(), where, H100))
