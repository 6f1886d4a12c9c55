"""The host memory and CPU of a replica at a place: the engine's need, and the bounds that the user sets."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.host import USUAL_HOST, HostEstimate, HostNeed, HostTerm
from plimsoll.domain.outcomes import Option, Split
from plimsoll.domain.reasons import Numbers
from plimsoll.domain.serving import Request
from plimsoll.domain.units import format_gib
from plimsoll.engines.registry import engine_of
from plimsoll.placement.candidates import Candidate


def host_of(request: Request, gpu: GpuType, split: Split) -> HostEstimate:
    """Return the host memory and CPU that the engine of one replica needs.

    Where GPU and host share one memory, its part of the GPU counts: the kernel gives the node's other pods no more.
    """
    engine = engine_of(request.engine.name)
    host = engine.host(request, gpu.vendor, split)
    if not gpu.unified_memory:
        return host
    percent = engine.settings(request, gpu, split).gpu_memory_utilization_percent
    formula = f"{percent} % of {format_gib(gpu.usable_bytes)} that GPU and host share"
    shared = HostTerm("gpuMemory", formula, gpu.usable_bytes * percent // 100)
    return replace(host, terms=(*host.terms, shared))


def host_need(request: Request, place: Option | Candidate) -> HostNeed:
    """Return what the pod of one replica requests at a place."""
    host = place.host if isinstance(place, Option) else host_of(request, place.gpu, place.split)
    return request.host_need(host)


def need_of_pool(request: Request, gpu_type: str, split: Split, fleet: Fleet) -> HostNeed:
    """Return what a pod of an existing pool requests."""
    nodes = fleet.of_type(gpu_type)
    return request.host_need(host_of(request, nodes[0].gpu, split) if nodes else USUAL_HOST)


def host_refusal(request: Request, host: HostEstimate) -> Numbers:
    """Return the figures where the user allows the pod less memory than the engine takes for sure; else nothing."""
    allowed = request.host_allowance
    if allowed is None or allowed[1] >= host.least_bytes:
        return ()
    return (("least_bytes", host.least_bytes), ("stated_bytes", allowed[1]), ("field", allowed[0]))
