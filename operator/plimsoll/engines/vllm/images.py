"""vLLM's own images."""

from __future__ import annotations

from plimsoll.domain.gpus import Vendor

_REPOSITORIES = {Vendor.NVIDIA: "vllm/vllm-openai", Vendor.AMD: "vllm/vllm-openai-rocm"}
"""Source: Docker Hub, organisation ``vllm``."""


def image(vendor: Vendor, release: str) -> str:
    """Return the image of a release for the GPUs of a vendor."""
    return f"{_REPOSITORIES[vendor]}:v{release}"
