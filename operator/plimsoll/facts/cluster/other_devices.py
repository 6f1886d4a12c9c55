"""GPUs and accelerators that no node counts as GPUs of the usual device plugins, and GPUs that ResourceClaims hold.

GPUs that only a driver of Dynamic Resource Allocation publishes: pods claim them, and no node counts them.
Nothing is placed on them. A node that has no other GPUs is named with driver and count, so that nobody looks for its
GPUs in vain. The fields are those of ``ResourceSliceSpec`` and ``ResourceClaimStatus`` in
``staging/src/k8s.io/api/resource/v1/types.go``.

A driver and a device plugin know nothing of each other. The scheduler counts a claim's GPUs in ResourceSlices alone,
and a node's extended resource in pods' requests alone. If a node has both, one GPU can be given away twice. So what
claims hold counts as held of the extended resource, too.

Accelerators that other device plugins offer, and for which no engine is planned here.
A node with such devices is named with the reason, so that nobody waits for it or buys another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll.domain.cluster.fleet import GpuNode, IgnoredNode
from plimsoll.domain.public_words import NodeReason
from plimsoll.domain.units import agreed, counted
from plimsoll.facts.cluster.gpu_labels import AMD_RESOURCE, NVIDIA_RESOURCE

Body = Mapping[str, Any]

DRA_RESOURCES: Mapping[str, str | None] = {
    "gpu.nvidia.com": NVIDIA_RESOURCE,
    "gpu.amd.com": AMD_RESOURCE,
    "gpu.intel.com": None,
}
"""The drivers of GPUs, each with the extended resource that engines are placed on; None if they are placed on none
of its GPUs. The names are those in the ResourceSlices of https://github.com/NVIDIA/k8s-dra-driver-gpu,
https://github.com/ROCm/k8s-gpu-dra-driver and https://github.com/intel/intel-resource-drivers-for-kubernetes. Drivers
of other devices (network cards, CPUs, NVIDIA's compute domains) have other names."""

DEVICES = "plimsoll.dev/devices"
"""How many GPUs a slice publishes, in place of the list of them."""

MOST_DEVICES = 128
"""The most devices of a slice (``ResourceSliceMaxDevices`` of the API)."""

_CARD = "gpu"
"""The attribute ``type`` of a whole GPU. NVIDIA's driver publishes the MIG slices that it may be cut into as well."""

MOST_RESULTS = 32
"""The most devices of a claim (``AllocationResultsMaxSize`` of the API)."""

OF_EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that the scheduler made for a pod that requests an extended resource of a DeviceClass
(``ExtendedResourceClaimAnnotation`` of the API). The pod's request is counted already."""

_KEPT = ("driver", "pool", "device")
_SLICE = "-mig-"
"""Between a card and its slice in the names of NVIDIA's devices: ``gpu-0-mig-1g10gb-19-0`` is a part of ``gpu-0``
(https://github.com/NVIDIA/k8s-dra-driver-gpu). Its device plugin offers the whole card."""

_KINDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"habana\.ai/gaudi", "Intel Gaudi"),
        (r"gpu\.intel\.com/(i915|xe).*", "Intel GPUs"),
        (r"huawei\.com/.+", "Huawei Ascend"),
        (r"google\.com/tpu", "Google TPUs"),
        (r"aws\.amazon\.com/neuron.*", "AWS Neuron devices"),
        (r"amd\.com/(?!gpu$).+", "partitions of AMD GPUs"),
        (r"nvidia\.com/[A-Z].+", "GPUs for virtual machines"),
        (r"cambricon\.com/v?mlu", "Cambricon MLUs"),
        (r"hygon\.com/dcu(num)?", "Hygon DCUs"),
        (r"metax-tech\.com/s?gpu", "MetaX GPUs"),
        (r"enflame\.com/(drs-|v)?gcu", "Enflame GCUs"),
        (r"mthreads\.com/v?gpu", "Moore Threads GPUs"),
        (r"iluvatar\.(ai|com)/.*gpu", "Iluvatar GPUs"),
        (r"kunlunxin\.com/v?xpu", "Kunlunxin XPUs"),
        (r"rebellions\.ai/.+", "Rebellions NPUs"),
        (r"(beta\.)?furiosa\.ai/.+", "Furiosa NPUs"),
        (r"tenstorrent\.com/.+", "Tenstorrent cards"),
        (r"qualcomm\.com/qaic", "Qualcomm Cloud AI cards"),
        (r"volcano\.sh/v?gpu-number|aliyun\.com/gpu-mem|tencent\.com/vcuda-core", "shares of GPUs"),
    )
)
"""The resource names of these device plugins. Others may be added: a resource that is not here is not mentioned.

AMD's names partitions ``amd.com/<compute>_<memory>`` (https://github.com/ROCm/k8s-device-plugin). NVIDIA's for KubeVirt
names cards that go to virtual machines as a whole, and virtual GPUs, after the PCI device: ``nvidia.com/GA102GL_A10``
(https://github.com/NVIDIA/kubevirt-gpu-device-plugin). The names of others are those that HAMi's chart lists
(https://github.com/Project-HAMi/HAMi) and those of the vendors' plugins.
"""

SHARED_RESOURCE = "nvidia.com/gpu.shared"
"""NVIDIA's device plugin offers shared GPUs under this name if ``renameByDefault`` is set."""

_LACKING = (NodeReason.NO_DEVICES, NodeReason.NO_PRODUCT_LABEL)


def reduced_slice(body: Body) -> Body | None:
    """Return driver, node, pool and number of GPUs of a ResourceSlice; None if it has no GPUs of a node."""
    spec = body.get("spec") or {}
    driver, node = spec.get("driver"), spec.get("nodeName")
    if driver not in DRA_RESOURCES or not isinstance(node, str) or not node:
        return None
    head = {name: body["metadata"][name] for name in ("name", "uid", "resourceVersion") if name in body["metadata"]}
    pool = (spec.get("pool") or {}).get("name")
    named = {"name": pool} if isinstance(pool, str) else {}
    kept = {"driver": driver, "nodeName": node, "pool": {**named, "generation": _generation(spec)}}
    return {"metadata": head, "spec": kept, DEVICES: _published_count(body)}


def slice_with_names(kept: Body, rename: Callable[[str], str]) -> Body:
    """Return a reduced slice with other names of its node and its pool, which mostly are the same."""
    spec = kept["spec"]
    pool = {name: rename(part) if name == "name" else part for name, part in spec["pool"].items()}
    return {**kept, "spec": {**spec, "nodeName": rename(spec["nodeName"]), "pool": pool}}


def left_to_dra(
    seen: Sequence[GpuNode | IgnoredNode], born: Mapping[str, float | None], slices: Iterable[Body]
) -> list[GpuNode | IgnoredNode]:
    """Return the parts of nodes, with those that have GPUs by DRA alone as ignored nodes.

    Args:
        seen: the parts of the nodes. A node with GPUs or another cause stays as it is.
        born: when each node was made, in POSIX seconds.
        slices: ResourceSlices, whole or as :func:`reduced_slice` returns them.
    """
    found = _published(slices)
    kept = {each.name for each in seen if isinstance(each, GpuNode) or each.reason not in _LACKING or _offers(each)}
    named = {name: drivers for name, drivers in found.items() if name in born and name not in kept}
    added = [
        IgnoredNode(name, NodeReason.NOT_SUPPORTED, _detail(driver, gpus), gpus, born[name], driver)
        for name, drivers in named.items()
        for driver, gpus in drivers.items()
    ]
    return [*(each for each in seen if each.name not in named), *added]


def _offers(node: IgnoredNode) -> bool:
    """Whether a device plugin offers GPUs of a node that lacks something. The GPUs of NO_DEVICES are not offered."""
    return node.gpus > 0 and node.reason is not NodeReason.NO_DEVICES


def dra_advice(driver: str) -> str:
    """Return what makes the GPUs of a driver usable."""
    resource = DRA_RESOURCES.get(driver)
    if resource is None:
        return "engines are planned for NVIDIA and AMD GPUs"
    return f"enable the device plugin's extended resource {resource} there"


def _detail(driver: str, gpus: int) -> str:
    devices = f"{counted(gpus, 'device')} of {driver} {agreed(gpus, 'is', 'are')}"
    return f"{devices} published through DRA (ResourceSlices): {dra_advice(driver)}"


def _published(slices: Iterable[Body]) -> dict[str, dict[str, int]]:
    """Return the GPUs by node and driver. Of a driver's slices on a node only those of the newest generation count."""
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    for body in slices:
        kept = _or_none(reduced_slice, body)
        if kept is None:
            continue
        of = kept["spec"]["nodeName"], kept["spec"]["driver"]
        generation, gpus = kept["spec"]["pool"]["generation"], kept[DEVICES]
        known, before = newest.get(of, (generation, 0))
        if generation >= known:
            newest[of] = generation, gpus + (before if generation == known else 0)
    found: dict[str, dict[str, int]] = {}
    for (node, driver), (_, gpus) in sorted(newest.items()):
        if gpus:
            found.setdefault(node, {})[driver] = gpus
    return found


def _or_none(reduced: Callable[[Body], Body | None], body: Body) -> Body | None:
    """Return the reduced body. None, too, for one that cannot be read."""
    try:
        return reduced(body)
    except Exception:  # noqa: BLE001 - one body that cannot be read must not hide the fleet
        return None


def _generation(spec: Body) -> int:
    generation = (spec.get("pool") or {}).get("generation")
    return generation if isinstance(generation, int) else 0


def _published_count(body: Body) -> int:
    """Return how many GPUs a slice publishes: its whole GPUs, or all its devices if none is said to be one."""
    counted = body.get(DEVICES)
    if isinstance(counted, int):
        return max(0, min(MOST_DEVICES, counted))
    devices = (body["spec"].get("devices") or ())[:MOST_DEVICES]
    return sum(_type(device) == _CARD for device in devices) or len(devices)


def _type(device: Body) -> str:
    """Return the attribute ``type`` of a device, which was below ``basic`` before v1beta2."""
    attributes = device.get("attributes") or (device.get("basic") or {}).get("attributes") or {}
    return str((attributes.get("type") or {}).get("string") or "")


def _device_kind(resource: str) -> str | None:
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(resource)), None)


def other_devices(resources: Iterable[str]) -> list[tuple[str, str]]:
    """Return the resources among these that stand for other devices, each with its kind."""
    return [(name, kind) for name in sorted(resources) if (kind := _device_kind(name)) is not None]


def reduced_claim(body: Body) -> Body | None:
    """Return a claim's identity and the GPUs that it holds; None if it holds none."""
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
            node, so this holds if no slice is known.
    """
    cards: dict[tuple[str, str], set[tuple[str, str]]] = {}
    kept = [found for each in claims if (found := _or_none(reduced_claim, each)) is not None]
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
        found = _or_none(reduced_slice, body)
        if found is not None and "name" in found["spec"]["pool"]:
            yield (found["spec"]["driver"], found["spec"]["pool"]["name"]), found["spec"]["nodeName"]
