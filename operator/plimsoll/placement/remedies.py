"""What would make an unplaceable request fit: every proposal is judged as a placement is before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from plimsoll.domain.fleet import Fleet, GpuNode
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.host import HostNeed
from plimsoll.domain.outcomes import Choice, Rejection, Remedy, Split
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.reasons import MAY_PASS, RemedyKind
from plimsoll.domain.serving import GpuConstraints, Overrides, Request
from plimsoll.memory.inverse import largest
from plimsoll.placement.candidates import TENSOR_PARALLEL_DEGREES, Candidate, candidate_on
from plimsoll.placement.eligibility import most_gpus
from plimsoll.placement.first_fit import first_that_fits, fits_for_sure, with_room
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.place import room_of


def remedies(request: Request, fleet: Fleet, ledger: Ledger, catalog: Sequence[GpuType]) -> tuple[Remedy, ...]:
    """Single changes that lead to a placement, nearest first: free GPUs, smaller load, other bits, other GPUs."""
    return Adviser(fleet, catalog, Memo()).remedies(request, ledger)


@dataclass(slots=True)
class Adviser:
    """Finds remedies on one fleet, and looks up in ``memo`` what was found before from the same facts."""

    fleet: Fleet
    catalog: Sequence[GpuType]
    memo: Memo
    _emptied: Ledger | None = field(default=None, init=False)

    @property
    def empty_ledger(self) -> Ledger:
        """The ledger of the empty fleet: the same for every request, and of no use where all are placed."""
        if self._emptied is None:
            self._emptied = Ledger.of(self.fleet.emptied)
        return self._emptied

    def remedies(self, request: Request, ledger: Ledger) -> tuple[Remedy, ...]:
        """As :func:`remedies`. Each search is made again only where something that it reads has changed."""
        here, emptied = _sight(request, self.fleet, ledger), _sight(request, self.fleet.emptied, self.empty_ledger)
        recall, unbound, asker = self.memo.recall, _without_bounds(request), _asker(request, ledger)
        return (
            *recall(request, ("free", *asker), emptied, lambda: tuple(self._free_gpus(request))),
            *recall(request, ("change", *asker), here, lambda: tuple(self._changes(request, ledger))),
            *self._relaxed(request, unbound, ledger),
            *recall(request, "buy", tuple(self.catalog), lambda: tuple(self._other_gpus(request))),
        )

    def _free_gpus(self, request: Request) -> Iterator[Remedy]:
        chosen = first_that_fits(request, self.fleet.emptied, self.empty_ledger, self.memo)
        if chosen is not None:
            yield _gpus(RemedyKind.FREE_GPUS, chosen)

    def _changes(self, request: Request, ledger: Ledger) -> Iterator[Remedy]:
        """What the user can change of the load and the bits."""
        yield from _smaller_load(request, self.fleet, with_room(request, self.fleet, ledger, self.memo))
        yield from _other_16_bits(request, self.fleet, ledger)
        yield from _fewer_bits(request, self.fleet, ledger)

    def _relaxed(self, request: Request, unbound: Request, ledger: Ledger) -> tuple[Remedy, ...]:
        if unbound is request:
            return ()
        return self.memo.recall(
            request,
            ("relax", *_asker(request, ledger)),
            _sight(unbound, self.fleet, ledger),
            lambda: tuple(_relax(unbound, self.fleet, ledger)),
        )

    def _other_gpus(self, request: Request) -> Iterator[Remedy]:
        """The cheapest catalogued type that would hold one replica on a node that the request's own bounds allow."""
        sold = (gpu for gpu in self.catalog if gpu.price is not None and not gpu.is_slice)
        shop = Fleet(tuple(_for_sale(request, gpu) for gpu in sold))
        chosen = first_that_fits(request, shop, Ledger.of(shop))
        if chosen is not None:
            yield _gpus(RemedyKind.ADD_GPUS, chosen)


def _asker(request: Request, ledger: Ledger) -> tuple[HostNeed, str]:
    """Whose room differs from that of others who ask for the same: they would only overwrite each other's answers."""
    namespace = request.key.namespace
    return request.host_need, namespace if namespace in ledger.quota else ""


def _sight(request: Request, fleet: Fleet, ledger: Ledger) -> tuple[object, ...]:
    """All that a search for a place for one replica reads of a fleet and a ledger, whatever load the replica has."""
    forced = request.overrides.tensor_parallel
    sizes = TENSOR_PARALLEL_DEGREES if forced is None else (*TENSOR_PARALLEL_DEGREES, forced)
    seen: list[tuple[object, ...]] = []
    for gpu in fleet.gpu_types():
        node = fleet.of_type(gpu.name)[0]
        cuts = (candidate_on(gpu, Split(gpus), node) for gpus in sizes)
        rooms = tuple(room_of(request, cut, fleet, ledger) > 0 for cut in cuts)
        seen.append((gpu, most_gpus(request, fleet, gpu.name), rooms))
    return tuple(seen)


def _gpus(kind: RemedyKind, chosen: Choice) -> Remedy:
    return Remedy(kind, (("gpu_type", chosen.gpu.name), ("gpus", chosen.split.gpus)))


def _smaller_load(request: Request, fleet: Fleet, roomy: Sequence[Candidate]) -> Iterator[Remedy]:
    shape = request.shape

    def with_context(tokens: int) -> Request:
        return replace(request, shape=replace(shape, context_tokens=tokens))

    def with_concurrency(sequences: int) -> Request:
        return replace(request, shape=replace(shape, concurrency=sequences))

    # A context shorter than the expected prompt and output would be refused.
    shortest = max(1, (shape.expected_prompt_tokens or 0) + (shape.expected_output_tokens or 0))
    context = _largest_that_fits(range(shortest, shape.context_tokens), with_context, fleet, roomy)
    if context is not None:
        yield Remedy(RemedyKind.REDUCE_CONTEXT, (("from", shape.context_tokens), ("to", context)))
    concurrency = _largest_that_fits(range(1, shape.concurrency), with_concurrency, fleet, roomy)
    if concurrency is not None:
        yield Remedy(RemedyKind.REDUCE_CONCURRENCY, (("from", shape.concurrency), ("to", concurrency)))


def _largest_that_fits(
    values: range, changed: Callable[[int], Request], fleet: Fleet, roomy: Sequence[Candidate]
) -> int | None:
    """The largest value that some candidate holds. Less load never needs more memory, so each can be bisected.

    The largest candidates come first, and each is asked for more than those before it hold: most are done with one
    question.
    """
    found: int | None = None
    for candidate in sorted(roomy, key=lambda each: -each.gpu.usable_bytes * each.split.gpus):
        more = values if found is None else range(found + 1, values.stop)
        if not more:
            break

        def fits(value: int, candidate: Candidate = candidate) -> bool:
            return fits_for_sure(changed(value), candidate, fleet)

        found = largest(fits, more[0], more[-1]) or found
    return found


def _fewer_bits(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    if request.kv_precision is not KvPrecision.FP8 and first_that_fits(
        replace(request, kv_precision=KvPrecision.FP8), fleet, ledger
    ):
        yield Remedy(RemedyKind.KV_CACHE_FP8)
    if not request.precision.is_quantized and first_that_fits(replace(request, precision=Precision.FP8), fleet, ledger):
        yield Remedy(RemedyKind.WEIGHTS_FP8)


def _other_16_bits(request: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    """The older 16-bit type costs the same and is what cards before Ampere compute in."""
    if request.precision is not Precision.BF16:
        return
    kv_precision = KvPrecision.FP16 if request.kv_precision is KvPrecision.BF16 else request.kv_precision
    if first_that_fits(replace(request, precision=Precision.FP16, kv_precision=kv_precision), fleet, ledger):
        yield Remedy(RemedyKind.WEIGHTS_FP16)


def _without_bounds(request: Request) -> Request:
    """The request without what the user rules out; the request itself where nothing is ruled out."""
    bounds = (request.constraints, request.overrides, request.node_selector)
    if bounds == (GpuConstraints(), Overrides(), ()):
        return request
    return replace(request, constraints=GpuConstraints(), overrides=Overrides(), node_selector=())


def _relax(unbound: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    chosen = first_that_fits(unbound, fleet, ledger)
    if chosen is not None:
        yield _gpus(RemedyKind.RELAX_CONSTRAINTS, chosen)


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


def only_waits(rejections: Sequence[Rejection]) -> bool:
    """Whether some candidate fits and merely waits: for GPUs, CPU or memory that others hold, a quota, or time."""
    return any(rejection.reason in MAY_PASS for rejection in rejections)
