"""Manifests that tests put on the control plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def gpu_deployment(
    name: str,
    namespace: str,
    *,
    arguments: Sequence[str] = ("meta-llama/Llama-3.1-8B-Instruct", "--max-model-len=8192", "--max-num-seqs=64"),
    replicas: int = 1,
    gpus: int = 1,
    node_selector: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A Deployment of engines as an operator would render it, on NVIDIA GPUs."""
    labels = {"plimsoll.dev/deployment": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": dict(annotations or {})},
                "spec": {
                    "nodeSelector": dict(node_selector or {}),
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [
                        {
                            "name": "engine",
                            "image": "vllm/vllm-openai:test",
                            "args": list(arguments),
                            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                        }
                    ],
                },
            },
        },
    }
