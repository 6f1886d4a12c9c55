"""How many GPUs a node really has. Pods may ask for more, where one GPU is offered several times.

A device plugin that shares GPUs multiplies what a node offers. Nothing keeps the memory of those who share one apart,
so an engine that is placed on a share fails, or makes others fail. Every source of the number is read here, whoever
named the type of the GPUs.

Sources: NVIDIA's GPU Feature Discovery and device plugin (https://github.com/NVIDIA/k8s-device-plugin), GKE
(https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus), the well-known labels of Karpenter's
providers (https://karpenter.sh/docs/concepts/scheduling/), HAMi (https://github.com/Project-HAMi/HAMi).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.domain.names import GROUP
from plimsoll.facts.cluster.machines import MACHINES

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
"""Labels with the number of cards. Where cards are cut into slices, only GPU Feature Discovery counts the slices."""

GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_STRATEGY = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
NVIDIA_STRATEGY = "nvidia.com/gpu.sharing-strategy"

SHARING = (NVIDIA_STRATEGY, GKE_STRATEGY, GKE_CLIENTS, GKE_PARTITION)
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

    None where nothing says it. Where several sources differ, the smallest number counts. The machine's type counts
    where no other source does.

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
    return ""


def only_counted(registration: str) -> str:
    """Return HAMi's annotation with as many cards, and without what identifies them."""
    return "card,:" * _registered(registration)


def most_uncounted(gpu_type: str) -> int:
    """Return how many GPUs of a type a node may offer where nothing counts its cards."""
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
