"""How many GPUs a node really has. Pods may ask for more, if one GPU is offered several times.

A device plugin that shares GPUs multiplies what a node offers. Nothing keeps the memory of those who share one apart,
so an engine that is placed on a share fails, or makes others fail. Every source of the number is read here, whoever
named the type of the GPUs.

Sources: NVIDIA's GPU Feature Discovery and device plugin (https://github.com/NVIDIA/k8s-device-plugin), GKE
(https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus), the well-known labels of Karpenter's
providers (https://karpenter.sh/docs/concepts/scheduling/), HAMi (https://github.com/Project-HAMi/HAMi).

The GPUs of the clouds' machine types, for node pools that name machines and no GPUs.

Only types of which the provider's own list of machines says the card and the number of cards are here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.domain.kubernetes_names import GROUP

_AWS_ONE_CARD = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
"""Sizes of AWS' graphics machines with one card. 12xlarge and 24xlarge have 4, 48xlarge has 8."""


def _aws(family: str, card: str, *, largest: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
    yield from ((f"{family}.{size}", (card, 1)) for size in _AWS_ONE_CARD)
    yield from ((f"{family}.{size}", (card, count)) for size, count in largest.items())


MACHINES: Mapping[str, tuple[str, int]] = {
    # AWS: https://aws.amazon.com/ec2/instance-types/accelerated-computing/
    **dict(_aws("g4dn", "t4-16gb", largest={"12xlarge": 4, "metal": 8})),
    **dict(_aws("g5", "a10g-24gb", largest={"12xlarge": 4, "24xlarge": 4, "48xlarge": 8})),
    **dict(_aws("g6", "l4-24gb", largest={"12xlarge": 4, "24xlarge": 4, "48xlarge": 8})),
    **dict(_aws("g6e", "l40s-48gb", largest={"12xlarge": 4, "24xlarge": 4, "48xlarge": 8})),
    "p4d.24xlarge": ("a100-sxm-40gb", 8),
    "p4de.24xlarge": ("a100-sxm-80gb", 8),
    "p5.4xlarge": ("h100-sxm-80gb", 1),
    "p5.48xlarge": ("h100-sxm-80gb", 8),
    "p5e.48xlarge": ("h200-sxm-141gb", 8),
    "p5en.48xlarge": ("h200-sxm-141gb", 8),
    "p6-b200.48xlarge": ("b200-sxm-180gb", 8),
    # Google Cloud: https://cloud.google.com/compute/docs/gpus
    **{f"g2-standard-{cpus}": ("l4-24gb", 1) for cpus in (4, 8, 12, 16, 32)},
    **{f"g2-standard-{cpus}": ("l4-24gb", cpus // 12) for cpus in (24, 48, 96)},
    **{f"a2-highgpu-{gpus}g": ("a100-sxm-40gb", gpus) for gpus in (1, 2, 4, 8)},
    **{f"a2-ultragpu-{gpus}g": ("a100-sxm-80gb", gpus) for gpus in (1, 2, 4, 8)},
    **{f"a3-highgpu-{gpus}g": ("h100-sxm-80gb", gpus) for gpus in (1, 2, 4, 8)},
    "a3-megagpu-8g": ("h100-sxm-80gb", 8),
    "a3-ultragpu-8g": ("h200-sxm-141gb", 8),
    "a4-highgpu-8g": ("b200-sxm-180gb", 8),
    **{f"g4-standard-{cpus}": ("rtx-pro-6000-bse-96gb", cpus // 48) for cpus in (48, 96, 192, 384)},
    # Azure: https://learn.microsoft.com/azure/virtual-machines/sizes/overview
    "Standard_NC24ads_A100_v4": ("a100-pcie-80gb", 1),
    "Standard_NC48ads_A100_v4": ("a100-pcie-80gb", 2),
    "Standard_NC96ads_A100_v4": ("a100-pcie-80gb", 4),
    "Standard_NC40ads_H100_v5": ("h100-nvl-94gb", 1),
    "Standard_NC80adis_H100_v5": ("h100-nvl-94gb", 2),
    "Standard_ND96amsr_A100_v4": ("a100-sxm-80gb", 8),
    "Standard_ND96isr_H100_v5": ("h100-sxm-80gb", 8),
    "Standard_ND96isr_H200_v5": ("h200-sxm-141gb", 8),
    "Standard_ND96isr_MI300X_v5": ("mi300x-192gb", 8),
}
"""The GPU type and the number of GPUs, by the value of ``node.kubernetes.io/instance-type``."""


GPU_COUNT_LABEL = f"{GROUP}/gpu-count"
"""An admin's own label: the number of cards in the node, for nodes that no other label counts them of."""

GFD_COUNT = "nvidia.com/gpu.count"

COUNTS = (
    GPU_COUNT_LABEL,
    GFD_COUNT,
    "cloud.google.com/gke-accelerator-count",
    "karpenter.k8s.aws/instance-gpu-count",
    "eks.amazonaws.com/instance-gpu-count",
    "karpenter.azure.com/sku-gpu-count",
    "karpenter.k8s.gcp/instance-gpu-count",
)
"""Labels with the number of cards. When cards are cut into slices, only GPU Feature Discovery counts the slices."""

GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_STRATEGY = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
NVIDIA_STRATEGY = "nvidia.com/gpu.sharing-strategy"

AMD_PARTITION = "amd.com/compute-memory-partition"
"""How AMD's node labeller says that cards are cut: ``cpx_nps4`` makes eight of one, ``spx_nps1`` leaves it whole
(https://github.com/ROCm/k8s-device-plugin/tree/master/cmd/k8s-node-labeller)."""

SHARING = (NVIDIA_STRATEGY, GKE_STRATEGY, GKE_CLIENTS, GKE_PARTITION, AMD_PARTITION)
"""Labels of nodes whose GPUs are shared or cut."""

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The machine, which has so many cards."""

HAMI_REGISTRATION = "hami.io/node-nvidia-register"
"""HAMi's annotation with the cards of a node. HAMi offers each of them several times."""

MOST_UNCOUNTED = 8
MOST_OF_LARGE_MACHINES = 16
LARGE_MACHINES = ("a100-", "v100-")
"""The most GPUs of a node without a count: machines have 8 at most. Some with A100 or V100 have 16 (Google's
a2-megagpu-16g, NVIDIA's DGX-2). Larger ones exist, and are counted by a label."""


def physical_gpus(labels: Mapping[str, str], annotations: Mapping[str, str], *, sliced: bool) -> tuple[int, str] | None:
    """Return the number of GPUs behind what a node offers, and the label or annotation that says it.

    None if nothing says it. If several sources differ, the smallest number counts. The machine's type counts
    if no other source does.

    Args:
        labels: the node's labels.
        annotations: the node's annotations.
        sliced: whether these are slices of cards.
    """
    found = list(_counts(labels, (GFD_COUNT,) if sliced else COUNTS))
    cards = _registered(annotations.get(HAMI_REGISTRATION, ""))
    if cards:
        found.append((cards, HAMI_REGISTRATION))
    machine = labels.get(INSTANCE_TYPE, "")
    if not found and machine in MACHINES and not sliced:
        found.append((MACHINES[machine][1], f"{INSTANCE_TYPE}={machine}"))
    return min(found, default=None)


def sharing(labels: Mapping[str, str], *, sliced: bool) -> str:
    """Return the label that says that GPUs are shared, or cut in a way that no other label describes; empty: none."""
    strategy = labels.get(NVIDIA_STRATEGY, "none")
    if strategy not in ("", "none"):
        return f"{NVIDIA_STRATEGY}={strategy}"
    if labels.get(GKE_STRATEGY):
        return f"{GKE_STRATEGY}={labels[GKE_STRATEGY]}"
    if _number(labels.get(GKE_CLIENTS, "")) > 1:
        return f"{GKE_CLIENTS}={labels[GKE_CLIENTS]}"
    if labels.get(GKE_PARTITION) and not sliced:
        return f"{GKE_PARTITION}={labels[GKE_PARTITION]}"
    partition = labels.get(AMD_PARTITION, "")
    return f"{AMD_PARTITION}={partition}" if partition and not partition.casefold().startswith("spx") else ""


def only_counted(registration: str) -> str:
    """Return HAMi's annotation with as many cards, and without what identifies them."""
    return "card,:" * _registered(registration)


def most_uncounted(gpu_type: str) -> int:
    """Return how many GPUs of a type a node may offer if nothing counts its cards."""
    return MOST_OF_LARGE_MACHINES if gpu_type.startswith(LARGE_MACHINES) else MOST_UNCOUNTED


def _counts(labels: Mapping[str, str], names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    for name in names:
        if labels.get(name, "").isdecimal():
            yield int(labels[name]), name


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _registered(text: str) -> int:
    """Return how many cards HAMi has registered: a JSON list, or the older list with a colon after each card."""
    if text.lstrip().startswith("["):
        try:
            cards: Any = json.loads(text)
        except ValueError:
            return 0
        return len(cards) if isinstance(cards, list) else 0
    return sum(1 for card in text.split(":") if "," in card)
