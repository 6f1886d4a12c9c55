"""What would make an unplaceable request fit: every proposal is tried with the same placement before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Choice, Placed, Remedy, Split
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.reasons import Reason, RemedyKind
from plimsoll.domain.serving import GpuConstraints, Overrides, Request, ServingShape
from plimsoll.placement.candidates import TENSOR_PARALLEL_DEGREES, Candidate
from plimsoll.placement.divisibility import split_refusal
from plimsoll.placement.feasibility import judge_memory_and_price
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.place import on_an_empty_fleet, place, rank
from plimsoll.placement.precision_gate import missing_capability


def remedies(request: Request, fleet: Fleet, ledger: Ledger, catalog: Sequence[GpuType]) -> tuple[Remedy, ...]:
    """Single changes that lead to a placement, nearest first: free GPUs, smaller load, fewer bits, other GPUs."""
    return tuple(_all_remedies(request, fleet, ledger, catalog))


def _all_remedies(request: Request, fleet: Fleet, ledger: Ledger, catalog: Sequence[GpuType]) -> Iterator[Remedy]:
    yield from _free_gpus(request, fleet)
    yield from _smaller_load(request, fleet, ledger)
    yield from _fewer_bits(request, fleet, ledger)
    yield from _without_bounds(request, fleet, ledger)
    yield from _other_gpus(request, catalog)


def _free_gpus(request: Request, fleet: Fleet) -> Iterator[Remedy]:
    outcome = place(replace(request, replicas=1), on_an_empty_fleet(fleet))
    if isinstance(outcome, Placed):
        chosen = outcome.choice
        yield Remedy(RemedyKind.FREE_GPUS, (("gpu_type", chosen.gpu.name), ("gpus", chosen.split.gpus)))


def _smaller_load(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    shape = request.shape

    def with_context(tokens: int) -> Request:
        # Expected lengths may exceed a shorter context: the proposal is made on the guaranteed product.
        return replace(request, shape=ServingShape(tokens, shape.concurrency))

    def with_concurrency(sequences: int) -> Request:
        return replace(request, shape=replace(shape, concurrency=sequences))

    context = _largest_that_fits(shape.context_tokens - 1, with_context, fleet, ledger)
    if context is not None:
        yield Remedy(RemedyKind.REDUCE_CONTEXT, (("from", shape.context_tokens), ("to", context)))
    concurrency = _largest_that_fits(shape.concurrency - 1, with_concurrency, fleet, ledger)
    if concurrency is not None:
        yield Remedy(RemedyKind.REDUCE_CONCURRENCY, (("from", shape.concurrency), ("to", concurrency)))


def _largest_that_fits(largest: int, changed: Callable[[int], Request], fleet: Fleet, ledger: Ledger) -> int | None:
    """Bisect for the largest value that places; less load never needs more memory, so one side always fits."""
    if largest < 1 or not _places(changed(1), fleet, ledger):
        return None
    fits, fails = 1, largest + 1
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


def _without_bounds(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    free = replace(request, replicas=1, constraints=GpuConstraints(), overrides=Overrides(), node_selector=())
    if free == replace(request, replicas=1):
        return
    outcome = place(free, fleet, ledger)
    if isinstance(outcome, Placed):
        chosen = outcome.choice
        yield Remedy(RemedyKind.RELAX_CONSTRAINTS, (("gpu_type", chosen.gpu.name), ("gpus", chosen.split.gpus)))


def _other_gpus(request: Request, catalog: Sequence[GpuType]) -> Iterator[Remedy]:
    """The cheapest catalogued type that would hold one replica on one node of eight."""
    fitting = [choice for gpu in catalog for choice in _choices_on(request, gpu)]
    if fitting:
        best = min(fitting, key=rank)
        yield Remedy(RemedyKind.ADD_GPUS, (("gpu_type", best.gpu.name), ("gpus", best.split.gpus)))


def _choices_on(request: Request, gpu: GpuType) -> Iterator[Choice]:
    free = replace(request, constraints=GpuConstraints(), overrides=Overrides())
    if gpu.price is None or missing_capability(request.model, request.precision, request.kv_precision, gpu):
        return
    for degree in TENSOR_PARALLEL_DEGREES:
        split = Split(degree)
        if degree > gpu.scale_up_gpus and degree > 1:
            return
        if split_refusal(request.model, request.precision, gpu.name, split) is not None:
            continue
        verdict = judge_memory_and_price(free, Candidate(gpu, split, ("", ""), ""))
        if isinstance(verdict, Choice):
            yield verdict
            return


def _places(request: Request, fleet: Fleet, ledger: Ledger) -> bool:
    return isinstance(place(replace(request, replicas=1), fleet, ledger), Placed)


def only_waits(rejections: Sequence[object]) -> bool:
    """Whether some candidate fits and merely waits for GPUs that others hold."""
    return any(getattr(rejection, "reason", None) is Reason.GPUS_TAKEN for rejection in rejections)
