"""Remedies: changes that would make an unplaceable request fit. Every remedy is judged like a placement first.

The last ones are for requests for which GPUs are free and another resource is short.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Labels
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.host import HostNeed, is_in_bytes
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.quota_accounts import resource_in
from plimsoll.domain.decisions.outcomes import Option, Placed, Rejection, Remedy, Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import MAY_PASS, Numbers, Reason, RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request
from plimsoll.domain.units import GIB, MIB, ceil_div
from plimsoll.memory.inverse import largest
from plimsoll.placement.advice.growth import Growable, growable, growth
from plimsoll.placement.ledger import Ledger, short_in, use_at
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import TENSOR_PARALLEL_DEGREES, Candidate, cuts, splits_for
from plimsoll.placement.options.feasibility import refusal
from plimsoll.placement.options.nodes import host_need, host_of_pool, most_gpus
from plimsoll.placement.places.place import first_that_fits, fits_for_sure, place, room_basis, room_of, with_room


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
    _offers: tuple[object, ...] | None = field(default=None, init=False)
    _shops: dict[Labels, _Shop] = field(default_factory=dict, init=False)

    @property
    def emptied(self) -> Fleet:
        """The fleet with nothing running."""
        return self.memo.last.emptied(self.fleet)

    @property
    def empty_ledger(self) -> Ledger:
        """The ledger of the empty fleet. It is equal for every request, and is made only when a remedy is needed."""
        if self._empty is None:
            known = self.memo.last.of_layout("empty ledger", self.fleet, lambda: Ledger.of(self.emptied))
            self._empty = known.read_anew()
        return self._empty

    @property
    def shelf(self) -> tuple[GpuType, ...]:
        """The types that one can be advised to buy."""
        if self._shelf is None:
            owned = frozenset(gpu.family for gpu in self.fleet.gpu_types())
            self._shelf = tuple(gpu for gpu in self.catalog if _is_sold(gpu, owned))
        return self._shelf

    @property
    def offers(self) -> tuple[object, ...]:
        """Everything that one can be advised to buy or to add: the same Python object as before while it is equal."""
        if self._offers is None:
            self._offers = self.memo.last.same("offers", (tuple(self.catalog), tuple(self.groups)))
        return self._offers

    def remedies(self, request: Request, ledger: Ledger) -> tuple[Remedy, ...]:
        """Do the same as :func:`remedies`. A search runs again only if its input has changed."""
        here, emptied = room_seen(request, self.fleet, ledger), self._sight_of_empty(request)
        recall, unbound, asker = self.memo.recall, _without_bounds(request), _asker(request, ledger)
        return (
            *recall(request, ("free", *asker), emptied, lambda: tuple(self._free_gpus(request))),
            *recall(request, ("change", *asker), here, lambda: tuple(self._changes(request, ledger))),
            *self._relaxed(request, unbound, ledger),
            *recall(request, "buy", self.shelf, lambda: tuple(self._other_gpus(request))),
        )

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
        for kind, changed in _other_precisions(request):
            if first_that_fits(changed, self.fleet, ledger):
                yield Remedy(kind)

    def _relaxed(self, request: Request, unbound: Request, ledger: Ledger) -> tuple[Remedy, ...]:
        if unbound is request:
            return ()
        return self.memo.recall(
            request,
            ("relax", *_asker(request, ledger)),
            room_seen(unbound, self.fleet, ledger),
            lambda: tuple(self._unbound(unbound, ledger)),
        )

    def _unbound(self, unbound: Request, ledger: Ledger) -> Iterator[Remedy]:
        chosen = first_that_fits(unbound, self.fleet, ledger)
        if chosen is not None:
            yield _gpus(RemedyKind.RELAX_CONSTRAINTS, chosen)

    def _other_gpus(self, request: Request) -> Iterator[Remedy]:
        """Yield the cheapest catalogued type that fits one replica on a node within the request's own bounds."""
        shop = self._shop(request.node_selector)
        chosen = first_that_fits(request.for_new_nodes(Reason.NODES_NOT_SELECTED), shop.fleet, shop.ledger)
        if chosen is not None:
            yield _gpus(RemedyKind.ADD_GPUS, chosen, request.new_node_needs(host_need(request, chosen)))

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
    if gpu.price is None or gpu.is_slice or not (gpu.is_for_servers or gpu.family in owned):
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
    """Yield a shorter context, fewer requests at the same time, and fewer sequences if the user fixes too many."""
    shape = request.shape
    # A context shorter than the expected prompt and output would be refused.
    shortest = max(1, (shape.expected_prompt_tokens or 0) + (shape.expected_output_tokens or 0))

    def with_context(tokens: int) -> Request:
        return replace(request, shape=replace(shape, context_tokens=tokens))

    def with_concurrency(sequences: int) -> Request:
        return replace(request, shape=replace(shape, concurrency=sequences))

    def with_sequences(number: int) -> Request:
        return request.limited(StepLimits(sequences=number))

    figures = (
        (RemedyKind.REDUCE_CONTEXT, range(shortest, shape.context_tokens), with_context),
        (RemedyKind.REDUCE_CONCURRENCY, range(1, shape.concurrency), with_concurrency),
        (RemedyKind.REDUCE_SEQUENCES, range(shape.concurrency, request.engine.limits.sequences), with_sequences),
    )
    for kind, values, changed in figures:
        found = _largest_that_fits(values, changed, fleet, roomy) if values else None
        if found is not None:
            yield Remedy(kind, (("from", values.stop), ("to", found)))


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


def _other_precisions(request: Request) -> Iterator[tuple[RemedyKind, Request]]:
    """Yield fp16, which needs the same memory as bf16 and works on cards before Ampere, and then fewer bits."""
    if request.precision is Precision.BF16:
        kv_precision = KvPrecision.FP16 if request.kv_precision is KvPrecision.BF16 else request.kv_precision
        yield RemedyKind.WEIGHTS_FP16, replace(request, precision=Precision.FP16, kv_precision=kv_precision)
    if request.kv_precision is not KvPrecision.FP8:
        yield RemedyKind.KV_CACHE_FP8, replace(request, kv_precision=KvPrecision.FP8)
    if not request.precision.is_quantized:
        yield RemedyKind.WEIGHTS_FP8, replace(request, precision=Precision.FP8)


def _without_bounds(request: Request) -> Request:
    """Return the request without the user's placement rules; the same object if there are none."""
    rules = tuple(rule for rule in request.node_rules if rule.reason is not Reason.NODES_NOT_SELECTED)
    bounds = (request.constraints, request.overrides, request.node_selector, request.node_rules)
    if bounds == (GpuConstraints(), Overrides(), (), rules):
        return request
    return replace(request, constraints=GpuConstraints(), overrides=Overrides(), node_selector=(), node_rules=rules)


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


class _Changed(NamedTuple):
    """A changed request, the figures of its remedy, and the most that a pod may ask of its host for it to count."""

    request: Request
    numbers: Numbers
    within: HostNeed | None = None


def _smaller_requests(request: Request, rejection: Rejection, fleet: Fleet) -> _Changed | None:
    """Lower the requests to the most that is free on one node. CPU and memory are never lowered to zero."""
    figures = dict(rejection.numbers)
    if rejection.reason is Reason.NODE_LACKS_RESOURCE:
        # The most of a further resource with which it fits, bytes in whole MiB; 0 if it fits only without.
        resource = str(figures["resource"])
        left = int(figures["free_bytes"]) // MIB * MIB if is_in_bytes(resource) else int(figures["free"])
        lowered = dict(request.other_resources) | {resource: left}
        others = tuple(sorted((name, amount) for name, amount in lowered.items() if amount > 0))
        return _Changed(replace(request, other_resources=others), (("resource", resource), ("amount", left)))
    host = host_of_pool(request, rejection.gpu_type, rejection.split, fleet)
    need, engine = request.host_need(host), request.engine_need(host)
    cpu = engine.cpu_millis - max(0, need.cpu_millis - int(figures.get("free_millis", need.cpu_millis)))
    memory = engine.memory_bytes - max(0, need.memory_bytes - int(figures.get("free_bytes", need.memory_bytes)))
    if (cpu, memory) == (engine.cpu_millis, engine.memory_bytes) or min(cpu, memory) <= 0:
        return None
    smaller = replace(request, cpu_millis=cpu, memory_bytes=memory)
    return _Changed(smaller, (("cpu_millis", cpu), ("memory_bytes", memory)))


def _less_host_cache(request: Request, rejection: Rejection, fleet: Fleet) -> _Changed | None:
    """Lower the KV cache in host memory, in whole GiB, by what one node lacks; to nothing if that is not enough."""
    asked = request.engine.host
    if not asked.by_spec or not asked.kv_bytes:
        return None
    figures = dict(rejection.numbers)
    over = int(figures["asked_bytes"]) - int(figures["free_bytes"])
    place = rejection.gpu_type, rejection.split, fleet
    without = host_of_pool(request.with_host_cache(0), *place).memory_bytes
    taken = host_of_pool(request, *place).memory_bytes - without
    left = (taken - over) * asked.kv_bytes // taken // GIB * GIB if taken > over else 0
    return _Changed(request.with_host_cache(left), (("from_bytes", asked.kv_bytes), ("host_bytes", left)))


def _own_limits(request: Request, rejection: Rejection, fleet: Fleet) -> _Changed | None:
    """State the requests as limits, so that no LimitRange fills in others. Limits of the user's stay as they are."""
    need = request.engine_need(host_of_pool(request, rejection.gpu_type, rejection.split, fleet))
    cpu, memory = request.cpu_limit_millis, request.memory_limit_bytes
    bound = {value for name, value in rejection.numbers if name.startswith("resource")}
    numbers: Numbers = ()
    if cpu is None and "cpu" in bound:
        cpu = need.cpu_millis
        numbers = (("cpu_millis", cpu),)
    if memory is None and "memory" in bound:
        memory = ceil_div(need.memory_bytes, MIB) * MIB
        numbers = (*numbers, ("memory_bytes", memory))
    limited = replace(request, cpu_limit_millis=cpu, memory_limit_bytes=memory)
    return _Changed(limited, numbers, need) if numbers else None


def _other_nodes(request: Request, rejection: Rejection, _: Fleet) -> _Changed:
    """Leave out the rules about nodes behind the reason."""
    rules = tuple(rule for rule in request.node_rules if rule.reason is not rejection.reason)
    figures = tuple(each for each in rejection.numbers if each[0] in ("least_bytes", "least", "claim", "pod"))
    return _Changed(replace(request, node_rules=rules), figures)


_CHANGES: tuple[tuple[RemedyKind, tuple[Reason, ...], Callable[[Request, Rejection, Fleet], _Changed | None]], ...] = (
    (
        RemedyKind.LOWER_REQUESTS,
        (Reason.NODE_LACKS_CPU, Reason.NODE_LACKS_MEMORY, Reason.NODE_LACKS_RESOURCE),
        _smaller_requests,
    ),
    (RemedyKind.LESS_HOST_CACHE, (Reason.NODE_LACKS_MEMORY,), _less_host_cache),
    (RemedyKind.STATE_LIMITS, (Reason.LIMIT_RANGE_EXCEEDED,), _own_limits),
    (RemedyKind.CACHE_ON_CLAIM, (Reason.NODE_DISK_TOO_SMALL,), _other_nodes),
    (RemedyKind.UPDATE_DRIVER, (Reason.DRIVER_TOO_OLD,), _other_nodes),
    (RemedyKind.FREE_CLAIM, (Reason.VOLUME_IN_USE,), _other_nodes),
)
"""Each remedy with the reasons that it helps against, and the change that is tried for a rejection."""


def other_remedies(
    request: Request, fleet: Fleet, ledger: Ledger, rejections: Sequence[Rejection], memo: Memo | None = None
) -> tuple[Remedy, ...]:
    """Return the remedies that work: a larger quota, smaller requests or own limits of the pod, or better nodes."""
    one = request.with_replicas(1)
    quota = _larger_quota(one, fleet, ledger, rejections, memo)
    found = [] if quota is None else [quota]
    for kind, reasons, change in _CHANGES:
        tried: set[_Changed] = set()
        for rejection in rejections:
            changed = change(one, rejection, fleet) if rejection.reason in reasons else None
            if changed is None or changed in tried:
                continue
            tried.add(changed)
            remedy = _fitting(kind, one, changed, fleet, ledger, memo)
            if remedy is not None:
                found.append(remedy)
                break
    return tuple(found)


def _fitting(
    kind: RemedyKind, request: Request, change: _Changed, fleet: Fleet, ledger: Ledger, memo: Memo | None
) -> Remedy | None:
    outcome = place(change.request, fleet, ledger, memo=memo)
    if not isinstance(outcome, Placed):
        return None
    if change.within is not None and not request.engine_need(outcome.choice.host).is_within(change.within):
        return None
    return Remedy(kind, (*change.numbers, ("gpu_type", outcome.choice.gpu.name)))


def _larger_quota(
    request: Request, fleet: Fleet, ledger: Ledger, rejections: Sequence[Rejection], memo: Memo | None
) -> Remedy | None:
    if not any(rejection.reason is Reason.QUOTA_EXCEEDED for rejection in rejections):
        return None
    outcome = place(request, fleet, ledger.without_quota(), memo=memo)
    if not isinstance(outcome, Placed):
        return None
    choice = outcome.choice
    left = ledger.quota.get(request.key.namespace, {})
    numbers: list[tuple[str, int | str]] = []
    for account, asked in short_in(left, use_at(request, choice)):
        more = asked - left[account]
        if account == choice.target.resource:
            numbers += [("resource", account), ("more", more)]
        else:
            numbers.append((account if resource_in(account) != choice.target.resource else f"requests.{account}", more))
    if not numbers:
        return None
    return Remedy(RemedyKind.RAISE_QUOTA, (*numbers, ("gpus", choice.split.gpus), ("gpu_type", choice.gpu.name)))
