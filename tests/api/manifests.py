"""InferenceDeployments as users write them."""

from __future__ import annotations

from typing import Any

from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import InferenceDeployment


def manifest(name: str = "llama", **spec: Any) -> dict[str, Any]:
    """A minimal object; ``spec`` adds to or replaces its fields."""
    minimal = {
        "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
        "contextLength": 8192,
        "concurrency": 16,
    }
    metadata = {
        "name": name,
        "namespace": "ml",
        "uid": "0-1-2",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": metadata,
        "spec": minimal | spec,
    }


def deployment(name: str = "llama", **spec: Any) -> InferenceDeployment:
    """The same, parsed."""
    return parse_inference_deployment(manifest(name, **spec))
