"""Volumes that turn out to be elsewhere, or are made again elsewhere: pods follow them, and come back after them."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.node_rules import Claim, NodeRule, Requirement, rules_of
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.demands.failed_moves import Delay
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant
from plimsoll.placement.demands.rehoming import Departure, Rehoming
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L4, L40S, fleet, node, pool, request, tenant
from tests.support.tables import every_case

ZONE = "topology.kubernetes.io/zone"
ONE = Split(1)
ELSEWHERE, NOT_THERE, NO_GPUS = "VolumeElsewhere", "NoVolumeThere", "InsufficientGpus"

WHERE = fleet(node("l4", L4, 4, labels={ZONE: "a"}), node("h", H100, 4, labels={ZONE: "b"}))


def in_zones(*zones: str) -> tuple[NodeRule, ...]:
    return rules_of([Claim("weights", terms=((Requirement(ZONE, "In", zones),),))]) if zones else ()


def stranded(obstacle: str = ELSEWHERE) -> Pool:
    return pool(L4, bound=0, ready=0, stranded=1, obstacle=obstacle)


def decided(*pools: Pool, zones: tuple[str, ...] = ("b",), left: str = "", replicas: int = 1) -> Decision:
    wanted = request(replicas=replicas, node_rules=in_zones(*zones))
    places = (Rehoming(left, ONE, NO_GPUS, at=0.0),) if left else ()
    (decision,) = plan([tenant(wanted, *pools, left=places)], WHERE)
    return decision


def active(decision: Decision) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools if each.state is PoolState.ACTIVE}


def waiting(**changes: int) -> Pool:
    """A pod that has no node because of its volumes: no other node would help, as far as the scheduler says."""
    return pool(L4, bound=0, ready=0, stuck=1, obstacle="VolumesNotReady", **changes)


def test_pods_that_wait_for_a_volume_stay_unless_it_is_known_to_be_elsewhere() -> None:
    for zones in ((), ("a",), ("a", "b")):
        stays = decided(waiting(), zones=zones)
        assert active(stays) == {L4: 1}
        assert stays.departures == ()
    leaves = decided(waiting(), zones=("b",))
    assert active(leaves) == {H100: 1}
    assert leaves.departures == (Departure(L4, ONE, ELSEWHERE),)


def test_only_those_without_a_node_leave() -> None:
    both = pool(L4, replicas=2, bound=1, ready=1, stuck=1, obstacle="VolumesNotReady")
    assert active(decided(both, zones=("b",), replicas=2)) == {L4: 1, H100: 1}


@every_case(
    ("obstacle", "zones", "reason"),
    [
        (ELSEWHERE, ("b",), ELSEWHERE),
        (NOT_THERE, ("b",), ELSEWHERE),
        (NOT_THERE, (), NOT_THERE),
        (NOT_THERE, ("a", "b"), NOT_THERE),
        (NO_GPUS, ("a", "b"), NO_GPUS),
    ],
)
def test_pods_follow_a_volume_also_where_it_rules_out_all_nodes_of_their_type_and_it_is_said(
    obstacle: str, zones: tuple[str, ...], reason: str
) -> None:
    decision = decided(stranded(obstacle), zones=zones)
    assert active(decision) == {H100: 1}
    assert decision.departures == (Departure(L4, ONE, reason),)


def test_a_pod_that_has_its_node_stays_whatever_is_said_of_its_volume() -> None:
    decision = decided(pool(L4))
    assert (active(decision), decision.departures) == ({L4: 1}, ())


def test_a_place_that_is_only_held_follows_the_volume_and_the_place_of_a_lost_node_is_kept() -> None:
    held = pool(L4, replicas=0)
    assert active(decided(held, replicas=0)) == {H100: 0}
    assert active(decided(held, zones=("a",), replicas=0)) == {L4: 0}
    assert active(decided(pool(L40S, replicas=0), replicas=0)) == {L40S: 0}


def test_a_place_that_was_left_is_gone_back_to_where_the_volume_leaves_no_other_one() -> None:
    assert active(decided(stranded(), left=H100)) == {H100: 1}


def test_it_stays_closed_while_another_place_is_possible_or_the_present_one() -> None:
    wanted = request(node_rules=in_zones("b"))
    more = fleet(*WHERE.nodes, node("l", L40S, 4, labels={ZONE: "b"}))
    for closed, taken in ((L40S, H100), (H100, L40S)):
        (decision,) = plan([tenant(wanted, stranded(), left=(Rehoming(closed, ONE, NO_GPUS, at=0.0),))], more)
        assert active(decision) == {taken: 1}
    for zones in ((), ("a", "b")):
        decision = decided(stranded(), zones=zones, left=H100)
        assert (active(decision), decision.departures) == ({L4: 1}, ())


def moved(cause: str, zones: tuple[str, ...]) -> Tenant:
    """A move to an L4 whose time is over, while the engine on the H100 still serves."""
    late = pool(L4, bound=0, ready=0, delay=Delay(cause))
    wanted = request(node_rules=in_zones(*zones))
    return tenant(wanted, late, replace(pool(H100), state=PoolState.RETIRING), overdue=True)


def test_a_move_that_a_volume_ends_is_taken_back_and_closes_no_place_where_it_is_known_where_the_volume_is() -> None:
    for cause, zones, places in (
        (ELSEWHERE, ("b",), []),
        (ELSEWHERE, (), [L4]),
        ("EngineCrashed", ("b",), [L4]),
    ):
        (decision,) = plan([moved(cause, zones)], WHERE)
        assert active(decision) == {H100: 1}
        assert [each.gpu_type for each in decision.rolled_back] == places
