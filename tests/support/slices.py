"""ResourceSlices and ResourceClaims of Dynamic Resource Allocation: what drivers publish, and what is given away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.bodies import Body


def resource_slice(
    node: str, *types: str, driver: str = "gpu.nvidia.com", generation: int = 1, number: int = 0, **spec: Any
) -> Body:
    """A slice of a node, with a device of each of these types."""
    devices = [{"name": f"{kind}-{at}", "attributes": {"type": {"string": kind}}} for at, kind in enumerate(types)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}-{generation}-{number}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
            **spec,
        },
    }


def cards(number: int) -> Iterable[str]:
    """The types of so many whole GPUs."""
    return ["gpu"] * number


def resource_claim(pool: str, *devices: str, driver: str = "gpu.nvidia.com", name: str = "claim", **more: Any) -> Body:
    """A claim that holds these devices of a pool; ``more`` is a part of each result."""
    results = [{"request": "gpu", "driver": driver, "pool": pool, "device": device, **more} for device in devices]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "somebody"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": driver}}]}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [{"resource": "pods", "name": "p"}]},
    }
