"""Which of two cards is the better one, by the facts that the catalogue has of both."""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType, Interconnect

_Grade = tuple[int, int, int, int, int]


def is_better(gpu: GpuType, other: GpuType) -> bool:
    """Whether a card is at least as good as another one of its family in everything, and better in something.

    Memory, bandwidth, generation, interconnect and the number of GPUs that reach each other are compared. Cards of
    different families are not: nobody sells a graphics card for games by what a server's card costs.
    """
    if (gpu.vendor, gpu.family) != (other.vendor, other.family):
        return False
    mine, theirs = _grade(gpu), _grade(other)
    return mine != theirs and all(one >= two for one, two in zip(mine, theirs, strict=True))


def _grade(gpu: GpuType) -> _Grade:
    return (
        gpu.total_bytes,
        gpu.memory_bandwidth_gb_per_second,
        _generation(gpu),
        int(gpu.interconnect is not Interconnect.PCIE),
        gpu.scale_up_gpus,
    )


def _generation(gpu: GpuType) -> int:
    """CUDA's compute capability as one number, or the number in AMD's target: gfx90a comes before gfx942."""
    if gpu.compute_capability is not None:
        major, minor = gpu.compute_capability
        return 100 * major + minor
    return int((gpu.gfx or "gfx0").removeprefix("gfx"), 16)
