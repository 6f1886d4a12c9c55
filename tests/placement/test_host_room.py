"""CPU, memory and pod slots of GPU nodes: no engine is promised to a node that has none left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.adapters.highs import fleetwide
from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.host import UNKNOWN_HOST, HostNeed, HostRoom
from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.engines.engine_choice import CpuOffload, HostUse
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.demand import demand_of
from plimsoll.placement.explain import remedy_sentence
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import DEFAULT_SOLVER
from plimsoll.placement.solvers.problem import pose
from plimsoll.status.conditions import conditions
from plimsoll.status.record.report import Report
from tests.support.planning import (
    ENGINE,
    H100,
    L4,
    L40S,
    LLAMA_70B_FP8,
    MI300X,
    fleet,
    gpu,
    node,
    pool,
    request,
    tenant,
)

HALF = "h100-sxm-80gb-mig-3g.40gb"
LARGE = HostRoom(192_000, 2048 * GIB, 110)


def hosted(each: GpuNode, free: HostRoom, host: HostRoom = LARGE) -> GpuNode:
    return replace(each, host=host, host_free=free)


def test_a_node_takes_as_many_replicas_as_its_host_has_room_for() -> None:
    where = fleet(hosted(node("h", H100, 8), HostRoom(5000, 999 * GIB, 99)))
    (decision,) = plan([tenant(request(replicas=4))], where)
    assert ([each.replicas for each in decision.pools], decision.missing) == ([2], 2)


def test_a_node_that_does_not_say_is_not_limited() -> None:
    where = fleet(hosted(node("h", H100, 8), UNKNOWN_HOST, UNKNOWN_HOST))
    (decision,) = plan([tenant(request(replicas=8, cpu_millis=10**9))], where)
    assert decision.missing == 0


@pytest.mark.parametrize(
    ("free", "reason", "numbers"),
    [
        (
            HostRoom(1500, 999 * GIB, 99),
            Reason.NODE_LACKS_CPU,
            {"asked_millis": 2000, "free_millis": 1500, "largest_millis": 192_000, "node": "h"},
        ),
        (
            HostRoom(64_000, 2 * GIB, 99),
            Reason.NODE_LACKS_MEMORY,
            {"asked_bytes": 8 * GIB, "free_bytes": 2 * GIB, "largest_bytes": 2048 * GIB, "node": "h"},
        ),
        (HostRoom(64_000, 999 * GIB, 0), Reason.NODE_LACKS_PODS, {"largest": 110}),
        (
            HostRoom(-500, 999 * GIB, 99),
            Reason.NODE_LACKS_CPU,
            {"asked_millis": 2000, "free_millis": 0, "largest_millis": 192_000, "node": "h"},
        ),
    ],
)
def test_what_is_short_beside_gpus_is_named_with_its_figures(
    free: HostRoom, reason: Reason, numbers: dict[str, int]
) -> None:
    (decision,) = plan([tenant(request())], fleet(hosted(node("h", H100, 8), free)))
    assert decision.missing == 1
    rejection = next(each for each in decision.rejections if each.split.gpus == 1)
    assert (rejection.reason, dict(rejection.numbers)) == (reason, numbers)
    said = conditions(Report("x", 1, 1, decision=decision), {}, "2026-01-01T00:00:00Z")
    assert {each["type"]: each["reason"] for each in said}["Ready"] == "WaitingForNodeResources"
    assert "Stalled" not in {each["type"] for each in said}


def test_another_type_with_room_is_taken_and_the_neighbour_is_placed_as_usual() -> None:
    where = fleet(hosted(node("l", L40S, 4), HostRoom(1000, 999 * GIB, 99)), hosted(node("h", H100, 8), LARGE))
    greedy = tenant(request(name="a", created="1", cpu_millis=900_000))
    first, second = plan([greedy, tenant(request(name="b", created="2"))], where)
    assert (first.missing, first.pools) == (1, ())
    assert [each.gpu_type for each in second.pools] == [H100]


def test_smaller_requests_are_proposed_where_they_would_do() -> None:
    where = fleet(hosted(node("h", H100, 8), HostRoom(1500, 999 * GIB, 99)))
    (decision,) = plan([tenant(request())], where)
    assert decision.remedies[0].kind is RemedyKind.LOWER_REQUESTS
    assert dict(decision.remedies[0].numbers)["cpu_millis"] == 1500
    assert RemedyKind.FREE_GPUS not in {remedy.kind for remedy in decision.remedies}


def test_whole_gpus_and_slices_of_one_node_share_its_host() -> None:
    free = HostRoom(5000, 999 * GIB, 99)
    whole = hosted(node("n", H100, 2), free)
    halves = hosted(replace(node("n", HALF, 4), resource="nvidia.com/mig-3g.40gb"), free)
    need = HostNeed(2000, 8 * GIB)
    ledger = Ledger.of(fleet(whole, halves))
    assert (ledger.room_for((whole,), Split(1).shape, need), ledger.room_for((halves,), Split(1).shape, need)) == (2, 2)
    after = ledger.take((halves,), Split(1).shape, 1, need)
    assert (after.room_for((whole,), Split(1).shape, need), after.room_for((halves,), Split(1).shape, need)) == (1, 1)
    assert (after.room_for((whole,), Split(1).shape), after.largest((whole,))) == (2, 2)
    with pytest.raises(ValueError, match="over-committed"):
        after.take((whole,), Split(1).shape, 2, need)


def test_an_update_starts_first_only_where_the_host_has_room_for_one_more() -> None:
    roomy, tight = HostRoom(4000, 999 * GIB, 99), HostRoom(3999, 999 * GIB, 99)
    for free, surge in ((roomy, True), (tight, False)):
        (decision,) = plan([tenant(request())], fleet(hosted(node("h", H100, 8), free)))
        assert decision.pools[0].surge is surge


def on(kind: str, degree: int) -> Overrides:
    return Overrides(gpu_type=kind, tensor_parallel=degree)


def offloaded(gigabytes: int, **changes: Any) -> Request:
    return request(LLAMA_70B_FP8, engine=replace(ENGINE, residency=CpuOffload(gigabytes * GIB)), **changes)


@pytest.mark.parametrize(("degree", "engines"), [(1, 4), (2, 2), (4, 1)])
def test_ranks_ask_for_cores_so_eight_gpus_on_eight_cores_stay_idle_in_part(degree: int, engines: int) -> None:
    """One engine takes a core, and each of its GPUs one: 2, 3 and 5 of the eight."""
    where = fleet(hosted(node("l4", L4, 8), HostRoom(8000, 999 * GIB, 99)), hosted(node("h", H100, 8), LARGE))
    many = tenant(request(name="many", created="1", replicas=8, overrides=on(L4, degree)))
    neighbour = tenant(request(name="neighbour", created="2", overrides=on(H100, 1)))
    for solver in (DEFAULT_SOLVER, fleetwide()):
        asked, served = plan([many, neighbour], where, solver=solver)
        assert (sum(each.replicas for each in asked.pools), asked.missing) == (engines, 8 - engines)
        assert served.missing == 0


def test_memory_of_many_ranks_binds_too() -> None:
    """Two GPUs take 11 GiB, so two engines have 22."""
    for free, engines in ((22, 2), (21, 1)):
        where = fleet(hosted(node("h", H100, 8), HostRoom(64_000, free * GIB, 99)))
        (decision,) = plan([tenant(request(replicas=4, overrides=on(H100, 2)))], where)
        assert sum(each.replicas for each in decision.pools) == engines


def test_the_memory_of_weights_in_host_memory_is_looked_for_before_a_place_is_promised() -> None:
    little = hosted(node("little", H100, 2), HostRoom(64_000, 48 * GIB, 99))
    enough = hosted(node("enough", H100, 2), HostRoom(64_000, 96 * GIB, 99))
    asked = offloaded(50, overrides=on(H100, 1))
    (waits,) = plan([tenant(asked)], fleet(little))
    (rejection,) = [each for each in waits.rejections if each.reason is Reason.NODE_LACKS_MEMORY]
    assert rejection.number("node") == "little"
    assert int(rejection.number("asked_bytes")) > 50 * GIB
    assert RemedyKind.LOWER_REQUESTS not in {remedy.kind for remedy in waits.remedies}, "the engine would be killed"
    (placed,) = plan([tenant(asked)], fleet(little, enough))
    assert placed.missing == 0


@pytest.mark.parametrize(("kind", "whole"), [(H100, 308), (MI300X, 608)])
def test_a_new_node_needs_the_host_memory_that_the_pod_asks_for_there(kind: str, whole: int) -> None:
    """300 GiB of KV cache are 300 GiB in /dev/shm on NVIDIA's GPUs, and up to twice as much in buffers on AMD's."""
    engine = replace(ENGINE, host=HostUse(kv_bytes=300 * GIB, by_spec=True))
    asked = replace(request(overrides=on(kind, 1)), engine=engine)
    neighbour = request(name="other")
    full = fleet(hosted(node("n", kind, 8), HostRoom(64_000, 60 * GIB, 99)))
    waits, placed = plan([tenant(asked), tenant(neighbour)], full, [gpu(kind)])
    assert (waits.missing, placed.missing) == (1, 0)
    said = [remedy_sentence(each) for each in waits.remedies]
    assert f"add a node with 1 {kind} and {whole}.00 GiB of host memory for a pod" in said
    enough = fleet(hosted(node("n", kind, 8), HostRoom(64_000, (whole + 20) * GIB, 99)))
    assert [each.missing for each in plan([tenant(asked), tenant(neighbour)], enough)] == [0, 0]


def test_splits_whose_share_of_the_weights_exceeds_the_limit_are_rejected_and_smaller_ones_taken() -> None:
    """20 GiB a GPU: one GPU keeps 21 with its process, two keep 42."""
    where = fleet(hosted(node("h", H100, 8), LARGE))
    verdicts = {
        verdict.split.gpus: verdict
        for verdict in options(offloaded(20, memory_limit_bytes=40 * GIB), where).verdicts
        if isinstance(verdict, Rejection) or verdict.split.pipeline_parallel == 1
    }
    assert isinstance(verdicts[1], Option)
    refused = verdicts[2]
    assert isinstance(refused, Rejection)
    assert (refused.reason, dict(refused.numbers)) == (
        Reason.HOST_MEMORY_TOO_SMALL,
        {
            "least_bytes": 42 * GIB,
            "stated_bytes": 40 * GIB,
            "field": "spec.podTemplate.resources.limits.memory",
        },
    )


def test_a_memo_does_not_mix_up_deployments_with_different_limits() -> None:
    where, memo = fleet(hosted(node("h", H100, 8), LARGE)), Memo()
    low, high = (offloaded(20, memory_limit_bytes=size * GIB) for size in (40, 400))
    for wanted in (low, high, low):
        assert options(wanted, where, memo) == options(wanted, where)


def test_deployments_that_differ_in_requests_alone_share_their_options() -> None:
    where, memo = fleet(hosted(node("h", H100, 8), LARGE)), Memo()
    first = options(request(memory_bytes=9 * GIB, cpu_limit_millis=4000), where, memo)
    assert options(request(cpu_millis=100, memory_limit_bytes=10 * GIB), where, memo) is first


def test_less_memory_than_the_estimate_is_taken_with_a_warning() -> None:
    where = fleet(hosted(node("h", H100, 8), HostRoom(64_000, 9 * GIB, 99)))
    (decision,) = plan([tenant(request(overrides=on(H100, 2), memory_limit_bytes=9 * GIB))], where)
    assert decision.missing == 0
    (warning,) = [each for each in decision.warnings if "spec.podTemplate.resources" in each]
    assert "9.00 GiB" in warning
    assert "11.00 GiB" in warning
    (usual,) = plan([tenant(request(constraints=GpuConstraints()))], where)
    assert not [each for each in usual.warnings if "podTemplate" in each]


def test_engines_without_a_node_keep_their_host_memory_as_well() -> None:
    """A decided replica that is not bound yet holds its 11 GiB, so the newcomer waits."""
    where = fleet(hosted(node("h", H100, 8), HostRoom(64_000, 16 * GIB, 99)))
    wanted = request(name="first", created="1", overrides=on(H100, 2))
    decided = pool(H100, 2, bound=0, ready=0)
    newcomer = tenant(request(name="second", created="2", overrides=on(H100, 1)))
    first, second = plan([tenant(wanted, decided), newcomer], where)
    assert (first.missing, second.missing) == (0, 1)
    assert {each.reason for each in second.rejections if each.split == Split(1)} == {Reason.NODE_LACKS_MEMORY}


@pytest.mark.parametrize(
    ("rooms", "free"),
    [
        ((HostRoom(8000, 9 * GIB), HostRoom(4000, 5 * GIB)), (12_000, 14 * GIB)),
        ((HostRoom(8000, 9 * GIB), HostRoom(-4000, -5 * GIB)), (8000, 9 * GIB)),
        ((HostRoom(8000, 9 * GIB), HostRoom(0, 0)), (8000, 9 * GIB)),
        ((HostRoom(8000, None), HostRoom(None, 5 * GIB)), (None, None)),
        ((HostRoom(), HostRoom()), (None, None)),
    ],
    ids=["two with room", "one overbooked", "one full", "one reports no limit", "no limits"],
)
def test_alike_nodes_have_the_room_of_all_and_an_overbooked_one_takes_none_away(
    rooms: tuple[HostRoom, ...], free: tuple[int | None, int | None]
) -> None:
    where = fleet(*(hosted(node(str(index), H100, 8), room, room) for index, room in enumerate(rooms)))
    asks = demand_of(tenant(request(replicas=3)), where, Memo())
    [group] = pose({0: asks}, where, Ledger.of(where)).problem.groups
    assert (group.cpu_millis, group.memory_bytes) == free
