"""What would make an unplaceable request fit: every proposal is tried with the same placement before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from plimsoll.domain.fleet import Fleet, GpuNode
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Fit, Outcome, Placed, Rejection, Remedy
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.reasons import MAY_PASS, RemedyKind
from plimsoll.domain.serving import GpuConstraints, Overrides, Request
from plimsoll.placement.candidates import TENSOR_PARALLEL_DEGREES
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.place import on_an_empty_fleet, place


def remedies(request: Request, fleet: Fleet, ledger: Ledger, catalog: Sequence[GpuType]) -> tuple[Remedy, ...]:
    """Single changes that lead to a placement, nearest first: free GPUs, smaller load, other bits, other GPUs."""
    return tuple(_all_remedies(request, fleet, ledger, catalog))


def _all_remedies(request: Request, fleet: Fleet, ledger: Ledger, catalog: Sequence[GpuType]) -> Iterator[Remedy]:
    yield from _free_gpus(request, fleet)
    yield from _smaller_load(request, fleet, ledger)
    yield from _other_16_bits(request, fleet, ledger)
    yield from _fewer_bits(request, fleet, ledger)
    yield from _without_bounds(request, fleet, ledger)
    yield from _other_gpus(request, catalog)


def _free_gpus(request: Request, fleet: Fleet) -> Iterator[Remedy]:
    outcome = place(replace(request, replicas=1), on_an_empty_fleet(fleet))
    if _fits_for_sure(outcome):
        chosen = outcome.choice
        yield Remedy(RemedyKind.FREE_GPUS, (("gpu_type", chosen.gpu.name), ("gpus", chosen.split.gpus)))


def _smaller_load(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    shape = request.shape

    def with_context(tokens: int) -> Request:
        return replace(request, shape=replace(shape, context_tokens=tokens))

    def with_concurrency(sequences: int) -> Request:
        return replace(request, shape=replace(shape, concurrency=sequences))

    # A context shorter than the expected prompt and output would be refused.
    shortest = max(1, (shape.expected_prompt_tokens or 0) + (shape.expected_output_tokens or 0))
    context = _largest_that_fits(range(shortest, shape.context_tokens), with_context, fleet, ledger)
    if context is not None:
        yield Remedy(RemedyKind.REDUCE_CONTEXT, (("from", shape.context_tokens), ("to", context)))
    concurrency = _largest_that_fits(range(1, shape.concurrency), with_concurrency, fleet, ledger)
    if concurrency is not None:
        yield Remedy(RemedyKind.REDUCE_CONCURRENCY, (("from", shape.concurrency), ("to", concurrency)))


def _largest_that_fits(values: range, changed: Callable[[int], Request], fleet: Fleet, ledger: Ledger) -> int | None:
    """Bisect for the largest value that places; less load never needs more memory, so one side always fits."""
    if not values or not _places(changed(values[0]), fleet, ledger):
        return None
    fits, fails = values[0], values[-1] + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if _places(changed(middle), fleet, ledger):
            fits = middle
        else:
            fails = middle
    return fits


def _fewer_bits(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    if request.kv_precision is not KvPrecision.FP8 and _places(
        replace(request, kv_precision=KvPrecision.FP8), fleet, ledger
    ):
        yield Remedy(RemedyKind.KV_CACHE_FP8)
    if not request.precision.is_quantized and _places(replace(request, precision=Precision.FP8), fleet, ledger):
        yield Remedy(RemedyKind.WEIGHTS_FP8)


def _other_16_bits(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    """The older 16-bit type costs the same and is what cards before Ampere compute in."""
    if request.precision is not Precision.BF16:
        return
    kv_precision = KvPrecision.FP16 if request.kv_precision is KvPrecision.BF16 else request.kv_precision
    if _places(replace(request, precision=Precision.FP16, kv_precision=kv_precision), fleet, ledger):
        yield Remedy(RemedyKind.WEIGHTS_FP16)


def _without_bounds(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    free = replace(request, replicas=1, constraints=GpuConstraints(), overrides=Overrides(), node_selector=())
    if free == replace(request, replicas=1):
        return
    outcome = place(free, fleet, ledger)
    if _fits_for_sure(outcome):
        chosen = outcome.choice
        yield Remedy(RemedyKind.RELAX_CONSTRAINTS, (("gpu_type", chosen.gpu.name), ("gpus", chosen.split.gpus)))


def _other_gpus(request: Request, catalog: Sequence[GpuType]) -> Iterator[Remedy]:
    """The cheapest catalogued type that would hold one replica on a node that the request's own bounds allow."""
    shop = Fleet(tuple(_for_sale(request, gpu) for gpu in catalog if gpu.price is not None and not gpu.is_slice))
    outcome = place(replace(request, replicas=1), shop)
    if _fits_for_sure(outcome):
        best = outcome.choice
        yield Remedy(RemedyKind.ADD_GPUS, (("gpu_type", best.gpu.name), ("gpus", best.split.gpus)))


def _for_sale(request: Request, gpu: GpuType) -> GpuNode:
    """A node that one could buy, labelled as the request's node selector wants it."""
    return GpuNode(
        name=gpu.name,
        gpu=gpu,
        resource="",
        selector=("", ""),
        allocatable=min(TENSOR_PARALLEL_DEGREES[-1], gpu.scale_up_gpus),
        held=0,
        labels=request.node_selector,
    )


def _places(request: Request, fleet: Fleet, ledger: Ledger) -> bool:
    return _fits_for_sure(place(replace(request, replicas=1), fleet, ledger))


def _fits_for_sure(outcome: Outcome) -> TypeGuard[Placed]:
    """What fits only probably is no remedy: nobody should change a spec for a perhaps."""
    return isinstance(outcome, Placed) and outcome.choice.estimate.fit is Fit.SURE


def only_waits(rejections: Sequence[Rejection]) -> bool:
    """Whether some candidate fits and merely waits: for GPUs, CPU or memory that others hold, a quota, or time."""
    return any(rejection.reason in MAY_PASS for rejection in rejections)
