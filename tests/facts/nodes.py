"""Node and pod objects as a cluster shows them, shortened."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]


def nvidia_node(
    name: str = "n",
    *,
    product: str = "NVIDIA-H100-80GB-HBM3",
    memory: str | None = "81559",
    gpus: int = 8,
    capability: str | None = "9.0",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Body:
    """A node as GPU Feature Discovery labels it."""
    told = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.present": "true", "nvidia.com/gpu.replicas": "1"}
    if memory is not None:
        told["nvidia.com/gpu.memory"] = memory
    if capability is not None:
        major, minor = capability.split(".")
        told |= {"nvidia.com/gpu.compute.major": major, "nvidia.com/gpu.compute.minor": minor}
    told["nvidia.com/gpu.count"] = str(gpus)
    return node(name, told | (labels or {}), {"nvidia.com/gpu": str(gpus)}, **spec)


def node(name: str, labels: dict[str, str], allocatable: dict[str, str], **spec: Any) -> Body:
    """Any node."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": {"cpu": "96", **allocatable}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(
    name: str = "p",
    where: str | None = "n",
    *gpus: int,
    init: tuple[int, ...] = (),
    phase: str = "Running",
    resource: str = "nvidia.com/gpu",
    field: str = "limits",
) -> Body:
    """A pod with one container for each number of GPUs."""

    def containers(numbers: tuple[int, ...]) -> list[Body]:
        return [{"resources": {field: {resource: str(number)}}} for number in numbers]

    spec: Body = {"containers": containers(gpus), "initContainers": containers(init)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "somebody"},
        "spec": spec | ({"nodeName": where} if where else {}),
        "status": {"phase": phase},
    }
