"""Nodes of one GPU type whose labels differ are one candidate, and a running pool keeps the labels that it has."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.requests.serving import Overrides
from plimsoll.placement.demands.pools import Decision, Pool
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import candidates
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import SOLVERS
from tests.support.planning import A100, H100, L40S, fleet, node, pool, request, tenant

FIRST = ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
SECOND = ("nvidia.com/gpu.product", "H100-SXM5")
CLOUD = ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb")


def h100(name: str, label: tuple[str, str], gpus: int = 1, *, held: int = 0) -> GpuNode:
    return replace(node(name, H100, gpus, held=held), selector=label)


def decided(where: Fleet, *pools: Pool, replicas: int = 3) -> Decision:
    (decision,) = plan([tenant(request(replicas=replicas), *pools)], where)
    return decision


def test_nodes_of_one_type_are_one_candidate_with_all_their_labels() -> None:
    where = fleet(h100("a", SECOND), h100("b", CLOUD), h100("c", FIRST), h100("d", FIRST), node("e", L40S))
    found = [each for each in candidates(request(), where) if each.split == Split(1)]
    assert [each.gpu.name for each in found] == [H100, L40S]
    assert found[0].target.selector == FIRST, "the label of the most nodes comes first"
    assert found[0].target.labels == (FIRST, CLOUD, SECOND)
    assert found[1].target.other_labels == ()


def test_the_order_of_nodes_does_not_change_the_labels() -> None:
    nodes = [h100("a", SECOND), h100("b", FIRST), h100("c", CLOUD)]
    assert len({Fleet(tuple(order)).labels_of(H100) for order in (nodes, nodes[::-1], nodes[1:] + nodes[:1])}) == 1


def test_a_label_that_another_type_has_too_is_left_out_where_there_is_a_better_one() -> None:
    vague = ("nvidia.com/gpu.product", "NVIDIA-A100")
    smaller = replace(node("s", "a100-sxm-40gb"), selector=vague)
    larger = replace(node("l", A100), selector=vague)
    named = node("n", A100)
    where = fleet(smaller, larger, named)
    assert where.labels_of(A100) == (named.selector,)
    assert where.labels_of("a100-sxm-40gb") == (vague,), "it has no other label"


def test_three_replicas_are_one_pool_across_two_labels() -> None:
    for solver in SOLVERS.values():
        where = fleet(h100("a", FIRST), h100("b", SECOND), h100("c", SECOND), node("d", A100, 1))
        (decision,) = plan([tenant(request(replicas=3, overrides=Overrides(gpu_type=H100)))], where, solver=solver)
        (only,) = decision.pools
        assert (only.replicas, only.target.labels, decision.missing) == (3, (SECOND, FIRST), 0)


def test_a_running_pool_keeps_its_labels_when_another_label_appears() -> None:
    where = fleet(h100("a", FIRST, 8, held=1), h100("b", SECOND, 8))
    running = pool(H100, target=_target(FIRST))
    for replicas in (1, 2):
        (only,) = decided(where, running, replicas=replicas).pools
        assert only.choice is not None
        assert (only.target.labels, only.choice.target.labels, only.replicas) == ((FIRST,), (FIRST,), replicas)


def test_a_pool_gets_the_other_labels_where_its_pods_find_no_node_with_its_own() -> None:
    where = fleet(h100("a", FIRST, held=1), h100("b", SECOND))
    stuck = pool(H100, replicas=2, bound=1, ready=1, stranded=1, target=_target(FIRST))
    decision = decided(where, stuck, replicas=2)
    (only,) = decision.pools
    assert only.choice is not None
    assert (only.target.labels, only.replicas, decision.departures) == ((FIRST, SECOND), 2, ())
    assert only.choice.target == only.target


def test_a_pool_that_would_find_nothing_under_the_other_labels_keeps_its_own_and_is_offered_another_type() -> None:
    where = fleet(h100("a", FIRST, held=1), h100("b", SECOND, held=1), node("c", A100))
    stuck = pool(H100, replicas=2, bound=1, ready=1, stranded=1, target=_target(FIRST))
    decision = decided(where, stuck, replicas=2)
    assert {each.gpu_type: (each.replicas, each.target.labels[1:]) for each in decision.pools} == {
        H100: (1, ()),
        A100: (1, ()),
    }
    assert [each.gpu_type for each in decision.departures] == [H100]


def test_a_pool_with_all_labels_whose_pods_find_no_node_is_offered_another_type() -> None:
    where = fleet(h100("a", FIRST), h100("b", SECOND), node("c", A100))
    stuck = pool(H100, replicas=1, bound=0, ready=0, stranded=1, target=_target(FIRST, SECOND))
    assert decided(where, stuck, replicas=1).pools[0].gpu_type == A100


def _target(first: tuple[str, str], *others: tuple[str, str]) -> Target:
    return Target(H100, Split(1), first, "nvidia.com/gpu", others)


def test_a_node_that_becomes_free_under_another_label_is_noticed_in_the_next_pass() -> None:
    memo = Memo()
    stuck = pool(H100, replicas=2, bound=1, ready=1, stranded=1, target=_target(FIRST))
    asking = [tenant(request(replicas=2), stuck)]
    found = []
    for held in (1, 0):
        where = fleet(h100("a", FIRST, held=1), h100("b", SECOND, held=held))
        (decision,) = plan(asking, where, memo=memo)
        found.append(decision.pools[0].target.labels)
    assert found == [(FIRST,), (FIRST, SECOND)]
