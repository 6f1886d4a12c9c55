"""Check CPU, memory and other resources of the engine's container: refuse what no node could ever grant."""

from __future__ import annotations

import re
from collections.abc import Iterable

from plimsoll.api.v1alpha1.pods import ResourcesSpec
from plimsoll.api.v1alpha1.values import LONGEST_KEY, RESOURCE_NAME
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import parse_quantity
from plimsoll.domain.workload import DEFAULT_REQUESTS, Manifest

_GPUS = ("nvidia.com/", "amd.com/")
"""Prefixes of resources whose count the operator sets itself."""


def check_resources(field: str, resources: ResourcesSpec | None) -> None:
    """Refuse requests above their limits, and devices without a limit. Raises :class:`InvalidInput`."""
    if resources is None:
        return
    requests, limits = resources.requests or {}, resources.limits or {}
    for part, names in (("requests", requests), ("limits", limits)):
        _check_names(f"{field}.{part}", names)
    for name, requested in requests.items():
        if name.startswith(_GPUS):
            continue
        limit = limits.get(name)
        if limit is not None and parse_quantity(limit) < parse_quantity(requested):
            raise InvalidInput(
                f"{field}.limits.{name}", limit, f"Write at least {requested}, which requests.{name} asks for."
            )
        if _is_whole(name) and (limit is None or parse_quantity(limit) != parse_quantity(requested)):
            raise InvalidInput(f"{field}.requests.{name}", requested, f"Write the same in limits.{name}.")
    for name, limit in limits.items():
        if "/" in name and parse_quantity(limit) % 1:
            raise InvalidInput(f"{field}.limits.{name}", limit, "Write a whole number of devices.")


def _check_names(field: str, names: Iterable[str]) -> None:
    for name in names:
        if len(name) > LONGEST_KEY or not re.fullmatch(RESOURCE_NAME, name):
            raise InvalidInput(
                field, name, "Write cpu, memory, ephemeral-storage, hugepages-2Mi or a device such as example.com/nic."
            )


def engine_resources(resources: ResourcesSpec | None) -> Manifest:
    """Return the requests and limits of the pods.

    The operator requests some CPU and memory where the user sets none. A user's limit below that becomes the request.
    """
    if resources is None:
        return {}
    given: Manifest = resources.model_dump(mode="json", by_alias=True, exclude_none=True)
    requests, limits = resources.requests or {}, resources.limits or {}
    lowered = {
        name: limits[name]
        for name, default in DEFAULT_REQUESTS.items()
        if name in limits and name not in requests and parse_quantity(limits[name]) < parse_quantity(default)
    }
    return given | {"requests": {**requests, **lowered}} if lowered else given


def _is_whole(name: str) -> bool:
    """Whether Kubernetes does not overcommit the resource, so that requests and limits must be equal."""
    return "/" in name or name.startswith("hugepages-")
