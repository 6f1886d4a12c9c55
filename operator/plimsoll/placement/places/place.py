"""Choose a place: judge every candidate, rank the feasible ones, and explain the others.

The missing resource if a candidate fits but has no room: quota, GPUs, or other resources of the nodes.

A place where one replica fits for sure is found faster, without reasons for other candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import HostNeed, HostRoom, is_in_bytes
from plimsoll.domain.cluster.quota_accounts import resource_in, spot_account
from plimsoll.domain.decisions.latency import Performance
from plimsoll.domain.decisions.outcomes import (
    Fit,
    Option,
    Outcome,
    Placed,
    Rejection,
    ReplicaShape,
    Split,
    Unplaceable,
)
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import OF_CPU, OF_MEMORY, OF_PODS
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import exact_price, to_milliseconds
from plimsoll.performance.slo import upper_quarter
from plimsoll.placement.costs import move_charge
from plimsoll.placement.demands.pools import Place
from plimsoll.placement.demands.rehoming import is_closed
from plimsoll.placement.ledger import Ledger, charged, quota_room, short_in, use_at
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import Candidate, candidates, splits_for
from plimsoll.placement.options.feasibility import avoidable_price, judge, judge_load, may_fit
from plimsoll.placement.options.nodes import eligible_nodes, host_need, unhealthy_here
from plimsoll.placement.options.verdicts import NO_PRICE, Options, options, preference_at, rank
from plimsoll.placement.places.warnings import warnings_for

Rooms = Sequence[tuple[int | None, int | None, str]]
"""For every node with free GPUs, the total and the free amount of one resource, and the node's name. None: the node
does not report it."""


class Footprint(NamedTuple):
    """The nodes on which the pods of one replica may run, its shape, and what each pod requests other than GPUs."""

    nodes: tuple[GpuNode, ...]
    shape: ReplicaShape
    need: HostNeed


def footprint(request: Request, cut: Option | Candidate, fleet: Fleet) -> Footprint:
    """Return the footprint of a replica of the request at a place."""
    return Footprint(eligible_nodes(request, fleet, cut.gpu.name), cut.split.shape, host_need(request, cut))


def _footprints(request: Request, judged: Options, fleet: Fleet) -> tuple[Rejection | tuple[Option, Footprint], ...]:
    """Return all verdicts, the options with their footprints. Requests that are alike share them."""
    about = ("footprints", id(judged), request.sites, request.stated_host)
    found = (
        each if isinstance(each, Rejection) else (each, footprint(request, each, fleet)) for each in judged.verdicts
    )
    return fleet.once(about, lambda: (judged, tuple(found)))[1]  # kept, so that no other options get their id


def options_with_room(request: Request, judged: Options, fleet: Fleet, ledger: Ledger) -> Mapping[Place, Option]:
    """Return the options with room for one replica, by GPU type and split. Requests that are alike share the answer."""

    def found() -> tuple[Options, Mapping[Place, Option]]:
        one = request.with_replicas(1)
        places = [each for each in _footprints(request, judged, fleet) if not isinstance(each, Rejection)]
        return judged, {
            option.target.place: option for option, there in places if _room(one, option, there, ledger) > 0
        }

    about = (id(judged), request.sites, request.stated_host, *_quota_basis(request, ledger))
    return ledger.once("options with room", fleet.nodes, about, found)[1]


def shortage(request: Request, choice: Option, fleet: Fleet, ledger: Ledger) -> tuple[Reason, Numbers]:
    """Return the reason and its numbers."""
    left = ledger.quota.get(request.key.namespace)
    for resource, asked in short_in(left, use_at(request, choice)) if left else ():
        if resource == spot_account(request.key.name):
            price = exact_price(choice.hourly_price)
            return Reason.TOO_MANY_ON_SPOT, (("price", price), ("least", request.least_on_demand))
        return Reason.QUOTA_EXCEEDED, _beyond_quota(resource, asked, left[resource] if left else 0)
    return _shortage_of_nodes(request, choice.gpu.name, footprint(request, choice, fleet), fleet, ledger)


def _shortage_of_nodes(
    request: Request, gpu_type: str, there: Footprint, fleet: Fleet, ledger: Ledger
) -> tuple[Reason, Numbers]:
    """Return the shortage without regard to quotas. All places with one footprint share it."""
    about = (there.shape, there.need)
    return ledger.once("shortage", there.nodes, about, lambda: _found_shortage(request, gpu_type, there, fleet, ledger))


def _found_shortage(
    request: Request, gpu_type: str, there: Footprint, fleet: Fleet, ledger: Ledger
) -> tuple[Reason, Numbers]:
    (nodes, shape, need), gpus = there, there.shape.gpus_per_pod
    largest = ledger.largest(nodes)
    if largest < gpus or ledger.has_room(nodes, shape, need):
        unhealthy = ledger.once(
            "unhealthy",
            nodes,
            (gpus,),
            lambda: unhealthy_here(request, fleet, gpu_type, gpus, lambda node: ledger.free[node.account]),
        )
        return Reason.GPUS_TAKEN, (("gpus", gpus), ("free", largest), *unhealthy)
    return ledger.once("besides GPUs", nodes, (gpus, need), lambda: _beside_gpus(need, ledger.hosts_with(nodes, gpus)))


def _beyond_quota(resource: str, asked: int, left: int) -> Numbers:
    units = ((OF_CPU, "_millis"), (OF_MEMORY, "_bytes"), (OF_PODS, "_pods"))
    unit = next((unit for names, unit in units if resource_in(resource) in names), "")
    return ((f"asked{unit}" if unit else "gpus", asked), (f"left{unit}", max(0, left)), ("resource", resource))


def _beside_gpus(need: HostNeed, hosts: Sequence[tuple[GpuNode, HostRoom]]) -> tuple[Reason, Numbers]:
    for resource, asked in need.others:
        rooms = [(node.host.of_other(resource), room.of_other(resource), node.name) for node, room in hosts]
        if _all_short(rooms, asked):
            unit = "_bytes" if is_in_bytes(resource) else ""
            return Reason.NODE_LACKS_RESOURCE, (("resource", resource), *_lacking(rooms, asked, unit))
        # Few nodes may have it. The next shortage is that of these nodes.
        hosts = [each for each, (_, free, _) in zip(hosts, rooms, strict=True) if free is None or free >= asked]
    cpu = [(node.host.cpu_millis, room.cpu_millis, node.name) for node, room in hosts]
    memory = [(node.host.memory_bytes, room.memory_bytes, node.name) for node, room in hosts]
    if all(room.pods is not None and room.pods < 1 for _, room in hosts):
        return Reason.NODE_LACKS_PODS, (("largest", max(node.host.pods or 0 for node, _ in hosts)),)
    if _all_short(memory, need.memory_bytes) and not _all_short(cpu, need.cpu_millis):
        return Reason.NODE_LACKS_MEMORY, _lacking(memory, need.memory_bytes, "_bytes")
    # If nodes lack different resources, CPU is reported for all of them.
    return Reason.NODE_LACKS_CPU, _lacking(cpu, need.cpu_millis, "_millis")


def _all_short(rooms: Rooms, asked: int) -> bool:
    return asked > 0 and all(free is not None and free < asked for _, free, _ in rooms)


def _lacking(rooms: Rooms, asked: int, unit: str) -> Numbers:
    """Return the requested amount, the most that is free on one node, that node, and the most that one node has."""
    free, node = min((-(left or 0), name) for _, left, name in rooms)
    return (
        (f"asked{unit}", asked),
        (f"free{unit}", max(0, -free)),
        (f"largest{unit}", max(size or 0 for size, _, _ in rooms)),
        ("node", node),
    )


def place(
    request: Request,
    fleet: Fleet,
    ledger: Ledger | None = None,
    closed: Collection[tuple[str, Split]] = (),
    memo: Memo | None = None,
) -> Outcome:
    """Place ``request.replicas`` replicas on one GPU type, or as many as there is room for.

    Candidates with fewer doubts come first. Then feasible candidates are ranked by how many of the replicas they take,
    by cost per replica (:attr:`~plimsoll.domain.decisions.outcomes.Option.cost`), fewer GPUs, fewer engines, fewer
    stages, and name. So the same facts always give the same choice. The request's overrides are obeyed, and warnings
    report their consequences. ``closed`` are GPU types and splits whose pods recently found no node: they are judged,
    but not taken. If there is a ``memo``, estimates come from it if it has them.
    """
    return pick(request, options(request, fleet, memo), fleet, ledger or Ledger.of(fleet), closed)


def pick(
    request: Request,
    judged: Options,
    fleet: Fleet,
    ledger: Ledger,
    closed: Collection[tuple[str, Split]] = (),
    wants: Callable[[Option], bool] = lambda _: True,
) -> Outcome:
    """Do the same as :func:`place` with options judged before. A choice that ``wants`` turns down is not taken."""
    fitting: list[tuple[Option, int]] = []
    unwanted: list[tuple[Option, int]] = []
    rejections: list[Rejection] = []
    is_limited = bool(ledger.quota.get(request.key.namespace))
    about = (id(judged), request.sites, request.stated_host, *_quota_basis(request, ledger))
    known: tuple[Options, Unplaceable] | None = ledger.recalled("refused", fleet.nodes, about)
    if known is not None and request.replicas > 0 and not closed:
        return known[1]
    for each in _footprints(request, judged, fleet):
        if isinstance(each, Rejection):
            rejections.append(each)
            continue
        verdict, there = each
        if closed and is_closed(closed, verdict.gpu.name, verdict.split):
            rejections.append(declined(verdict, Reason.LEFT_RECENTLY))
            continue
        room = _room(request, verdict, there, ledger)
        if room == 0 and request.replicas > 0:
            rejections.append(_taken(request, verdict, there, fleet, ledger, is_limited=is_limited))
        else:
            (fitting if wants(verdict) else unwanted).append((verdict, min(room, request.replicas)))
    if not fitting:
        refused = Unplaceable((*(_not_moved_to(choice) for choice, _ in unwanted), *rejections))
        if unwanted or closed:
            return refused
        return ledger.once("refused", fleet.nodes, about, lambda: (judged, refused))[1]  # whatever is wanted
    best, replicas = min(fitting, key=lambda pair: (pair[0].doubts, -pair[1], *rank(pair[0])))
    others = [
        _passed_over(choice, room, best, replicas, fleet)
        for choice, room in (*fitting, *unwanted)
        if choice is not best
    ]
    return Placed(
        choice=best,
        replicas=replicas,
        rejections=(*others, *rejections),
        warnings=warnings_for(request, best),
    )


def alternatives_to(
    kept: Option, request: Request, fleet: Fleet, memo: Memo | None = None, ledger: Ledger | None = None
) -> tuple[Rejection, ...]:
    """Return every other candidate with the reason to keep the running choice.

    With a ledger, a cheaper candidate that has room for all replicas now gets the saving and the cost of the move.
    """
    others: list[Rejection] = []
    for verdict in options(request, fleet, memo).verdicts:
        if isinstance(verdict, Option):
            if (verdict.gpu.name, verdict.split) != (kept.gpu.name, kept.split):
                has_room = ledger is not None and room_of(request, verdict, fleet, ledger) >= request.replicas > 0
                others.append(_not_preferred(verdict, kept, request.replicas if has_room else 0))
        elif (verdict.gpu_type, verdict.split) != (kept.gpu.name, kept.split):
            others.append(verdict)
    return tuple(others)


def declined(choice: Option, reason: Reason, numbers: Numbers = ()) -> Rejection:
    """Return why an option that fits is not taken, with its figures."""
    return Rejection(choice.gpu.name, choice.split, reason, numbers, choice.figures)


def _not_preferred(choice: Option, kept: Option, movable: int) -> Rejection:
    """Return why a candidate is not moved to. ``movable`` is how many replicas could move to it now."""
    if (choice.doubts, rank(choice)) > (kept.doubts, rank(kept)):
        return less_preferred(choice, kept)
    now, there = avoidable_price(kept.gpu, kept.split), avoidable_price(choice.gpu, choice.split)
    if movable and now is not None and there is not None:
        saved = (now - there) * movable
        if saved > 0:
            return _kept_to_avoid_move(choice, saved, move_charge(kept.hourly_price) * movable)
    return _not_moved_to(choice)


def _kept_to_avoid_move(choice: Option, saved: Decimal, charge: Decimal) -> Rejection:
    numbers = (
        ("price", exact_price(choice.hourly_price)),
        ("saved", exact_price(saved)),
        ("charge", exact_price(charge)),
    )
    return declined(choice, Reason.KEPT_TO_AVOID_MOVE, numbers)


def _passed_over(choice: Option, room: int, best: Option, best_room: int, fleet: Fleet) -> Rejection:
    fewer = choice.doubts <= best.doubts and room != best_room
    return _room_for_fewer(choice, room, best_room) if fewer else less_preferred_once(choice, best, fleet)


def less_preferred_once(choice: Option, best: Option, fleet: Fleet) -> Rejection:
    """Do the same as :func:`less_preferred`. All deployments of a pass with the same two options share the reason."""
    about = ("less preferred", id(choice), id(best))
    return fleet.once(about, lambda: (choice, best, less_preferred(choice, best)))[2]


def less_preferred(choice: Option, best: Option) -> Rejection:
    """Return why the best choice comes before another one: that has doubts, costs more, or is slow for its price."""
    if choice.doubts > best.doubts:
        return _doubtful(choice, best)
    prices = tuple(NO_PRICE if each.hourly_price is None else each.hourly_price for each in (choice, best))
    if choice.has_narrow_cache and not best.has_narrow_cache and prices[0] < prices[1]:
        numbers = (("price", exact_price(choice.hourly_price)), ("best_price", exact_price(best.hourly_price)))
        return declined(choice, Reason.NARROW_CACHE_SAVES_LITTLE, numbers)
    if prices[0] < prices[1] and choice.delay_cost > best.delay_cost:
        worth = ("worth", exact_price(choice.delay_cost - best.delay_cost))
        paid = [("paid", "both" if choice.is_paid else "best")] if best.is_paid else []
        return declined(
            choice, Reason.SLOWER_FOR_ITS_PRICE, (*_prices(choice, best), *_speeds(choice, best), worth, *paid)
        )
    return _costs_more(choice, best)


def _doubtful(choice: Option, best: Option) -> Rejection:
    if choice.may_break_promise and not best.may_break_promise and choice.performance is not None:
        return declined(choice, Reason.PROMISE_NOT_SURE, _promise(choice.performance))
    if choice.is_unasked_spot and not best.is_unasked_spot:
        return declined(choice, Reason.SPOT_NOT_ASKED, _prices(choice, best))
    if choice.is_unmeasured and not best.is_unmeasured:
        speeds = (each for each in _speeds(choice, best) if each[0] != "measured")
        numbers = (*_prices(choice, best), *speeds, ("vendor", choice.gpu.vendor.value.upper()))
        return declined(choice, Reason.SPEED_NOT_MEASURED, numbers)
    return _only_probably(choice)


def _promise(found: Performance) -> Numbers:
    """Return the estimated times and those at the upper quarter of their bands, in milliseconds."""
    ttft, tpot = upper_quarter(found)
    return (
        ("ttft", to_milliseconds(found.typical_ttft_seconds)),
        ("ttft_high", to_milliseconds(ttft)),
        ("tpot", to_milliseconds(found.tpot_seconds)),
        ("tpot_high", to_milliseconds(tpot)),
    )


def _prices(choice: Option, best: Option) -> Numbers:
    return ("price", exact_price(choice.hourly_price)), ("best_price", exact_price(best.hourly_price))


def _speeds(choice: Option, best: Option) -> Numbers:
    """Return what else decides: milliseconds a token, dollars for tokens, and what is measured."""
    found, of_best = choice.performance, best.performance
    if found is None or of_best is None:
        return ()
    numbers = [("tpot", to_milliseconds(found.tpot_seconds)), ("best_tpot", to_milliseconds(of_best.tpot_seconds))]
    priced = [("million", per_million(choice)), ("best_million", per_million(best))]
    known = [(name, text) for name, text in priced if text] if all(text for _, text in priced) else []
    only = [("measured", "this" if found.validated else "best")] if found.validated != of_best.validated else []
    return (*numbers, *known, *only)


def per_million(choice: Option) -> str:
    """Return US dollars for a million generated tokens; empty if the price is not known."""
    found, price = choice.performance, choice.hourly_price
    if found is None or price is None or found.output_tokens_per_second <= 0:
        return ""
    return f"{float(price) * 1e6 / (3600 * found.output_tokens_per_second):.2f}"


def _only_probably(choice: Option) -> Rejection:
    figures = choice.estimate
    outside = (
        ("left_bytes", figures.usable_bytes - figures.budget_bytes),
        ("outside_bytes", figures.outside_bytes),
    )
    numbers = (
        ("need_bytes", figures.expected_bytes),
        ("have_bytes", figures.budget_bytes),
        ("sure_bytes", figures.computed_bytes),
        *(outside if figures.computed_bytes <= figures.budget_bytes else ()),
        *(() if figures.is_expected_to_fit else (("least_bytes", figures.least_bytes),)),
    )
    return declined(choice, Reason.FITS_ONLY_PROBABLY, numbers)


def room_of(request: Request, cut: Option | Candidate, fleet: Fleet, ledger: Ledger) -> int:
    """Return how many of the replicas have room with this split, on the type's nodes and in the namespace's quotas."""
    return _room(request, cut, footprint(request, cut, fleet), ledger)


def _room(request: Request, cut: Option | Candidate, there: Footprint, ledger: Ledger) -> int:
    room = ledger.room_for(there.nodes, there.shape, there.need, enough=max(1, request.replicas))
    admitted = quota_room(request, cut, ledger)
    return room if admitted is None else min(room, admitted)


def booked(request: Request, option: Option, replicas: int, fleet: Fleet, ledger: Ledger) -> Ledger:
    """Return the ledger after so many replicas have their GPUs and their part of the quota."""
    nodes = eligible_nodes(request, fleet, option.gpu.name)
    left = ledger.take(nodes, option.split.shape, replicas, host_need(request, option))
    return charged(left, request.key.namespace, use_at(request, option), replicas)


def room_basis(request: Request, ledger: Ledger) -> tuple[object, ...]:
    """Return everything that decides whether a replica has room, except the place and the free resources of nodes.

    The host memory of a replica follows from the model, its precision and the engine, and never from the load. The
    quotas are included, because ledgers that differ in them share answers, and the class of pods, which decides the
    quotas that count them.
    """
    return (
        *(request.model, request.precision, request.engine),
        *(request.sites, request.stated_host, *_quota_basis(request, ledger)),
    )


def _quota_basis(request: Request, ledger: Ledger) -> tuple[object, ...]:
    quota = tuple(ledger.quota.get(request.key.namespace, {}).items())
    own = (request.key, request.least_on_demand) if request.least_on_demand else ()
    return quota, request.priority_class if quota else "", own


def taken(request: Request, choice: Option, fleet: Fleet, ledger: Ledger) -> Rejection:
    """Return why a choice that fits has no room: it lacks quota, GPUs, or other resources of the nodes with GPUs."""
    reason, numbers = shortage(request, choice, fleet, ledger)
    return declined(choice, reason, numbers)


def _taken(
    request: Request, choice: Option, there: Footprint, fleet: Fleet, ledger: Ledger, *, is_limited: bool
) -> Rejection:
    """Do the same as :func:`taken`."""
    if is_limited:
        return taken(request, choice, fleet, ledger)
    return declined(choice, *_shortage_of_nodes(request, choice.gpu.name, there, fleet, ledger))


def _costs_more(choice: Option, best: Option) -> Rejection:
    numbers = (
        *_prices(choice, best),
        ("gpus", choice.split.gpus),
        ("best_gpus", best.split.gpus),
        *_speeds(choice, best),
    )
    return declined(choice, Reason.COSTS_MORE, numbers)


def _room_for_fewer(choice: Option, room: int, best_room: int) -> Rejection:
    price = exact_price(choice.hourly_price)
    numbers = (("price", price), ("room", room), ("best_room", best_room))
    return declined(choice, Reason.ROOM_FOR_FEWER, numbers)


def _not_moved_to(choice: Option) -> Rejection:
    numbers = (("price", exact_price(choice.hourly_price)), ("gpus", choice.split.gpus))
    return declined(choice, Reason.PLACEMENT_KEPT, numbers)


def first_that_fits(request: Request, fleet: Fleet, ledger: Ledger, memo: Memo | None = None) -> Option | None:
    """Return the choice of ``place`` for one replica among the options that fit for sure; None if none does.

    Candidates are judged in the order of their price, until no other one can come first: what options are ranked by
    is their price at least. Candidates that have no room are not judged.
    """
    best: Option | None = None
    for candidate in _with_room_in_order(request, fleet, ledger):
        if best is not None and best.doubts == 0 and preference_at(candidate) > rank(best):
            break
        if memo is None and not _may_fit(request, candidate):
            continue
        verdict = judge(request, candidate, fleet, memo)
        if isinstance(verdict, Rejection) or verdict.estimate.fit_by_figures is not Fit.SURE:
            continue
        if best is None or (verdict.doubts, rank(verdict)) < (best.doubts, rank(best)):
            best = verdict
    return best


def with_room(request: Request, fleet: Fleet, ledger: Ledger) -> tuple[Candidate, ...]:
    """Return the candidates with free GPUs for one replica. They may be too small for the request.

    Requests that ask for the same room at the same candidates share the answer.
    """
    asked = candidates(request, fleet)
    about = (*room_basis(request, ledger), _cuts(request))
    return ledger.once(
        "with room",
        fleet.nodes,
        about,
        lambda: tuple(each for each in asked if room_of(request, each, fleet, ledger) > 0),
    )


def _with_room_in_order(request: Request, fleet: Fleet, ledger: Ledger) -> tuple[Candidate, ...]:
    roomy = with_room(request, fleet, ledger)
    about = (*room_basis(request, ledger), _cuts(request))
    return ledger.once("with room, in order", fleet.nodes, about, lambda: tuple(sorted(roomy, key=preference_at)))


def _cuts(request: Request) -> tuple[object, ...]:
    return splits_for(request), request.constraints.restricts_capacity


def fits_for_sure(request: Request, candidate: Candidate, fleet: Fleet) -> bool:
    """Whether one candidate without a refusal fits for sure. Free GPUs are not checked."""
    if not _may_fit(request, candidate):
        return False
    verdict = judge_load(request, candidate, fleet, shows_speed=False)
    return isinstance(verdict, Option) and verdict.estimate.fit_by_figures is Fit.SURE


def _may_fit(request: Request, candidate: Candidate) -> bool:
    """Whether it is worthwhile to judge the candidate: its weights and cache are not larger than the whole budget."""
    try:
        return may_fit(request, candidate.gpu, candidate.split)
    except (PlimsollError, ValueError):
        return True  # the judgement says what is wrong, or rejects the split before it is estimated
