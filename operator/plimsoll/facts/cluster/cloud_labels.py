"""The GPUs that labels of clouds and of the cluster's admin name, for nodes without the labels of a GPU vendor.

Whether a node is spot capacity, by the labels of the clouds and of Karpenter.
"""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.spot import SPOT_LABELS
from plimsoll.domain.kubernetes_names import GROUP
from plimsoll.domain.units import MIB
from plimsoll.facts.cluster.gpu_count import INSTANCE_TYPE, MACHINES

GPU_TYPE_LABEL = f"{GROUP}/gpu-type"
"""An admin's own label. Its value is a type that ``plimsoll gpus`` lists."""

GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"

AWS_LABELS = (
    ("karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"),
    ("eks.amazonaws.com/instance-gpu-name", "eks.amazonaws.com/instance-gpu-memory"),
)
"""The name of a GPU and its MiB, as Karpenter and EKS Auto Mode write them."""

GKE_TYPES: Mapping[str, str] = {
    "nvidia-tesla-t4": "t4-16gb",
    "nvidia-tesla-v100": "v100-sxm2-16gb",
    "nvidia-l4": "l4-24gb",
    "nvidia-tesla-a100": "a100-sxm-40gb",
    "nvidia-a100-80gb": "a100-sxm-80gb",
    "nvidia-h100-80gb": "h100-sxm-80gb",
    "nvidia-h100-mega-80gb": "h100-sxm-80gb",
    "nvidia-h200-141gb": "h200-sxm-141gb",
    "nvidia-b200": "b200-sxm-180gb",
    "nvidia-gb200": "gb200-186gb",
    "nvidia-rtx-pro-6000": "rtx-pro-6000-bse-96gb",
}
"""GKE's names. Its A100 and H100 machines (A2, A3) have the SXM form."""

AWS_TYPES: Mapping[str, str] = {
    "t4": "t4-16gb",
    "l4": "l4-24gb",
    "a10g": "a10g-24gb",
    "l40s": "l40s-48gb",
    "h100": "h100-sxm-80gb",
    "h200": "h200-sxm-141gb",
    "b200": "b200-sxm-180gb",
}
"""The names of the GPUs in AWS' machines. All but the graphics cards have the SXM form."""

AWS_TYPES_BY_MEMORY: Mapping[str, tuple[tuple[int, str], ...]] = {
    "a100": ((60_000, "a100-sxm-40gb"), (100_000, "a100-sxm-80gb")),
    "v100": ((20_000, "v100-sxm2-16gb"), (40_000, "v100-sxm2-32gb")),
}
"""Names that AWS uses for two cards: the first limit in MiB that the memory does not exceed decides."""


GKE_PARTS = frozenset({"g4-standard-6", "g4-standard-12", "g4-standard-24"})
"""Google's machines with an eighth, a quarter and half of a card (https://cloud.google.com/compute/docs/gpus)."""

LEAST_OF_CARD = 0.75
"""Less memory than this part of a card's is a part of the card. Drivers keep a tenth at most, and parts begin at half:
AWS' g6f machines have an eighth to half of an L4 (https://aws.amazon.com/ec2/instance-types/g6/)."""


def part_of_card(labels: Mapping[str, str], total_bytes: int) -> str:
    """Return the label that says that the machine has only a part of a card; empty: none does.

    Args:
        labels: the node's labels.
        total_bytes: the memory of the whole card.
    """
    machine = labels.get(INSTANCE_TYPE, "")
    if machine in GKE_PARTS:
        return f"{INSTANCE_TYPE}={machine}"
    for _, key in AWS_LABELS:
        memory = labels.get(key, "")
        if memory.isdecimal() and int(memory) * MIB < LEAST_OF_CARD * total_bytes:
            return f"{key}={memory}"
    return ""


def named_type(labels: Mapping[str, str]) -> tuple[tuple[str, str], str] | None:
    """Return the first of these labels that a node has, and the GPU type that it names; None without any.

    An admin's label counts first, and the type of the machine last.
    """
    own = labels.get(GPU_TYPE_LABEL)
    if own:
        return (GPU_TYPE_LABEL, own), own
    accelerator = labels.get(GKE_ACCELERATOR, "")
    if accelerator in GKE_TYPES:
        return (GKE_ACCELERATOR, accelerator), GKE_TYPES[accelerator]
    for name, memory in AWS_LABELS:
        card = labels.get(name, "")
        gpu_type = AWS_TYPES.get(card) or _by_memory(card, labels.get(memory, ""))
        if gpu_type is not None:
            return (name, card), gpu_type
    machine = labels.get(INSTANCE_TYPE, "")
    return ((INSTANCE_TYPE, machine), MACHINES[machine][0]) if machine in MACHINES else None


def _by_memory(card: str, memory_mib: str) -> str | None:
    if not memory_mib.isdigit():
        return None
    return next((name for limit, name in AWS_TYPES_BY_MEMORY.get(card, ()) if int(memory_mib) <= limit), None)


def capacity_type(labels: Mapping[str, str]) -> CapacityType:
    """Return the capacity type of a node. Without such a label a node stays until somebody removes it: on demand.

    Reserved capacity (``karpenter.sh/capacity-type: reserved``) and capacity blocks are not taken back early, so they
    count as on demand.
    """
    spot = any(str(labels.get(name, "")).casefold() in values for name, values in SPOT_LABELS.items())
    return CapacityType.SPOT if spot else CapacityType.ON_DEMAND
