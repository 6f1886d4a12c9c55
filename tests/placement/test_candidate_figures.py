"""The figures of rejected candidates: the estimate's own for every code, and none where nothing was estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from plimsoll.adapters.highs import fleetwide
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.limit_ranges import LimitRange
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import Fit, Rejection, Split
from plimsoll.domain.engines.engine_choice import CpuOffload
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints, ObservedCapacity, Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.failed_moves import Delay, RollBack, without_failed
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.feasibility import hourly_price, sized
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.places.place import alternatives_to, less_preferred, place
from plimsoll.placement.plan import plan
from tests.support.planning import (
    A100,
    ENGINE,
    H100,
    L4,
    L40S,
    LLAMA_70B,
    LLAMA_70B_FP8,
    MI300X,
    fleet,
    gpu,
    node,
    placed,
    request,
    tenant,
)
from tests.support.tables import every_case

RULED_OUT = frozenset(
    {
        Reason.HEADS_NOT_DIVISIBLE,
        Reason.KV_HEADS_NOT_DIVISIBLE,
        Reason.WIDTH_NOT_DIVISIBLE,
        Reason.QUANT_BLOCK_NOT_DIVISIBLE,
        Reason.TOWER_NOT_DIVISIBLE,
        Reason.STAGES_EXCEED_LAYERS,
        Reason.STAGES_NOT_SUPPORTED,
        Reason.STAGES_CUT_SHARED_LAYERS,
        Reason.EXPERTS_NOT_DIVISIBLE,
        Reason.CONTEXT_RANKS_NOT_DIVISIBLE,
        Reason.DATA_PARALLEL_NEEDS_EXPERTS,
        Reason.DATA_PARALLEL_NOT_SUPPORTED,
        Reason.PRECISION_NOT_SUPPORTED,
        Reason.IMAGE_FOR_OTHER_VENDOR,
        Reason.IMAGE_FOR_OTHER_PLATFORM,
        Reason.VOLUME_ELSEWHERE,
        Reason.VOLUME_IN_USE,
        Reason.NODE_DISK_TOO_SMALL,
        Reason.DRIVER_TOO_OLD,
        Reason.NODE_LEFT,
        Reason.GPU_TYPE_DENIED,
        Reason.CAPACITY_TYPE_DENIED,
        Reason.GPU_TYPE_NOT_FORCED,
        Reason.SPLIT_NOT_FORCED,
        Reason.TOO_MANY_GPUS_PER_REPLICA,
        Reason.NODE_TOO_SMALL,
        Reason.NODES_NOT_SELECTED,
    }
)
"""The codes of candidates that are ruled out before their memory is estimated."""

ONE_H100 = fleet(node("h", H100, 1))
MIXED = fleet(node("h", H100), node("l", L40S), node("l4", L4, 4))
ROOMY = HostRoom(192_000, 2048 * GIB, 110)
BOTH_WAYS = replace(request(context=8192, concurrency=6), may_narrow_cache=True)
OFFLOADED = request(LLAMA_70B_FP8, engine=replace(ENGINE, residency=CpuOffload(20 * GIB)), memory_limit_bytes=40 * GIB)

Scene = tuple[Request, Fleet, Iterable[Rejection]]


def judged(wanted: Request, where: Fleet = ONE_H100) -> Scene:
    return wanted, where, [each for each in options(wanted, where).verdicts if isinstance(each, Rejection)]


def chosen_from(wanted: Request, where: Fleet, *closed: tuple[str, Split]) -> Scene:
    return wanted, where, place(wanted, where, closed=closed).rejections


def short_of(free: HostRoom, **asked: Any) -> Scene:
    there = replace(node("h", H100, 1), host=ROOMY, host_free=free)
    return chosen_from(request(**asked), fleet(there))


def kept(where: Fleet) -> Scene:
    running = placed(request(constraints=GpuConstraints(allow=(H100,))), where).choice
    return request(), where, alternatives_to(running, request(), where, ledger=Ledger.of(where))


def failed() -> Scene:
    left = RollBack(H100, Split(1), Delay("EngineCrashed"))
    found = without_failed(options(request(), ONE_H100), (left,), "vllm")
    return request(), ONE_H100, [each for each in found.verdicts if isinstance(each, Rejection)]


def probable() -> Scene:
    best = placed(request(), ONE_H100).choice
    doubtful = replace(best, estimate=replace(best.estimate, margin_bytes=80 * GIB))
    return request(), ONE_H100, [less_preferred(doubtful, best)]


def beyond_quota() -> Scene:
    (decision,) = plan([tenant(request())], ONE_H100, quotas={"default": {"nvidia.com/gpu": 0}})
    return request(), ONE_H100, decision.rejections


def too_many_on_spot() -> Scene:
    both = GpuConstraints(capacities=(CapacityType.ON_DEMAND, CapacityType.SPOT))
    wanted = request(constraints=both, least_on_demand=1)
    where = fleet(replace(node("s", H100, 1), gpu=spot_type(gpu(H100))))
    (decision,) = plan([tenant(wanted)], where)
    return wanted, where, decision.rejections


def scarce() -> Scene:
    def priced(kind: str, gpus: int, price: str) -> GpuNode:
        return node(kind, gpu(kind, price=price), gpus)

    where = fleet(priced(L40S, 1, "1"), priced(H100, 8, "6"), priced(A100, 1, "2"))
    either = request(name="either", created="1")
    picky = request(name="picky", created="2", constraints=GpuConstraints(deny=(A100,)))
    decisions = plan([tenant(either), tenant(picky)], where, solver=fleetwide())
    return either, where, decisions[0].rejections


SCENES: dict[Reason, Callable[[], Scene]] = {
    Reason.TOO_LITTLE_VRAM: lambda: judged(request(LLAMA_70B)),
    Reason.KV_CACHE_TOO_SMALL: lambda: judged(request(context=131_072)),
    Reason.TOO_FEW_STATES: lambda: judged(
        request("Qwen/Qwen3.5-27B", concurrency=1, engine=replace(ENGINE, max_sequences=4096))
    ),
    Reason.OBSERVED_TOO_SMALL: lambda: judged(request(observed=(ObservedCapacity(H100, Split(1), 1000),))),
    Reason.START_FAILED: lambda: judged(replace(request(), failed_starts=((H100, Split(1)),))),
    Reason.TOO_EXPENSIVE: lambda: judged(request(constraints=GpuConstraints(max_hourly_price=Decimal(1)))),
    Reason.PRICE_UNKNOWN: lambda: judged(
        request(constraints=GpuConstraints(max_hourly_price=Decimal(1))), fleet(node("h", gpu(H100, price=None), 1))
    ),
    Reason.TOO_SLOW: lambda: judged(request(slo=Slo(tpot_seconds=0.001))),
    Reason.HOST_MEMORY_TOO_SMALL: lambda: judged(OFFLOADED, fleet(node("h", H100))),
    Reason.LIMIT_RANGE_EXCEEDED: lambda: judged(request(limit_ranges=(LimitRange("tight", limits=(("cpu", 500),)),))),
    Reason.GPUS_TAKEN: lambda: chosen_from(request(), fleet(node("h", H100, 1, held=1))),
    Reason.COSTS_MORE: lambda: chosen_from(request(), MIXED),
    Reason.NARROW_CACHE_SAVES_LITTLE: lambda: chosen_from(
        BOTH_WAYS, fleet(node("a", gpu(L4, price="0.95"), 1), node("b", gpu(L40S, price="1.00"), 4))
    ),
    Reason.ROOM_FOR_FEWER: lambda: chosen_from(request(replicas=3), fleet(node("l", L40S, 1), node("h", H100, 4))),
    Reason.PROMISE_NOT_SURE: lambda: chosen_from(
        request(LLAMA_70B_FP8, context=8192, slo=Slo(ttft_seconds=0.55)), fleet(node("h", H100, 2), node("a", A100, 4))
    ),
    Reason.SPEED_NOT_MEASURED: lambda: chosen_from(request(), fleet(node("h", H100, 1), node("m", MI300X, 1))),
    Reason.SPOT_NOT_ASKED: lambda: chosen_from(
        request(), fleet(node("h", H100, 1), replace(node("s", H100, 1), gpu=spot_type(gpu(H100))))
    ),
    Reason.TOO_MANY_ON_SPOT: too_many_on_spot,
    Reason.SLOWER_FOR_ITS_PRICE: lambda: chosen_from(
        request(LLAMA_70B_FP8, context=8192, concurrency=16), fleet(node("h", H100, 2), node("l4", L4))
    ),
    Reason.FITS_ONLY_PROBABLY: probable,
    Reason.SCARCE_FOR_OTHERS: scarce,
    Reason.PLACEMENT_KEPT: lambda: kept(fleet(node("h", H100, 1), node("l", L40S, 1, held=1))),
    Reason.KEPT_TO_AVOID_MOVE: lambda: kept(fleet(node("h", H100, 1), node("l", L40S, 1))),
    Reason.QUOTA_EXCEEDED: beyond_quota,
    Reason.NODE_LACKS_CPU: lambda: short_of(HostRoom(1500, 999 * GIB, 99)),
    Reason.NODE_LACKS_MEMORY: lambda: short_of(HostRoom(64_000, 2 * GIB, 99)),
    Reason.NODE_LACKS_PODS: lambda: short_of(HostRoom(64_000, 999 * GIB, 0)),
    Reason.NODE_LACKS_RESOURCE: lambda: short_of(ROOMY._replace(others=()), other_resources=(("rdma/ib", 1),)),
    Reason.LEFT_RECENTLY: lambda: chosen_from(request(), ONE_H100, (H100, Split(1))),
    Reason.MOVE_FAILED: failed,
}
"""For every code of a candidate whose memory is estimated: a request, a fleet, and rejections with that code."""


def test_every_code_has_figures_or_is_known_to_have_none() -> None:
    assert RULED_OUT.isdisjoint(SCENES)
    assert RULED_OUT | set(SCENES) == set(Reason)


@every_case("reason", SCENES, ids=[each.value for each in SCENES])
def test_a_rejection_has_the_estimate_and_the_price_that_it_was_judged_by(reason: Reason) -> None:
    wanted, where, rejections = SCENES[reason]()
    found = [each for each in rejections if each.reason is reason]
    assert found
    for each in found:
        kind = where.named(each.gpu_type)
        assert kind is not None
        assert each.figures is not None
        narrow = reason is Reason.NARROW_CACHE_SAVES_LITTLE
        _, estimate = sized(wanted.with_narrow_cache() if narrow else wanted, kind, each.split)
        if reason is Reason.FITS_ONLY_PROBABLY:
            estimate = replace(estimate, margin_bytes=80 * GIB)
            assert each.figures.estimate.fit is Fit.PROBABLE
        assert each.figures.estimate == estimate
        assert each.figures.estimate.expected_bytes == estimate.expected_bytes
        assert (each.figures.hourly_price, each.figures.price_source) == (
            hourly_price(kind, each.split),
            kind.price_source,
        )


@every_case("price", [None, "3.5", "0.10"])
def test_equal_prices_have_the_same_figures_however_they_are_written(price: str | None) -> None:
    """What was found with one of them is used again with the other."""
    where = fleet(node("h", gpu(H100, price=price), 1))
    found = [
        judged(request(constraints=GpuConstraints(max_hourly_price=Decimal(limit))), where)
        for limit in ("0.01", "0.0100")
    ]
    assert found[0] == found[1]


def test_what_is_ruled_out_has_no_figures_and_its_neighbours_have_them() -> None:
    for wanted in (
        request(),
        request(overrides=Overrides(gpu_type=L4)),
        request(LLAMA_70B),
        request("microsoft/phi-4"),
    ):
        _, _, rejections = chosen_from(wanted, MIXED)
        assert {each.reason in RULED_OUT for each in rejections} == {True, False}
        for each in rejections:
            assert (each.figures is None) is (each.reason in RULED_OUT), each.reason


def test_the_figures_of_a_forced_memory_are_the_laws_and_the_admins() -> None:
    wanted = request(overrides=Overrides(memory_per_gpu_bytes=200 * GIB))
    refused = next(each for each in judged(wanted)[2] if each.reason is Reason.TOO_LITTLE_VRAM)
    assert refused.figures is not None
    estimate = refused.figures.estimate
    assert estimate.forced_bytes == 200 * GIB
    assert estimate.weights_bytes < estimate.expected_bytes < estimate.budget_bytes
