"""What clusters really show: slices, shared cards, labels by hand, mixed nodes, and pods of other people."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet, GpuNode, IgnoredNode, Taint, Weakest
from plimsoll.domain.cluster.gpus import Price
from plimsoll.domain.cluster.node_rules import DRIVER_LABEL
from plimsoll.domain.public_words import NodeReason
from plimsoll.domain.units import MIB
from plimsoll.facts.cluster import cloud_labels, fleet_reading
from plimsoll.facts.cluster.fleet_reading import HEALTH_CONDITIONS, MIG_STATE, gpus_held, holds_gpus, read_fleet
from plimsoll.facts.cluster.gpu_count import AMD_PARTITION, INSTANCE_TYPE, MACHINES
from plimsoll.facts.cluster.taints import DISRUPTION_TAINTS
from testbed.fleet import gpu_node
from tests.facts.nodes import Body, node, nvidia_node, pod
from tests.support.tables import every_case

TYPES = load_gpu_types()
BY_NAME = {gpu.name: gpu for gpu in TYPES}
AWS_MEMORY = "karpenter.k8s.aws/instance-gpu-memory"
GKE = "cloud.google.com/gke-accelerator"
MIG_40 = "nvidia.com/mig-3g.40gb"


def fleet(*nodes: Body, pods: tuple[Body, ...] = (), prices: dict[str, Price] | None = None) -> Fleet:
    return read_fleet(nodes, pods, TYPES, prices)


def usable(*nodes: Body, pods: tuple[Body, ...] = ()) -> GpuNode:
    seen = fleet(*nodes, pods=pods)
    assert seen.ignored == ()
    (only,) = seen.nodes
    return only


def ignored(body: Body) -> IgnoredNode:
    seen = fleet(body)
    assert seen.nodes == ()
    (only,) = seen.ignored
    return only


def test_an_ordinary_node() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    seen = usable(nvidia_node("h", labels={"zone": "a"}, taints=[taint]))
    assert (seen.name, seen.gpu.name, seen.allocatable, seen.held, seen.free) == ("h", "h100-sxm-80gb", 8, 0, 8)
    assert seen.resource == "nvidia.com/gpu"
    assert seen.selector == ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
    assert dict(seen.labels)["zone"] == "a"
    assert seen.taints == (Taint("nvidia.com/gpu", "present", "NoSchedule"),)


def test_nodes_without_a_sign_of_a_gpu_are_not_mentioned() -> None:
    assert fleet(node("cpu", {"kubernetes.io/os": "linux"}, {})) == Fleet()


def deleted(body: Body) -> Body:
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-11-29T10:00:00Z"}}


TRAPS: list[tuple[str, Body, NodeReason, str]] = [
    (
        "a third of a slice, which shares its memory with the others",
        nvidia_node(product="NVIDIA-A100-80GB-PCIe-MIG-1c.3g.40gb", memory="40192", gpus=6, capability="8.0"),
        NodeReason.MIG_SLICES,
        "NVIDIA-A100-80GB-PCIe-MIG-1c.3g.40gb with 40192 MiB",
    ),
    (
        "slices that are shared in turn",
        nvidia_node(product="NVIDIA-A100-80GB-PCIe-MIG-1g.10gb-SHARED", memory="9728", gpus=14, capability="8.0"),
        NodeReason.SHARED_GPUS,
        "without memory isolation",
    ),
    (
        "a card whose slicing failed",
        nvidia_node(product="NVIDIA-A100-80GB-PCIe-MIG-INVALID", memory="0", gpus=0, capability="8.0"),
        NodeReason.MIG_SLICES,
        "cutting its GPUs into MIG slices failed",
    ),
    (
        "slices of which no label speaks (MIG, mixed strategy)",
        node("n", {}, {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}),
        NodeReason.NO_PRODUCT_LABEL,
        "has nvidia.com/mig-1g.10gb but no label nvidia.com/mig-1g.10gb.product",
    ),
    (
        "one card sold six times: the memory label stays the full card's",
        nvidia_node(
            product="NVIDIA-GeForce-GTX-1660-Ti-SHARED",
            memory="6144",
            gpus=6,
            capability="7.5",
            labels={"nvidia.com/gpu.replicas": "6"},
        ),
        NodeReason.SHARED_GPUS,
        "6 ways",
    ),
    (
        "time slicing that kept the product's name",
        nvidia_node(labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}),
        NodeReason.SHARED_GPUS,
        "4 ways",
    ),
    (
        "a vGPU",
        nvidia_node(product="NVIDIA-A10-24Q-SHARED", memory="24512", capability="8.6"),
        NodeReason.SHARED_GPUS,
        "without memory isolation",
    ),
    (
        "three cards where the labels describe one: a V100 and two P4",
        nvidia_node(gpus=3, labels={"nvidia.com/gpu.count": "1"}),
        NodeReason.MIXED_GPUS,
        "3 GPUs allocatable, labels describe 1",
    ),
    (
        "a card that nobody has measured",
        nvidia_node(product="Tesla-P100-PCIE-16GB", memory="16384", capability="6.0"),
        NodeReason.UNKNOWN_GPU,
        "Tesla-P100-PCIE-16GB with 16384 MiB",
    ),
    (
        "a name and a memory that contradict each other",
        nvidia_node(product="NVIDIA-H100-80GB-HBM3", memory="40960"),
        NodeReason.UNKNOWN_GPU,
        "with 40960 MiB",
    ),
    (
        "devices of another vendor",
        node("n", {}, {"habana.ai/gaudi": "8"}),
        NodeReason.NOT_SUPPORTED,
        "has 8 habana.ai/gaudi (Intel Gaudi)",
    ),
    (
        "a product of which nobody says the memory",
        node("n", {"nvidia.com/gpu.product": "Orin-(nvgpu)"}, {"nvidia.com/gpu": "1"}),
        NodeReason.UNKNOWN_GPU,
        "Orin-(nvgpu) is not in the GPU catalogue",
    ),
    ("no devices", nvidia_node(gpus=0), NodeReason.NO_DEVICES, "allocatable nvidia.com/gpu is 0"),
    (
        "devices without labels",
        node("n", {}, {"nvidia.com/gpu": "8"}),
        NodeReason.NO_PRODUCT_LABEL,
        "run GPU Feature Discovery",
    ),
    (
        "labels without a product",
        node("n", {"nvidia.com/gpu.present": "true"}, {}),
        NodeReason.NO_PRODUCT_LABEL,
        "no nvidia.com/gpu.product label",
    ),
    (
        "AMD devices without labels",
        node("n", {"amd.com/gpu.vram.64G": "4", "amd.com/gpu.vram.192G": "4"}, {"amd.com/gpu": "8"}),
        NodeReason.NO_PRODUCT_LABEL,
        "no amd.com/gpu.product-name or amd.com/gpu.device-id label: run AMD's node labeller",
    ),
    ("cordoned", nvidia_node(unschedulable=True), NodeReason.CORDONED, "spec.unschedulable"),
    *(
        (f"about to go: {key}", nvidia_node(taints=[{"key": key, "effect": "NoSchedule"}]), NodeReason.LEAVING, key)
        for key in sorted(DISRUPTION_TAINTS)
    ),
    ("being deleted", deleted(nvidia_node()), NodeReason.LEAVING, "it is being deleted"),
    (
        "GPUs that are being cut",
        nvidia_node(labels={MIG_STATE: "rebooting"}),
        NodeReason.NOT_READY,
        "nvidia.com/mig.config.state=rebooting",
    ),
    (
        "a quarter of an L4 (g6f)",
        node("n", {"karpenter.k8s.aws/instance-gpu-name": "l4", AWS_MEMORY: "5722"}, {"nvidia.com/gpu": "1"}),
        NodeReason.SHARED_GPUS,
        "a part of one l4-24gb (karpenter.k8s.aws/instance-gpu-memory=5722)",
    ),
    (
        "half of an RTX PRO 6000",
        node("n", {GKE: "nvidia-rtx-pro-6000", INSTANCE_TYPE: "g4-standard-24"}, {"nvidia.com/gpu": "1"}),
        NodeReason.SHARED_GPUS,
        "node.kubernetes.io/instance-type=g4-standard-24",
    ),
    (
        "partitions of AMD cards",
        node("n", {"amd.com/gpu.product-name": "MI300X", AMD_PARTITION: "cpx_nps1"}, {"amd.com/gpu": "8"}),
        NodeReason.SHARED_GPUS,
        "amd.com/compute-memory-partition=cpx_nps1",
    ),
    (
        "GPUs for virtual machines",
        node("n", {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.workload.config": "vm-passthrough"}, {}),
        NodeReason.NOT_SUPPORTED,
        "vm-passthrough: its GPUs are for virtual machines",
    ),
    ("shares of Volcano", node("n", {}, {"volcano.sh/vgpu-number": "20"}), NodeReason.NOT_SUPPORTED, "shares of GPUs"),
    ("shares of Aliyun", node("n", {}, {"aliyun.com/gpu-mem": "30"}), NodeReason.NOT_SUPPORTED, "shares of GPUs"),
]


@every_case(("body", "reason", "detail"), [trap[1:] for trap in TRAPS], ids=[trap[0] for trap in TRAPS])
def test_a_node_that_would_lead_astray_is_left_out_with_its_reason(body: Body, reason: NodeReason, detail: str) -> None:
    seen = ignored(body)
    assert seen.reason is reason
    assert detail in seen.detail


@pytest.mark.parametrize("status", ["False", "Unknown"])
@pytest.mark.parametrize("kind", HEALTH_CONDITIONS)
def test_a_node_that_is_not_ready_or_whose_gpus_do_not_work_is_left_out(kind: str, status: str) -> None:
    body = nvidia_node()
    body["status"]["conditions"] = [
        {"type": each, "status": status if each == kind else "True", "reason": "Broken"} for each in HEALTH_CONDITIONS
    ]
    seen = ignored(body)
    assert (seen.reason, seen.detail.removeprefix(f"{kind} is not True: ")) == (NodeReason.NOT_READY, "Broken")


def test_whole_cards_by_their_machine_are_used_with_fewer_cards_than_it_has_and_not_with_more() -> None:
    for machine, (kind, cards) in MACHINES.items():
        resource = "amd.com/gpu" if kind.startswith("mi") else "nvidia.com/gpu"
        for count in {1, cards}:
            seen = usable(node("n", {INSTANCE_TYPE: machine}, {resource: str(count)}))
            assert (seen.gpu.name, seen.allocatable) == (kind, count)
            assert seen.selector == (INSTANCE_TYPE, machine)
        assert ignored(node("n", {INSTANCE_TYPE: machine}, {resource: str(cards + 1)})).reason is NodeReason.SHARED_GPUS


def test_whole_cards_are_no_parts_of_them() -> None:
    whole = {"karpenter.k8s.aws/instance-gpu-name": "l4", AWS_MEMORY: "22888"}
    assert usable(node("n", whole, {"nvidia.com/gpu": "1"})).gpu.name == "l4-24gb"
    card = {GKE: "nvidia-rtx-pro-6000", INSTANCE_TYPE: "g4-standard-48"}
    assert usable(node("n", card, {"nvidia.com/gpu": "1"})).gpu.name == "rtx-pro-6000-bse-96gb"
    amd = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", AMD_PARTITION: "spx_nps1"}
    assert usable(node("n", amd, {"amd.com/gpu": "8"})).allocatable == 8


def test_every_reason_to_leave_a_node_out_is_met_here() -> None:
    assert {trap[2] for trap in TRAPS} | {NodeReason.NOT_READY, NodeReason.UNREADABLE} == set(NodeReason)


@pytest.mark.parametrize("memory", ["81559", "81920MiB", "80GB", "80 GiB", "80G"])
def test_memory_written_by_hand_is_read(memory: str) -> None:
    assert usable(nvidia_node(memory=memory)).gpu.name == "h100-sxm-80gb"


@pytest.mark.parametrize("memory", [None, "", "0", "a lot"])
def test_memory_that_says_nothing_leaves_the_catalogues_figure(memory: str | None) -> None:
    assert usable(nvidia_node(memory=memory)).gpu == BY_NAME["h100-sxm-80gb"]


def test_the_nodes_own_memory_is_trusted_over_the_catalogue() -> None:
    with_ecc, without = (
        usable(nvidia_node(product="NVIDIA-A40", memory=memory, capability="8.6")).gpu for memory in ("46068", "49140")
    )
    assert with_ecc.name == without.name == "a40-48gb"
    assert without.usable_bytes - with_ecc.usable_bytes == (49140 - 46068) * MIB


@pytest.mark.parametrize(
    ("labels", "selector"),
    [
        (
            {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.device-id": "74a1"},
            ("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"),
        ),
        ({"amd.com/gpu.device-id": "74a1"}, ("amd.com/gpu.device-id", "74a1")),
        (
            {"amd.com/gpu.product-name": "A name that a new driver made up", "amd.com/gpu.device-id": "74a1"},
            ("amd.com/gpu.product-name", "A name that a new driver made up"),
        ),
    ],
)
def test_an_amd_card_is_known_by_its_device_id_and_reached_by_what_the_node_has(
    labels: dict[str, str], selector: tuple[str, str]
) -> None:
    seen = usable(node("m", labels | {"amd.com/gpu.vram": "192G"}, {"amd.com/gpu": "8"}))
    assert (seen.gpu.name, seen.resource, seen.selector) == ("mi300x-192gb", "amd.com/gpu", selector)
    assert seen.gpu.usable_bytes == BY_NAME["mi300x-192gb"].usable_bytes


@pytest.mark.parametrize(
    ("labels", "resource", "gpu_type"),
    [
        ({"plimsoll.dev/gpu-type": "h100-sxm-80gb"}, "nvidia.com/gpu", "h100-sxm-80gb"),
        ({"plimsoll.dev/gpu-type": "mi300x-192gb"}, "amd.com/gpu", "mi300x-192gb"),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, "nvidia.com/gpu", "l4-24gb"),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, "nvidia.com/gpu", "h100-sxm-80gb"),
        ({"karpenter.k8s.aws/instance-gpu-name": "l40s"}, "nvidia.com/gpu", "l40s-48gb"),
    ],
)
def test_a_node_without_the_vendors_labels_is_known_by_the_admins_or_a_clouds(
    labels: dict[str, str], resource: str, gpu_type: str
) -> None:
    seen = usable(node("n", labels, {resource: "8"}))
    assert (seen.gpu.name, seen.resource, seen.selector) == (gpu_type, resource, next(iter(labels.items())))


@pytest.mark.parametrize(
    ("memory", "gpu_type"), [("40960", "a100-sxm-40gb"), ("81920", "a100-sxm-80gb"), ("900000", None), ("", None)]
)
def test_a_name_for_two_cards_is_settled_by_the_memory(memory: str, gpu_type: str | None) -> None:
    labels = {"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": memory}
    seen = fleet(node("n", labels, {"nvidia.com/gpu": "8"}))
    assert [each.gpu.name for each in seen.nodes] == ([gpu_type] if gpu_type else [])
    assert [each.reason for each in seen.ignored] == ([] if gpu_type else [NodeReason.NO_PRODUCT_LABEL])


def test_the_vendors_label_counts_more_than_all_others() -> None:
    seen = usable(nvidia_node(labels={"plimsoll.dev/gpu-type": "l4-24gb"}))
    assert (seen.gpu.name, seen.selector[0]) == ("h100-sxm-80gb", "nvidia.com/gpu.product")


@pytest.mark.parametrize(
    "shared", ["cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-gpu-sharing-strategy"]
)
def test_a_cloud_s_name_does_not_say_how_much_of_a_shared_gpu_there_is(shared: str) -> None:
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4", shared: "x"}
    assert ignored(node("n", labels, {"nvidia.com/gpu": "8"})).reason is NodeReason.SHARED_GPUS


def test_every_gpu_that_a_cloud_s_name_means_is_in_the_catalogue() -> None:
    named = {*cloud_labels.GKE_TYPES.values(), *cloud_labels.AWS_TYPES.values()}
    named |= {name for cards in cloud_labels.AWS_TYPES_BY_MEMORY.values() for _, name in cards}
    assert named <= {*BY_NAME}


def mixed_node(name: str = "n", *, whole: int = 2, **slices: int) -> Body:
    """An H100 node of strategy ``mixed``, as GPU Feature Discovery labels it; ``g3_40`` for ``3g.40gb``."""
    labels = {"nvidia.com/mig.strategy": "mixed"}
    allocatable = {}
    for key, count in slices.items():
        compute, memory = key.removeprefix("g").split("_")
        resource = f"nvidia.com/mig-{compute}g.{memory}gb"
        allocatable[resource] = str(count)
        labels |= {
            f"{resource}.product": f"NVIDIA-H100-80GB-HBM3-MIG-{compute}g.{memory}gb",
            f"{resource}.memory": {"10": "9984", "20": "20096", "40": "40448"}[memory],
            f"{resource}.count": str(count),
            f"{resource}.replicas": "1",
        }
    body = nvidia_node(name, gpus=8, labels=labels)
    body["status"]["allocatable"] |= {"nvidia.com/gpu": str(whole), **allocatable}
    return body


class TestSlices:
    def test_strategy_single_shows_slices_as_gpus(self) -> None:
        product = "NVIDIA-A100-80GB-PCIe-MIG-1g.10gb"
        seen = usable(nvidia_node(product=product, memory="9728", gpus=7, capability="8.0"))
        assert (seen.gpu.name, seen.resource, seen.allocatable) == ("a100-pcie-80gb-mig-1g.10gb", "nvidia.com/gpu", 7)
        assert seen.selector == ("nvidia.com/gpu.product", product)
        assert seen.gpu.usable_bytes == 9728 * MIB

    def test_strategy_mixed_shows_whole_gpus_and_each_profile(self) -> None:
        seen = fleet(mixed_node(whole=2, g1_10=7, g3_40=2), pods=(pod("a", "n", 1), pod("b", "n", 1, resource=MIG_40)))
        assert seen.ignored == ()
        assert [(each.gpu.name, each.resource, each.allocatable, each.free) for each in seen.nodes] == [
            ("h100-sxm-80gb", "nvidia.com/gpu", 2, 1),
            ("h100-sxm-80gb-mig-1g.10gb", "nvidia.com/mig-1g.10gb", 7, 7),
            ("h100-sxm-80gb-mig-3g.40gb", MIG_40, 2, 1),
        ]
        whole, small, half = seen.nodes
        assert half.selector == (f"{MIG_40}.product", "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb")
        assert (half.gpu.usable_bytes, small.gpu.usable_bytes) == (40448 * MIB, 9984 * MIB)
        assert len({whole.account, small.account, half.account}) == 3

    def test_a_node_cut_up_whole_has_no_gpus_and_is_not_said_to_lack_them(self) -> None:
        seen = fleet(mixed_node(whole=0, g1_10=7))
        assert seen.ignored == ()
        assert [each.resource for each in seen.nodes] == ["nvidia.com/mig-1g.10gb"]

    def test_slices_without_labels_of_their_own_are_known_by_their_card(self) -> None:
        labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        seen = usable(node("n", labels, {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}))
        assert (seen.gpu, seen.selector) == (BY_NAME["h100-sxm-80gb-mig-1g.10gb"], next(iter(labels.items())))

    def test_a_profile_that_is_no_longer_there_is_no_slice(self) -> None:
        assert [each.gpu.name for each in fleet(mixed_node(g1_10=0)).nodes] == ["h100-sxm-80gb"]

    def test_one_type_is_reached_by_one_resource(self) -> None:
        single = nvidia_node("s", product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", memory="9984", gpus=14)
        seen = fleet(single, mixed_node("m", whole=0, g1_10=7))
        assert [(each.name, each.resource) for each in seen.nodes] == [("s", "nvidia.com/gpu")]
        (left,) = seen.ignored
        assert (left.name, left.reason) == ("m", NodeReason.MIG_SLICES)
        assert "nvidia.com/mig-1g.10gb here and nvidia.com/gpu on most nodes" in left.detail

    def test_pods_with_slices_are_pods_with_gpus(self) -> None:
        assert holds_gpus(pod("a", "n", 1, resource=MIG_40))

    def test_the_price_of_a_card_is_that_of_its_slices_in_part(self) -> None:
        seen = fleet(mixed_node(whole=1, g3_40=2), prices={"h100-sxm-80gb": Price(Decimal(3), "ConfigMap a/b")})
        assert [each.gpu.price.usd_per_hour for each in seen.nodes if each.gpu.price] == [Decimal(3), Decimal("1.5")]
        own = fleet(mixed_node(whole=0, g3_40=2), prices={"h100-sxm-80gb-mig-3g.40gb": Price(Decimal(1), "x")})
        assert own.nodes[0].gpu.price == Price(Decimal(1), "x")


class TestHeld:
    def test_everybodys_pods_count_whoever_made_them(self) -> None:
        pods = (pod("a", "n", 2), pod("b", "n", 1, field="requests"), pod("c", "other", 4), pod("d", None, 4))
        assert usable(nvidia_node(), pods=pods).held == 3

    @pytest.mark.parametrize(("phase", "held"), [("Pending", 2), ("Running", 2), ("Succeeded", 0), ("Failed", 0)])
    def test_pods_that_have_ended_hold_nothing(self, phase: str, held: int) -> None:
        assert usable(nvidia_node(), pods=(pod("a", "n", 2, phase=phase),)).held == held

    @pytest.mark.parametrize(
        ("gpus", "init", "held"), [((2,), (4,), 4), ((2, 3), (4,), 5), ((), (1, 2), 2), ((1,), (), 1)]
    )
    def test_init_containers_run_one_after_the_other_before_the_rest(
        self, gpus: tuple[int, ...], init: tuple[int, ...], held: int
    ) -> None:
        assert gpus_held(pod("a", "n", *gpus, init=init), "nvidia.com/gpu") == held

    def test_init_containers_that_stay_hold_their_gpus_as_well_as_the_rest(self) -> None:
        there = pod("a", "n", 1, init=(1, 2))
        for stays, held in (((), 2), ((0,), 3), ((1,), 3), ((0, 1), 4)):
            for index, each in enumerate(there["spec"]["initContainers"]):
                each["restartPolicy"] = "Always" if index in stays else "Never"
            assert gpus_held(there, "nvidia.com/gpu") == held

    def test_an_over_committed_node_has_nothing_free(self) -> None:
        seen = usable(nvidia_node(gpus=1), pods=(pod("a", "n", 2),))
        assert (seen.held, seen.free) == (2, 0)

    def test_each_resource_counts_for_itself(self) -> None:
        assert usable(nvidia_node(), pods=(pod("a", "n", 2, resource="amd.com/gpu"),)).held == 0
        assert holds_gpus(pod("a", "n", 1, resource="amd.com/gpu"))
        assert not holds_gpus(pod("a", "n", 0))

    @pytest.mark.parametrize("broken", [{"spec": None}, {"spec": {"nodeName": "n", "containers": None}}, {}])
    def test_half_an_object_holds_nothing(self, broken: dict[str, Any]) -> None:
        assert usable(nvidia_node(), pods=(broken,)).held == 0


def test_an_admins_price_replaces_the_catalogues_for_its_type_alone() -> None:
    price = Price(Decimal(1), "ConfigMap a/b")
    seen = fleet(
        nvidia_node("h"),
        nvidia_node("l", product="NVIDIA-L4", memory="23034", capability="8.9"),
        prices={"l4-24gb": price},
    )
    assert [each.gpu.price for each in seen.nodes] == [BY_NAME["h100-sxm-80gb"].price, price]


def test_the_order_of_the_lists_is_no_part_of_the_fleet() -> None:
    bodies = [nvidia_node(name) for name in "cab"] + [nvidia_node(name, gpus=0) for name in "zy"]
    seen = fleet(*bodies)
    assert seen == fleet(*reversed(bodies))
    assert [each.name for each in seen.nodes] == ["a", "b", "c"]
    assert [each.name for each in seen.ignored] == ["y", "z"]


def test_a_node_that_cannot_be_read_is_named_and_the_others_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = vars(fleet_reading)["host_room"]

    def odd(allocatable: Any) -> Any:
        if allocatable.get("odd"):
            raise ArithmeticError("conversion syntax")
        return real(allocatable)

    monkeypatch.setattr(fleet_reading, "host_room", odd)
    good, bad = gpu_node("good", "L4", 1), gpu_node("bad", "L4", 1)
    bad["status"]["allocatable"]["odd"] = "yes"
    found = read_fleet([bad, good], [], load_gpu_types())
    assert [node.name for node in found.nodes] == ["good"]
    assert [(node.name, node.reason, node.detail) for node in found.ignored] == [
        ("bad", NodeReason.UNREADABLE, "ArithmeticError: conversion syntax")
    ]


@every_case(
    ("disks", "drivers", "weakest"),
    [
        ([], [], Weakest()),
        ([None], [None], Weakest()),
        (["100Gi"], ["535"], Weakest(100 * 1024**3, 535)),
        (["2Ti", "100Gi", None], [None, "580", "535"], Weakest(100 * 1024**3, 535)),
        (["much"], ["new"], Weakest()),
        (["1Ti"], ["9" * 40], Weakest(1024**4)),
    ],
)
def test_a_fleet_knows_its_smallest_disk_and_its_oldest_driver(
    disks: list[str | None], drivers: list[str | None], weakest: Weakest
) -> None:
    nodes = []
    for index, (disk, driver) in enumerate(zip(disks, drivers, strict=True)):
        body = gpu_node(f"n{index}", "L4", 1, labels={DRIVER_LABEL: driver})
        body["status"]["allocatable"].pop("ephemeral-storage")
        if disk is not None:
            body["status"]["allocatable"]["ephemeral-storage"] = disk
        nodes.append(body)
    assert read_fleet(nodes, [], TYPES).weakest == weakest
