"""CPU, memory and pod slots of GPU nodes: no engine is promised to a node that has none left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.fleet import GpuNode
from plimsoll.domain.host import UNKNOWN_HOST, HostNeed, HostRoom
from plimsoll.domain.reasons import Reason, RemedyKind
from plimsoll.domain.units import GIB
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.plan import plan
from plimsoll.render.conditions import conditions
from plimsoll.render.report import Report
from tests.support.planning import H100, L40S, fleet, node, request, tenant

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
    told = conditions(Report("x", 1, 1, decision=decision), {}, "2026-01-01T00:00:00Z")
    assert {each["type"]: each["reason"] for each in told}["Ready"] == "WaitingForNodeResources"
    assert "Stalled" not in {each["type"] for each in told}


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
    assert (ledger.room_for((whole,), 1, need), ledger.room_for((halves,), 1, need)) == (2, 2)
    after = ledger.take((halves,), 1, 1, need)
    assert (after.room_for((whole,), 1, need), after.room_for((halves,), 1, need)) == (1, 1)
    assert (after.room_for((whole,), 1), after.largest((whole,))) == (2, 2)
    with pytest.raises(ValueError, match="over-committed"):
        after.take((whole,), 1, 2, need)


def test_an_update_starts_first_only_where_the_host_has_room_for_one_more() -> None:
    roomy, tight = HostRoom(4000, 999 * GIB, 99), HostRoom(3999, 999 * GIB, 99)
    for free, surge in ((roomy, True), (tight, False)):
        (decision,) = plan([tenant(request())], fleet(hosted(node("h", H100, 8), free)))
        assert decision.pools[0].surge is surge
