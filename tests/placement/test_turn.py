"""The turn of one deployment: what it may take at its bounds, and what it gives back."""

from __future__ import annotations

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.placement.demands.pools import Decision, PoolState
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.plan import plan
from tests.support.planning import A100, H100, L4, L40S, fleet, node, pool, request, tenant

A40, L40 = "a40-48gb", "l40-48gb"


def active(decision: Decision) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools if each.state is PoolState.ACTIVE}


def test_a_change_that_has_room_for_some_replicas_opens_one_pool_for_them() -> None:
    """The search for all of them at once is undone: it does not count as one more pool."""
    kept = (H100, L40S, A100)
    nodes = [*(node(kind, kind, 1, held=1) for kind in kept), node("new", A40, 1), node("old", L4, 1)]
    denied = request(replicas=5, constraints=GpuConstraints(deny=(L4,)))
    failing = pool(L4, generation=1, bound=0, ready=0)
    who = tenant(denied, *(pool(kind, generation=2) for kind in kept), failing, generation=2)
    (decision,) = plan([who], fleet(*nodes))
    assert (active(decision), decision.missing) == ({**dict.fromkeys(kept, 1), A40: 1}, 1)


def test_a_pool_that_is_there_takes_replicas_that_leave_another() -> None:
    kinds = (H100, L40S, A100, A40)
    nodes = [*(node(kind, kind, 1, held=1) for kind in kinds[1:]), node("h", H100, 8, held=1), node("l", L40, 8)]
    moved = pool(A40, bound=0, ready=0, stranded=1, obstacle="InsufficientGpus")
    who = tenant(
        request(replicas=4, constraints=GpuConstraints(deny=(L40,))), *(pool(kind) for kind in kinds[:3]), moved
    )
    (decision,) = plan([who], fleet(*nodes))
    assert active(decision) == {H100: 2, L40S: 1, A100: 1}
    assert [each.place for each in decision.departures] == [(A40, Split(1))]


def test_an_emptied_pool_makes_room_for_another_one_in_the_same_pass() -> None:
    stranded = pool(L4, bound=0, ready=0, stranded=1, obstacle="InsufficientGpus")
    nodes = (node("l4", L4, 4), node("l", L40S, 1), node("h", H100, 2))
    (decision,) = plan([tenant(request(replicas=3), stranded)], fleet(*nodes))
    assert active(decision) == {L40S: 1, H100: 2}
    assert decision.missing == 0


def test_replicas_that_stay_are_counted_where_only_some_of_a_pool_leave() -> None:
    partly = pool(L40S, replicas=3, bound=2, ready=2, stranded=1, obstacle="InsufficientGpus")
    (decision,) = plan([tenant(request(replicas=4), partly)], fleet(node("l", L40S, 8, held=2), node("h", H100, 8)))
    assert active(decision) == {L40S: 2, H100: 2}


def test_a_change_with_room_for_some_waits_and_names_the_shortage_first() -> None:
    wanted = request(replicas=3, constraints=GpuConstraints(deny=(L40S,)))
    nodes = (node("l", L40S, 3, held=3), node("h", H100, 2))
    (decision,) = plan([tenant(wanted, pool(L40S, replicas=3, generation=1), generation=2)], fleet(*nodes))
    assert (active(decision), decision.change_blocked) == ({L40S: 3}, True)
    first = decision.rejections[0]
    assert (first.gpu_type, first.split, first.reason) == (H100, Split(1), Reason.GPUS_TAKEN)


def test_what_one_deployment_takes_is_charged_to_its_namespace_for_all_its_replicas() -> None:
    first, second = (request(name=name, created=name, replicas=2) for name in "ab")
    quotas = {"default": {"nvidia.com/gpu": 3}}
    decisions = plan([tenant(first), tenant(second)], fleet(node("h", H100, 8)), quotas=quotas)
    assert [(active(each), each.missing) for each in decisions] == [({H100: 2}, 0), ({H100: 1}, 1)]


def test_a_deployment_without_replicas_gets_a_place_and_takes_no_gpu_from_others() -> None:
    paused, other = request(name="a", created="1", replicas=0), request(name="b", created="2")
    decisions = plan([tenant(paused), tenant(other)], fleet(node("h", H100, 1)))
    assert [active(each) for each in decisions] == [{H100: 0}, {H100: 1}]
    assert [(each.missing, each.rejections != ()) for each in decisions] == [(0, True), (0, True)]


def test_a_deployment_without_replicas_gets_a_place_where_every_gpu_is_taken() -> None:
    (decision,) = plan([tenant(request(replicas=0))], fleet(node("h", H100, 1, held=1)))
    assert (active(decision), decision.missing, decision.remedies) == ({H100: 0}, 0, ())


def test_a_change_that_needs_no_new_replica_takes_no_gpu_from_others() -> None:
    """The H100 already holds the only replica that is wanted, so the pool on the forbidden type just retires."""
    denied = request(name="a", created="1", constraints=GpuConstraints(deny=(L40S,)))
    who = tenant(denied, pool(H100, generation=2), pool(L40S, generation=1), generation=2)
    nodes = (node("h", H100, 2, held=1), node("l", L40S, 1, held=1))
    changed, other = plan([who, tenant(request(name="b", created="2"))], fleet(*nodes))
    assert (active(changed), changed.missing, changed.change_blocked) == ({H100: 1}, 0, False)
    assert (active(other), other.missing) == ({H100: 1}, 0)


def test_a_pool_that_may_not_leave_its_place_any_more_holds_no_other_back() -> None:
    """The deployment has left four places, which is as many as it may. One pool waits at the fourth of them."""
    gone = [Rehoming(kind, Split(1), "InsufficientGpus", at=1.0) for kind in (H100, A100, L40, L4)]
    fifth, fourth = (
        pool(kind, replicas=2, bound=0, ready=0, stranded=2, obstacle="InsufficientGpus") for kind in (A40, L4)
    )
    who = tenant(request(replicas=4), fifth, fourth, left=tuple(gone))
    (decision,) = plan([who], fleet(node("a", A40, 2), node("4", L4, 2), node("l", L40S, 8)))
    assert active(decision) == {A40: 4}, "the replicas at the fourth place go to GPUs that are free"
    assert [each.place for each in decision.departures] == [(L4, Split(1))]
