"""Judge one candidate: return a choice with its estimate, or a rejection with its numbers.

The checks run in the order that is most useful to the reader: the user's own rules, the hardware's capabilities, the
split, the memory, the price, and the speed. This module does not look at free GPUs.

The placements where an engine reported less KV cache than the load needs there.
"""

from __future__ import annotations

from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType, GpuType
from plimsoll.domain.cluster.host import HostEstimate
from plimsoll.domain.cluster.spot import capacity_of, card_name
from plimsoll.domain.decisions.latency import UNMEASURED, Performance
from plimsoll.domain.decisions.outcomes import (
    CandidateFigures,
    EngineSettings,
    Fit,
    MemoryEstimate,
    Option,
    Rejection,
    Split,
)
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.requests.serving import ObservedCapacity, Request
from plimsoll.domain.units import exact_price
from plimsoll.engines.registry import engine_of
from plimsoll.memory.sharing import with_sharing
from plimsoll.performance.slo import keeps_surely
from plimsoll.performance.worth import delay_cost, interruption_charge, parts_charge
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import Candidate, candidates
from plimsoll.placement.options.divisibility import replica_refusal
from plimsoll.placement.options.nodes import (
    admission_refusal,
    host_of,
    host_refusal,
    most_gpus,
    ruled_out,
    unhealthy_here,
)
from plimsoll.placement.options.spare_host import with_spare
from plimsoll.placement.options.speed import asks_for, asks_for_spot, missed, misses_usual, speed_of


def too_small(request: Request, fleet: Fleet, memo: Memo | None = None) -> tuple[ObservedCapacity, ...]:
    """Return the observed placements of a request that hold less than it needs, sorted.

    The need depends on the GPU type if the engine pools, because its step does. A placement that cannot be judged
    any more counts, because nothing shows that it holds enough: its type has left the fleet, or has no memory law now.
    """
    found = (seen for seen in request.observed if _is_too_small(request, seen, fleet, memo))
    return tuple(sorted(found, key=lambda seen: (seen.gpu_type, seen.split)))


def _is_too_small(request: Request, seen: ObservedCapacity, fleet: Fleet, memo: Memo | None) -> bool:
    gpu = fleet.named(seen.gpu_type)
    if gpu is None:
        return True
    try:
        _, figures = sized(request, gpu, seen.split, memo)
    except PlimsollError:
        return True
    return seen.kv_tokens < figures.kv_needed_tokens


_ABOUT_CACHE = (Reason.TOO_LITTLE_VRAM, Reason.KV_CACHE_TOO_SMALL, Reason.OBSERVED_TOO_SMALL, Reason.TOO_SLOW)
"""Reasons that a smaller KV cache can remove."""


def judge(request: Request, candidate: Candidate, fleet: Fleet, memo: Memo | None = None) -> Option | Rejection:
    """Judge one candidate against the request and the fleet's nodes. GPUs in use count like free ones.

    If there is a ``memo``, estimates come from it if it has them. If the user permits an fp8 KV cache, it is
    judged in place of a 16-bit one that does not fit, or that brings more doubts.
    """
    return refusal(request, candidate, fleet) or judge_load(request, candidate, fleet, memo)


def judge_all(request: Request, fleet: Fleet, memo: Memo | None = None) -> tuple[Option | Rejection, ...]:
    """Judge every candidate. Requests that differ only in their load share the refusals that no load changes."""
    found = candidates(request, fleet)
    # Everything that a refusal reads. The candidates follow from their splits, from the constraints and from the fleet.
    about = (
        *(request.model, request.precision, request.kv_precision, request.engine),
        *(request.constraints, request.overrides, request.sites),
        tuple(each.split for each in found),
    )
    refusals = fleet.once(("refusals", *about), lambda: [refusal(request, each, fleet) for each in found])
    return tuple(
        refused or judge_load(request, candidate, fleet, memo)
        for candidate, refused in zip(found, refusals, strict=True)
    )


def judge_load(
    request: Request, candidate: Candidate, fleet: Fleet, memo: Memo | None = None, *, shows_speed: bool = True
) -> Option | Rejection:
    """Judge a candidate without a :func:`refusal`, with the cache that the request asks for or with a narrower one.

    Without ``shows_speed``, an option has no speed if nothing but its reader asks for it. A cache in host memory whose
    size is open gets one here, and none if that is all that is refused.
    """
    if request.engine.host.takes_spare:
        sized_one = with_spare(request, candidate.gpu, candidate.split, fleet)
        found = judge_load(sized_one, candidate, fleet, memo, shows_speed=shows_speed)
        if isinstance(found, Option) or not sized_one.engine.host.kv_bytes:
            return found
        return judge_load(request.with_host_cache(0), candidate, fleet, memo, shows_speed=shows_speed)
    wide = _by_figures(request, candidate, memo, shows_speed=shows_speed)
    if not request.may_narrow_cache or not _may_gain(wide):
        return wide
    narrower = request.with_narrow_cache()
    narrow = refusal(narrower, candidate, fleet) or _by_figures(narrower, candidate, memo, shows_speed=shows_speed)
    if isinstance(narrow, Rejection) or (isinstance(wide, Option) and wide.doubts <= narrow.doubts):
        return wide
    return narrow


def _may_gain(wide: Option | Rejection) -> bool:
    """Whether a smaller KV cache can change a verdict for the better."""
    return wide.doubts > 0 if isinstance(wide, Option) else wide.reason in _ABOUT_CACHE


def refusal(request: Request, candidate: Candidate, fleet: Fleet) -> Rejection | None:
    """Return why the candidate is ruled out for any load; None if the figures decide."""
    return (
        wishes_refusal(request, candidate.gpu, candidate.target.split)
        or _against_hardware(request, candidate)
        or replica_refusal(request, candidate.gpu.name, candidate.target.split)
        or _against_nodes(request, candidate, fleet)
    )


def may_fit(request: Request, gpu: GpuType, split: Split) -> bool:
    """Whether the request may fit, with the usual or a smaller step. False is certain, and quick to find."""
    request = request.with_narrow_cache() if request.may_narrow_cache else request
    if request.shape.shared_tokens:
        return True
    return engine_of(request.engine.name).may_fit(request, gpu, split)


def _by_figures(request: Request, candidate: Candidate, memo: Memo | None, *, shows_speed: bool) -> Option | Rejection:
    """Check the last points: whether the candidate fits, and whether price, speed and host memory are allowed."""
    settings, figures = sized(request, candidate.gpu, candidate.target.split, memo)
    forced = request.overrides.memory_per_gpu_bytes is not None
    if (card_name(candidate.gpu.name), candidate.target.split) in request.failed_starts and not forced:
        return _judged(candidate, figures, Reason.START_FAILED)
    observed = _observed_tokens(request, candidate)
    if observed is not None and observed < figures.kv_needed_tokens:
        tokens = (("need_tokens", figures.kv_needed_tokens), ("have_tokens", observed))
        return _judged(candidate, figures, Reason.OBSERVED_TOO_SMALL, tokens)
    if figures.fit is Fit.NO:
        return _judged(candidate, figures, *memory_reason(figures))
    price = hourly_price(candidate.gpu, candidate.target.split)
    limit = request.constraints.max_hourly_price
    if limit is not None and price is None:
        return _judged(candidate, figures, Reason.PRICE_UNKNOWN, (("limit", exact_price(limit)),))
    if limit is not None and price is not None and price > limit:
        prices = (("price", exact_price(price)), ("limit", exact_price(limit)))
        return _judged(candidate, figures, Reason.TOO_EXPENSIVE, prices)
    found = _speed(request, candidate, settings, memo) if shows_speed or request.slo is not None else None
    miss = () if request.slo is None else missed(request.slo, found)
    if miss:
        return _judged(candidate, figures, Reason.TOO_SLOW, miss)
    host = _host(request, candidate, memo)
    too_small = host_refusal(request, host)
    if too_small:
        return _judged(candidate, figures, Reason.HOST_MEMORY_TOO_SMALL, too_small)
    bounds = admission_refusal(request, candidate.target, host)
    if bounds:
        return _judged(candidate, figures, Reason.LIMIT_RANGE_EXCEEDED, bounds)
    return Option(
        gpu=candidate.gpu,
        target=candidate.target,
        settings=settings,
        estimate=figures,
        hourly_price=price,
        performance=found,
        delay_cost=delay_cost(request.objective, request.shape.concurrency, found, request.slo),
        charges=_charges(request, candidate, price),
        is_slow=misses_usual(request, found),
        may_break_promise=found is not None and request.slo is not None and not keeps_surely(request.slo, found),
        is_unmeasured=(found is None or found.trust == UNMEASURED) and not asks_for(request, candidate.gpu),
        is_unasked_spot=candidate.gpu.capacity is CapacityType.SPOT and not asks_for_spot(request),
        host=host,
        has_narrow_cache=request.has_narrow_cache,
    )


def _host(request: Request, candidate: Candidate, memo: Memo | None) -> HostEstimate:
    if memo is None:
        return host_of(request, candidate.gpu, candidate.target.split)
    question = ("host", candidate.gpu.name, candidate.target.split)
    return memo.recall(
        request, question, candidate.gpu, lambda: host_of(request, candidate.gpu, candidate.target.split)
    )


def _speed(request: Request, candidate: Candidate, settings: EngineSettings, memo: Memo | None) -> Performance | None:
    if memo is None:
        return speed_of(request, candidate.gpu, candidate.target.split, settings)
    question = ("speed", candidate.gpu.name, candidate.target.split, settings.limits.step_tokens)
    return memo.recall(
        request, question, candidate.gpu, lambda: speed_of(request, candidate.gpu, candidate.target.split, settings)
    )


def sized(
    request: Request, gpu: GpuType, split: Split, memo: Memo | None = None
) -> tuple[EngineSettings, MemoryEstimate]:
    """Return the usual settings and their estimate, or settings with a smaller step if these do not fit for sure.

    The smaller step is not tried if the weights alone are larger than the budget, because it cannot help there.
    """
    if memo is None:
        return _sized(request, gpu, split)
    return memo.recall(request, (gpu.name, split), gpu, lambda: _sized(request, gpu, split))


def _sized(request: Request, gpu: GpuType, split: Split) -> tuple[EngineSettings, MemoryEstimate]:
    engine = engine_of(request.engine.name)
    estimate = estimated if request.shape.shared_tokens else engine.estimate
    usual = engine.settings(request, gpu, split)
    figures = estimate(request, gpu, split, usual)
    if figures.fit_by_figures is Fit.SURE or figures.weights_bytes > figures.budget_bytes:
        return usual, figures
    lean = engine.lean_settings(request, gpu, split, usual)
    return (usual, figures) if lean is usual or lean == usual else (lean, estimate(request, gpu, split, lean))


def estimated(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
    """Return the estimate of the engine's law, with the prefix that requests share."""
    figures = engine_of(request.engine.name).estimate(request, gpu, split, settings)
    return with_sharing(figures, request, split)


def _charges(request: Request, candidate: Candidate, price: Decimal | None) -> Decimal:
    charge = parts_charge(request.objective, candidate.target.split, price)
    if candidate.gpu.capacity is not CapacityType.SPOT:
        return charge
    return charge + interruption_charge(request.objective, request.shape.concurrency, price)


def hourly_price(gpu: GpuType, split: Split) -> Decimal | None:
    """Return US dollars an hour for one replica; None if the type has no price."""
    price = gpu.price_in_force
    return None if price is None else price.usd_per_hour * split.gpus


def avoidable_price(gpu: GpuType, split: Split) -> Decimal | None:
    """Return the US dollars an hour that end when a replica leaves its nodes; None if the type has no price."""
    price = hourly_price(gpu, split)
    return price if price is None or gpu.billing.ends_with_use else Decimal(0)


def _rejection(candidate: Candidate, reason: Reason, numbers: Numbers = ()) -> Rejection:
    return Rejection(candidate.gpu.name, candidate.target.split, reason, numbers)


def _judged(candidate: Candidate, estimate: MemoryEstimate, reason: Reason, numbers: Numbers = ()) -> Rejection:
    gpu, split = candidate.gpu, candidate.target.split
    figures = CandidateFigures(estimate, hourly_price(gpu, split), gpu.price_source)
    return Rejection(gpu.name, split, reason, numbers, figures)


def wishes_refusal(request: Request, gpu: GpuType, split: Split) -> Rejection | None:
    """Return how ``spec.overrides`` or ``spec.gpu`` rules the place out, without prices; None if they allow it."""
    overrides, constraints, gpu_type = request.overrides, request.constraints, gpu.name
    card = card_name(gpu_type)
    if overrides.gpu_type is not None and card != overrides.gpu_type:
        return Rejection(gpu_type, split, Reason.GPU_TYPE_NOT_FORCED, (("forced", overrides.gpu_type),))
    forced = overrides.tensor_parallel
    if forced is not None and split._replace(expert_parallel=False) != Split(forced):
        return Rejection(gpu_type, split, Reason.SPLIT_NOT_FORCED, (("forced", forced),))
    if constraints.vendors and gpu.vendor not in constraints.vendors:
        return Rejection(gpu_type, split, Reason.GPU_TYPE_DENIED, (("field", "spec.gpu.vendors"),))
    if card in constraints.deny:
        return Rejection(gpu_type, split, Reason.GPU_TYPE_DENIED, (("field", "spec.gpu.deny"),))
    if constraints.allow and card not in constraints.allow:
        return Rejection(gpu_type, split, Reason.GPU_TYPE_DENIED, (("field", "spec.gpu.allow"),))
    capacity = capacity_of(gpu_type)
    if constraints.capacities and capacity not in constraints.capacities:
        return Rejection(gpu_type, split, Reason.CAPACITY_TYPE_DENIED, (("capacity", capacity.value),))
    limit = constraints.max_per_replica
    if limit is not None and split.gpus > limit:
        return Rejection(gpu_type, split, Reason.TOO_MANY_GPUS_PER_REPLICA, (("gpus", split.gpus), ("limit", limit)))
    return None


def _against_hardware(request: Request, candidate: Candidate) -> Rejection | None:
    missing = engine_of(request.engine.name).missing_capability(request, candidate.gpu)
    if missing:
        return _rejection(candidate, Reason.PRECISION_NOT_SUPPORTED, missing)
    made_for = request.engine.image_vendor
    if made_for is not None and made_for is not candidate.gpu.vendor:
        numbers = (("image_vendor", made_for.value), ("gpu_vendor", candidate.gpu.vendor.value))
        return _rejection(candidate, Reason.IMAGE_FOR_OTHER_VENDOR, numbers)
    return None


def _against_nodes(request: Request, candidate: Candidate, fleet: Fleet) -> Rejection | None:
    largest = most_gpus(request, fleet, candidate.gpu.name)
    if largest is None:
        return _rejection(candidate, *ruled_out(request, fleet, candidate.gpu.name))
    gpus = candidate.target.split.shape.gpus_per_pod
    if largest < gpus:
        unhealthy = unhealthy_here(request, fleet, candidate.gpu.name, gpus, lambda node: node.allocatable)
        return _rejection(candidate, Reason.NODE_TOO_SMALL, (("gpus", gpus), ("largest", largest), *unhealthy))
    return None


def memory_reason(figures: MemoryEstimate) -> tuple[Reason, Numbers]:
    """Return the reason: no room for any KV cache, too small a KV cache, or too few blocks for recurrent states."""
    if figures.fit_of_bytes is not Fit.NO:
        sequences = (("sequences", figures.sequences), ("states", figures.max_sequences or 0))
        return Reason.TOO_FEW_STATES, sequences
    numbers = (("need_bytes", figures.needed_bytes), ("have_bytes", figures.budget_bytes))
    if figures.forced_bytes is not None or figures.kv_capacity_tokens == 0:
        return Reason.TOO_LITTLE_VRAM, numbers
    tokens = (("need_tokens", figures.kv_needed_tokens), ("have_tokens", figures.kv_capacity_tokens))
    return Reason.KV_CACHE_TOO_SMALL, (*numbers, *tokens)


def _observed_tokens(request: Request, candidate: Candidate) -> int | None:
    """Return the smallest KV cache that running engines reported there; None if an admin forces the memory.

    A reported figure takes precedence over the memory law.
    """
    if request.overrides.memory_per_gpu_bytes is not None:
        return None
    kind = (candidate.gpu.name, candidate.target.split)
    known = (seen.kv_tokens for seen in request.observed if (seen.gpu_type, seen.split) == kind)
    return min(known, default=None)
