"""GPUs that ResourceClaims hold on nodes whose device plugin offers the same GPUs.

A driver of Dynamic Resource Allocation and a device plugin know nothing of each other. The scheduler counts a claim's
GPUs in ResourceSlices alone, and a node's extended resource in pods' requests alone. Where a node has both, one GPU can
be given away twice. So what claims hold counts as held of the extended resource, too. The fields are those of
``ResourceClaimStatus`` in ``staging/src/k8s.io/api/resource/v1/types.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from plimsoll.facts.cluster.other_devices import DRA_RESOURCES, reduced_or_none

Body = Mapping[str, Any]

MOST_RESULTS = 32
"""The most devices of a claim (``AllocationResultsMaxSize`` of the API)."""

OF_EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that the scheduler made for a pod that requests an extended resource of a DeviceClass
(``ExtendedResourceClaimAnnotation`` of the API). The pod's request is counted already."""

_KEPT = ("driver", "pool", "device")
_SLICE = "-mig-"
"""Between a card and its slice in the names of NVIDIA's devices: ``gpu-0-mig-1g10gb-19-0`` is a part of ``gpu-0``
(https://github.com/NVIDIA/k8s-dra-driver-gpu). Its device plugin offers the whole card."""


def reduced_claim(body: Body) -> Body | None:
    """Return a claim's identity and the GPUs that it holds; None where it holds none."""
    if ((body["metadata"].get("annotations") or {}).get(OF_EXTENDED_RESOURCE)) == "true":
        return None
    held = [{name: each[name] for name in _KEPT} for each in _results(body)]
    if not held:
        return None
    identity = ("name", "namespace", "uid", "resourceVersion")
    head = {name: body["metadata"][name] for name in identity if name in body["metadata"]}
    return {"metadata": head, "status": {"allocation": {"devices": {"results": held}}}}


def claim_with_names(kept: Body, rename: Callable[[str], str]) -> Body:
    """Return a reduced claim with other names of the pools of its devices. A pool mostly has the name of its node."""
    results = kept["status"]["allocation"]["devices"]["results"]
    held = [{**each, "pool": rename(each["pool"])} for each in results]
    return {**kept, "status": {"allocation": {"devices": {"results": held}}}}


def claimed_by_node(claims: Iterable[Body], slices: Iterable[Body]) -> dict[tuple[str, str], int]:
    """Return the cards that claims hold, by node and extended resource.

    Args:
        claims: ResourceClaims, whole or as :func:`reduced_claim` returns them.
        slices: ResourceSlices, which say on which node a pool of devices is. Drivers name pools of a node like the
            node, so this holds where no slice is known.
    """
    cards: dict[tuple[str, str], set[tuple[str, str]]] = {}
    kept = [found for each in claims if (found := _reduced_or_none(each)) is not None]
    nodes = dict(_nodes_of_pools(slices)) if kept else {}
    for claim in kept:
        for each in claim["status"]["allocation"]["devices"]["results"]:
            driver, pool = each["driver"], each["pool"]
            account = nodes.get((driver, pool), pool), str(DRA_RESOURCES[driver])
            cards.setdefault(account, set()).add((pool, each["device"].partition(_SLICE)[0]))
    return {account: len(found) for account, found in cards.items()}


def _results(body: Body) -> Iterator[Body]:
    """Yield the GPUs that a claim holds. Access for an admin holds nothing."""
    allocation = (body.get("status") or {}).get("allocation") or {}
    for each in ((allocation.get("devices") or {}).get("results") or ())[:MOST_RESULTS]:
        is_whole = all(isinstance(each.get(name), str) for name in _KEPT)
        if is_whole and DRA_RESOURCES.get(each["driver"]) is not None and each.get("adminAccess") is not True:
            yield each


def _nodes_of_pools(slices: Iterable[Body]) -> Iterator[tuple[tuple[str, str], str]]:
    for body in slices:
        found = reduced_or_none(body)
        if found is not None and "name" in found["spec"]["pool"]:
            yield (found["spec"]["driver"], found["spec"]["pool"]["name"]), found["spec"]["nodeName"]


def _reduced_or_none(body: Body) -> Body | None:
    try:
        return reduced_claim(body)
    except Exception:  # noqa: BLE001 - one claim that cannot be read must not hide the fleet
        return None
