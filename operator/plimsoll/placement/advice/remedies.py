"""Remedies: changes that would make an unplaceable request fit. Every remedy is judged like a placement first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Labels
from plimsoll.domain.cluster.gpus import RARE_IN_SERVERS, GpuType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.decisions.outcomes import Option, Rejection, Remedy, Split
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import MAY_PASS, Numbers, RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request
from plimsoll.memory.inverse import largest
from plimsoll.placement.advice.growth import Growable, growable, growth
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import TENSOR_PARALLEL_DEGREES, Candidate, cuts, splits_for
from plimsoll.placement.options.feasibility import refusal
from plimsoll.placement.options.nodes import most_gpus
from plimsoll.placement.places.first_fit import first_that_fits, fits_for_sure, with_room
from plimsoll.placement.places.place import room_basis, room_of


@dataclass(slots=True)
class Adviser:
    """Finds remedies on one fleet, and uses answers in ``memo`` that were found from the same facts.

    ``groups`` are nodes that could be added to the fleet.
    """

    fleet: Fleet
    catalog: Sequence[GpuType]
    memo: Memo
    groups: Sequence[NodeGroup] = ()
    _growable: tuple[Growable, ...] | None = field(default=None, init=False)
    _empty: Ledger | None = field(default=None, init=False)
    _shelf: tuple[GpuType, ...] | None = field(default=None, init=False)
    _shops: dict[Labels, _Shop] = field(default_factory=dict, init=False)

    @property
    def emptied(self) -> Fleet:
        """The fleet with nothing running."""
        return self.memo.last.emptied(self.fleet)

    @property
    def empty_ledger(self) -> Ledger:
        """The ledger of the empty fleet. It is equal for every request, and is made only when a remedy is needed."""
        if self._empty is None:
            self._empty = Ledger.of(self.emptied)
        return self._empty

    @property
    def shelf(self) -> tuple[GpuType, ...]:
        """The types that one can be advised to buy."""
        if self._shelf is None:
            owned = frozenset(gpu.family for gpu in self.fleet.gpu_types())
            self._shelf = tuple(gpu for gpu in self.catalog if _is_sold(gpu, owned))
        return self._shelf

    def remedies(self, request: Request, ledger: Ledger) -> tuple[Remedy, ...]:
        """Do the same as :func:`remedies`. A search runs again only where its input has changed."""
        here, emptied = room_seen(request, self.fleet, ledger), self._sight_of_empty(request)
        recall, unbound, asker = self.memo.recall, _without_bounds(request), _asker(request, ledger)
        return (
            *recall(request, ("free", *asker), emptied, lambda: tuple(self._free_gpus(request))),
            *recall(request, ("change", *asker), here, lambda: tuple(self._changes(request, ledger))),
            *self._relaxed(request, unbound, ledger),
            *recall(request, "buy", self.shelf, lambda: tuple(self._other_gpus(request))),
        )

    def room(self, request: Request, ledger: Ledger) -> tuple[object, ...]:
        """Return everything that :meth:`remedies` reads from a ledger. The rest follows from request and layout."""
        unbound, fleet = _without_bounds(request), self.fleet
        here = room_seen(request, fleet, ledger)
        return (here,) if unbound is request else (here, room_seen(unbound, fleet, ledger))

    def _sight_of_empty(self, request: Request) -> tuple[object, ...]:
        """Return what a search reads from the empty fleet. It changes only with the request and the layout."""
        basis = request, self.memo.last.layout(self.fleet)
        return self.memo.last.recall(
            request.key, "empty", basis, lambda: room_seen(request, self.emptied, self.empty_ledger)
        )

    def growth(self, request: Request, missing: int, ledger: Ledger) -> tuple[Remedy, ...]:
        """Return nodes that could be added for replicas that have no place."""
        if self._growable is None:
            self._growable = growable(self.groups, self.fleet)
        return growth(request, missing, self._growable, ledger, self.memo) if self._growable else ()

    def _free_gpus(self, request: Request) -> Iterator[Remedy]:
        chosen = first_that_fits(request, self.emptied, self.empty_ledger, self.memo)
        if chosen is not None:
            yield _gpus(RemedyKind.FREE_GPUS, chosen)

    def _changes(self, request: Request, ledger: Ledger) -> Iterator[Remedy]:
        yield from _smaller_load(request, self.fleet, with_room(request, self.fleet, ledger))
        yield from _other_16_bits(request, self.fleet, ledger)
        yield from _fewer_bits(request, self.fleet, ledger)

    def _relaxed(self, request: Request, unbound: Request, ledger: Ledger) -> tuple[Remedy, ...]:
        if unbound is request:
            return ()
        return self.memo.recall(
            request,
            ("relax", *_asker(request, ledger)),
            room_seen(unbound, self.fleet, ledger),
            lambda: tuple(_relax(unbound, self.fleet, ledger)),
        )

    def _other_gpus(self, request: Request) -> Iterator[Remedy]:
        """Yield the cheapest catalogued type that fits one replica on a node within the request's own bounds."""
        shop = self._shop(request.node_selector)
        chosen = first_that_fits(request.for_new_nodes(), shop.fleet, shop.ledger)
        if chosen is not None:
            yield _gpus(RemedyKind.ADD_GPUS, chosen, request.new_node_needs)

    def _shop(self, labels: Labels) -> _Shop:
        """Return the nodes that one could buy, with these labels. Requests with one node selector share them."""
        if labels not in self._shops:
            self._shops[labels] = _Shop.of(self.shelf, labels)
        return self._shops[labels]


@dataclass(frozen=True, slots=True)
class _Shop:
    """One empty node of each GPU type that one could buy."""

    fleet: Fleet
    ledger: Ledger

    @staticmethod
    def of(shelf: Sequence[GpuType], labels: Labels) -> _Shop:
        fleet = Fleet(tuple(_for_sale(gpu, labels) for gpu in shelf))
        return _Shop(fleet, Ledger.of(fleet))


def _is_sold(gpu: GpuType, owned: Collection[str]) -> bool:
    """Whether a whole GPU has a price that its owner wrote or three providers ask, and is found in servers."""
    if gpu.price is None or gpu.is_slice or (gpu.family in RARE_IN_SERVERS and gpu.family not in owned):
        return False
    return gpu.price.market is None or not gpu.price.market.is_thin


def _asker(request: Request, ledger: Ledger) -> tuple[tuple[object, ...], str]:
    """Return the part of a memo key that separates equal requests with different room.

    Without it, these requests would overwrite each other's answers.
    """
    namespace = request.key.namespace
    return request.stated_host, namespace if namespace in ledger.quota else ""


def room_seen(request: Request, fleet: Fleet, ledger: Ledger) -> tuple[object, ...]:
    """Return all inputs that a search for one replica's place reads from a fleet and a ledger, for any load.

    Requests that ask for the same room share the answer.
    """
    about = (*room_basis(request, ledger), request.overrides.tensor_parallel)
    return ledger.once("sight", fleet.nodes, about, lambda: _seen(request, fleet, ledger))


def _seen(request: Request, fleet: Fleet, ledger: Ledger) -> tuple[object, ...]:
    forced = request.overrides.tensor_parallel
    sizes = TENSOR_PARALLEL_DEGREES if forced is None else (*TENSOR_PARALLEL_DEGREES, forced)
    # Several engines ask for more of a node's CPU and memory than one engine on as many GPUs.
    engines = [split for split in splits_for(request) if split.data_parallel > 1]
    splits = (*(Split(gpus) for gpus in sizes), *engines)
    rooms = [room_of(request, cut, fleet, ledger) > 0 for cut in cuts(splits, fleet)]
    return tuple(
        (gpu, most_gpus(request, fleet, gpu.name), tuple(rooms[first : first + len(splits)]))
        for gpu, first in zip(fleet.gpu_types(), range(0, len(rooms), len(splits)), strict=True)
    )


def _gpus(kind: RemedyKind, chosen: Option, needs: Numbers = ()) -> Remedy:
    return Remedy(kind, (("gpu_type", chosen.gpu.name), ("gpus", chosen.split.gpus), *needs))


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
    yield from _fewer_sequences(request, fleet, roomy)


def _fewer_sequences(request: Request, fleet: Fleet, roomy: Sequence[Candidate]) -> Iterator[Remedy]:
    """Yield a lower number of sequences, where the user fixes it higher than the load is."""
    fixed, concurrency = request.engine.max_sequences, request.shape.concurrency
    if fixed is None or fixed <= concurrency:
        return

    def with_sequences(number: int) -> Request:
        return replace(request, engine=replace(request.engine, max_sequences=number))

    sequences = _largest_that_fits(range(concurrency, fixed), with_sequences, fleet, roomy)
    if sequences is not None:
        yield Remedy(RemedyKind.REDUCE_SEQUENCES, (("from", fixed), ("to", sequences)))


def _largest_that_fits(
    values: range, changed: Callable[[int], Request], fleet: Fleet, roomy: Sequence[Candidate]
) -> int | None:
    """Return the largest value that fits on any candidate. Less load never needs more memory, so bisection works.

    The largest candidates come first. Each candidate is tested only for values above the best value so far, so one
    test is enough for most candidates. What rules a candidate out for one load rules it out for all.
    """
    found: int | None = None
    for candidate in sorted(roomy, key=lambda each: -each.gpu.usable_bytes * each.split.gpus):
        more = values if found is None else range(found + 1, values.stop)
        if not more:
            break
        if refusal(changed(more[0]), candidate, fleet) is not None:
            continue

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
    """Yield a change to fp16, which needs the same memory and works on cards before Ampere."""
    if request.precision is not Precision.BF16:
        return
    kv_precision = KvPrecision.FP16 if request.kv_precision is KvPrecision.BF16 else request.kv_precision
    if first_that_fits(replace(request, precision=Precision.FP16, kv_precision=kv_precision), fleet, ledger):
        yield Remedy(RemedyKind.WEIGHTS_FP16)


def _without_bounds(request: Request) -> Request:
    """Return the request without the user's placement rules; the same object where there are none."""
    bounds = (request.constraints, request.overrides, request.node_selector)
    if bounds == (GpuConstraints(), Overrides(), ()):
        return request
    return replace(request, constraints=GpuConstraints(), overrides=Overrides(), node_selector=())


def _relax(unbound: Request, fleet: Fleet, ledger: Ledger) -> Iterator[Remedy]:
    chosen = first_that_fits(unbound, fleet, ledger)
    if chosen is not None:
        yield _gpus(RemedyKind.RELAX_CONSTRAINTS, chosen)


def _for_sale(gpu: GpuType, labels: Labels) -> GpuNode:
    return GpuNode(
        name=gpu.name,
        gpu=gpu,
        resource="",
        selector=("", ""),
        allocatable=min(TENSOR_PARALLEL_DEGREES[-1], gpu.scale_up_gpus),
        held=0,
        labels=(*gpu.own_labels, *labels),
    )


def only_waits(rejections: Sequence[Rejection]) -> bool:
    """Whether some candidate fits and only waits: for GPUs, CPU or memory in use, for a quota, or for time to pass."""
    return any(rejection.reason in MAY_PASS for rejection in rejections)
