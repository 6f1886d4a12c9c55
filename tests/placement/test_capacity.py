"""How many more replicas fit: as many as the planner places one after the other, and what the next one lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.cli.plans.capacity import next_sentence, total_sentence
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request, TotalLoad
from plimsoll.placement.ledger import Ledger, Quotas
from plimsoll.placement.places.capacity import Capacity, capacity
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers.greedy import solve_greedily
from tests.support.planning import H100, L4, L40S, LLAMA_70B, LLAMA_70B_FP8, T4, fleet, node, request, tenant
from tests.support.tables import every_case

RESOURCE = "nvidia.com/gpu"
MIXED = fleet(node("h", H100, 8, held=3), node("l", L40S, 4, held=1), node("s1", L4, 1), node("s2", L4, 2, held=1))


def of(wanted: Request, where: Fleet, quotas: Quotas | None = None) -> Capacity:
    return capacity(wanted, where, Ledger.of(where, quotas))


def placed_one_by_one(wanted: Request, where: Fleet, quotas: Quotas | None = None) -> int:
    """How many single replicas the planner places, each an object for itself."""
    each = [
        tenant(replace(wanted, key=ObjectKey("default", f"r{index:02d}"), created=f"{index:02d}"))
        for index in range(40)
    ]
    return sum(decision.missing == 0 for decision in plan(each, where, quotas=quotas, solver=solve_greedily))


@every_case("model", [LLAMA_70B, LLAMA_70B_FP8, "Qwen/Qwen2.5-7B-Instruct"])
@every_case("quotas", [None, {"default": {RESOURCE: 5}}], ids=["no quota", "quota of 5"])
def test_the_total_is_what_the_planner_places_one_after_the_other(model: str, quotas: Quotas | None) -> None:
    wanted = request(model, context=4096, concurrency=4)
    assert of(wanted, MIXED, quotas).total == placed_one_by_one(wanted, MIXED, quotas) > 0


def test_the_rooms_add_up_with_their_prices_and_the_cheapest_comes_first() -> None:
    found = of(request(), fleet(node("l", L40S, 4, held=1), node("h", H100, 2)))
    cheap, dear = found.rooms[0], next(room for room in found.rooms if room.option.gpu.name == H100)
    assert (cheap.option.gpu.name, cheap.option.split, cheap.alone, cheap.share) == (L40S, Split(1), 3, 3)
    assert (dear.alone, dear.share) == (2, 2)
    assert cheap.option.hourly_price is not None
    assert dear.option.hourly_price is not None
    assert found.hourly_price == 3 * cheap.option.hourly_price + 2 * dear.option.hourly_price
    assert total_sentence(found).startswith("5 more replicas fit: 3 on l40s-48gb x 1 for $")
    assert found.next_blocked is not None
    assert found.next_blocked.reason is Reason.GPUS_TAKEN


def test_gpus_that_are_taken_are_named_with_figures() -> None:
    found = of(request(LLAMA_70B_FP8), fleet(node("h", H100, 2, held=2)))
    assert (found.total, total_sentence(found)) == (0, "No more replica fits.")
    assert next_sentence(found) == (
        "The next one has no place: h100-sxm-80gb x 2 fits, but takes 2 GPUs on one node and at most 0 are free."
    )


def test_a_quota_blocks_its_own_namespace_and_no_other() -> None:
    where = fleet(node("h", H100, 8))
    quotas = {"default": {RESOURCE: 2}}
    found = of(request(), where, quotas)
    assert found.total == 2
    assert "the namespace's ResourceQuota leaves 0 of nvidia.com/gpu" in next_sentence(found)
    other = replace(request(), key=ObjectKey("other", "llama"))
    assert of(other, where, quotas).total == 8


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (HostRoom(cpu_millis=9000, memory_bytes=2**40, pods=110), Reason.NODE_LACKS_CPU),
        (HostRoom(cpu_millis=10**6, memory_bytes=3 * 2**34, pods=110), Reason.NODE_LACKS_MEMORY),
        (HostRoom(cpu_millis=10**6, memory_bytes=2**42, pods=1), Reason.NODE_LACKS_PODS),
    ],
)
def test_cpu_memory_and_pods_of_a_node_block_before_its_gpus_do(host: HostRoom, reason: Reason) -> None:
    short = replace(node("l", L40S, 8), host=host, host_free=host)
    found = of(request(), fleet(short))
    assert 0 < found.total < 8
    assert found.next_blocked is not None
    assert found.next_blocked.reason is reason
    assert of(request(), fleet(node("l", L40S, 8))).total == 8


def test_where_no_gpu_is_large_enough_the_nearest_shortfall_is_named() -> None:
    found = of(request(LLAMA_70B), fleet(node("t", T4, 1)))
    assert (found.total, found.rooms, found.next_blocked) == (0, (), None)
    assert next_sentence(found).startswith("No place takes one: t4-16gb x ")
    assert "no GPUs that can be used" in next_sentence(of(request(), Fleet()))


def test_a_place_that_pods_left_recently_takes_none_and_the_others_do() -> None:
    where = fleet(node("l", L40S, 2), node("h", H100, 2))
    found = capacity(request(), where, Ledger.of(where), [(L40S, Split(1))])
    assert {room.option.gpu.name for room in found.rooms} == {H100}
    assert any(each.reason is Reason.LEFT_RECENTLY for each in found.rejections)
    assert found.total == 2


def test_without_the_requests_of_one_replica_the_field_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"spec\.totalConcurrency.*spec\.concurrency"):
        of(replace(request(), total=TotalLoad(64)), MIXED)
