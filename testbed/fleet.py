"""Manifests of fake GPU nodes, labelled as the vendors' own labellers label real ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.kwok_config import FAKE_NODE_ANNOTATION

_NVIDIA, _AMD = "nvidia.com/gpu", "amd.com/gpu"


@dataclass(frozen=True, slots=True)
class Product:
    """What a labeller writes for one kind of GPU, and what a typical machine with it has besides.

    Attributes:
        resource: extended resource that the device plugin announces.
        labels: labels that do not depend on the machine.
        cpu: cores of the machine.
        memory: memory of the machine, as a quantity.
        instance_type: a machine type that carries this GPU.
    """

    resource: str
    labels: Mapping[str, str]
    cpu: str = "192"
    memory: str = "2Ti"
    instance_type: str = "testbed"


def _nvidia(label: str, *, memory_mib: int, family: str, compute: tuple[int, int], **machine: str) -> Product:
    """Labels of GPU Feature Discovery; ``memory_mib`` is what nvidia-smi prints, rounded down."""
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": label,
        "nvidia.com/gpu.memory": str(memory_mib),
        "nvidia.com/gpu.family": family,
        "nvidia.com/gpu.compute.major": str(compute[0]),
        "nvidia.com/gpu.compute.minor": str(compute[1]),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.strategy": "none",
        "nvidia.com/mig.capable": "true" if family in {"hopper", "ampere"} else "false",
    }
    return Product(_NVIDIA, labels, **machine)


PRODUCTS: dict[str, Product] = {
    "H100-80GB-HBM3": _nvidia(
        "NVIDIA-H100-80GB-HBM3", memory_mib=81559, family="hopper", compute=(9, 0), instance_type="p5.48xlarge"
    ),
    "A100-SXM4-80GB": _nvidia(
        "NVIDIA-A100-SXM4-80GB",
        memory_mib=81920,
        family="ampere",
        compute=(8, 0),
        cpu="96",
        memory="1152Gi",
        instance_type="p4de.24xlarge",
    ),
    "L40S": _nvidia(
        "NVIDIA-L40S",
        memory_mib=46068,
        family="ada-lovelace",
        compute=(8, 9),
        memory="1536Gi",
        instance_type="g6e.24xlarge",
    ),
    "L4": _nvidia(
        "NVIDIA-L4",
        memory_mib=23034,
        family="ada-lovelace",
        compute=(8, 9),
        cpu="16",
        memory="64Gi",
        instance_type="g6.4xlarge",
    ),
    "MI300X": Product(
        _AMD,
        {
            "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
            "amd.com/gpu.device-id": "74a1",
            "amd.com/gpu.vram": "192G",
            "amd.com/gpu.cu-count": "304",
            "amd.com/gpu.simd-count": "1216",
            "amd.com/gpu.family": "AI",
        },
        instance_type="Standard_ND96isr_MI300X_v5",
    ),
}
"""Label values of NVIDIA's GPU Feature Discovery and AMD's node labeller, as seen on real nodes."""


def gpu_node(
    name: str,
    product: str,
    count: int,
    *,
    zone: str = "zone-a",
    labels: Mapping[str, str | None] | None = None,
    taints: list[dict[str, str]] | None = None,
    unschedulable: bool = False,
) -> dict[str, Any]:
    """The manifest of one fake node.

    Args:
        name: of the node, also its hostname.
        product: a key of ``PRODUCTS``.
        count: how many GPUs it has.
        zone: topology zone.
        labels: labels to add or to replace; None removes one.
        taints: all its taints; by default the vendor's own ``<resource>=present:NoSchedule``.
        unschedulable: whether it is cordoned.

    Raises:
        KeyError: an unknown product.
    """
    facts = PRODUCTS[product]
    every_label: dict[str, str | None] = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": facts.instance_type,
        "topology.kubernetes.io/zone": zone,
        **facts.labels,
        **({"nvidia.com/gpu.count": str(count)} if facts.resource == _NVIDIA else {}),
        **(labels or {}),
    }
    vendor_taint = {"key": facts.resource, "value": "present", "effect": "NoSchedule"}
    capacity = {"cpu": facts.cpu, "memory": facts.memory, "pods": "110", "ephemeral-storage": "2Ti"}
    return _node(
        name,
        labels={key: value for key, value in every_label.items() if value is not None},
        spec={"taints": [vendor_taint] if taints is None else taints, "unschedulable": unschedulable},
        capacity=capacity | {facts.resource: str(count)},
    )


def cpu_node(name: str, *, zone: str = "zone-a") -> dict[str, Any]:
    """The manifest of a fake node without GPUs, for everything else that runs in a cluster."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
    }
    return _node(name, labels=labels, spec={}, capacity={"cpu": "32", "memory": "128Gi", "pods": "110"})


def mixed_fleet() -> list[dict[str, Any]]:
    """One node of every kind: 8 H100, 8 A100, 4 L40S, 1 L4, 8 MI300X, and one without GPUs."""
    return [
        gpu_node("h100-0", "H100-80GB-HBM3", 8),
        gpu_node("a100-0", "A100-SXM4-80GB", 8),
        gpu_node("l40s-0", "L40S", 4, zone="zone-b"),
        gpu_node("l4-0", "L4", 1, zone="zone-b"),
        gpu_node("mi300x-0", "MI300X", 8, zone="zone-c"),
        cpu_node("cpu-0"),
    ]


def _node(
    name: str, *, labels: Mapping[str, str], spec: Mapping[str, Any], capacity: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels), "annotations": {FAKE_NODE_ANNOTATION: "fake"}},
        "spec": dict(spec),
        # No nodeInfo: it must be complete or absent, and kwok fills it in.
        "status": {"capacity": dict(capacity), "allocatable": dict(capacity)},
    }
