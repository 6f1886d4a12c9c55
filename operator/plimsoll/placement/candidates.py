"""Which GPU types and splits are worth judging."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Split
from plimsoll.domain.serving import Request

TENSOR_PARALLEL_DEGREES = (1, 2, 4, 8)
"""Degrees that one node of eight GPUs can hold and that divide the head counts of every catalogued model."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One GPU type, cut one way; ``selector`` and ``resource`` say how pods reach it."""

    gpu: GpuType
    split: Split
    selector: tuple[str, str]
    resource: str


def candidates(request: Request, fleet: Fleet) -> Iterator[Candidate]:
    """Every type of the fleet at every degree, by name and degree; an admin's degree is tried too, whatever it is."""
    forced = request.overrides.tensor_parallel
    degrees = sorted({*TENSOR_PARALLEL_DEGREES, *(() if forced is None else (forced,))})
    for gpu in fleet.gpu_types():
        node = fleet.of_type(gpu.name)[0]
        for degree in degrees:
            yield Candidate(gpu, Split(degree), node.selector, node.resource)
