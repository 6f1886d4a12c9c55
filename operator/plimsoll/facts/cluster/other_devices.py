"""Accelerators that other device plugins offer, and for which no engine is planned here.

A node with such devices is named with the reason, so that nobody waits for it or buys another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_KINDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"habana\.ai/gaudi", "Intel Gaudi"),
        (r"gpu\.intel\.com/(i915|xe).*", "Intel GPUs"),
        (r"huawei\.com/.+", "Huawei Ascend"),
        (r"google\.com/tpu", "Google TPUs"),
        (r"aws\.amazon\.com/neuron.*", "AWS Neuron devices"),
        (r"amd\.com/(?!gpu$).+", "partitions of AMD GPUs"),
    )
)
"""The resource names of these device plugins. AMD's names partitions ``amd.com/<compute>_<memory>``
(https://github.com/ROCm/k8s-device-plugin). Others may be added: a resource that is not here is not mentioned."""

SHARED_RESOURCE = "nvidia.com/gpu.shared"
"""NVIDIA's device plugin offers shared GPUs under this name where ``renameByDefault`` is set."""


def device_kind(resource: str) -> str | None:
    """Return what devices an extended resource stands for; None where they are GPUs, or unknown."""
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(resource)), None)


def is_other_device(resource: str) -> bool:
    """Whether a resource is read only to name the node that offers it."""
    return resource == SHARED_RESOURCE or device_kind(resource) is not None


def other_devices(resources: Iterable[str]) -> list[tuple[str, str]]:
    """Return the resources among these that stand for other devices, each with its kind."""
    return [(name, kind) for name in sorted(resources) if (kind := device_kind(name)) is not None]
