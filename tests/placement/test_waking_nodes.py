"""Replicas that wait for nodes that do not exist: within the admin's limit, and only where nothing else takes them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.extra_pods import Waker
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L4, L40S, fleet, gpu, node, pool, request, tenant

LABEL = ("pool", "gpus")


def group(kind: str = L4, gpus: int = 1, *, most: str | None = "100", nodes: int = 10) -> NodeGroup:
    return NodeGroup(
        name=f"{kind}-group",
        gpu=gpu(kind, price="1"),
        resource="nvidia.com/gpu",
        gpus=gpus,
        most_gpus=nodes * gpus,
        labels=(LABEL,),
        members=(LABEL,),
        most_usd_per_hour=None if most is None else Decimal(most),
    )


def decided(where: Fleet, replicas: int = 1) -> Decision:
    (found,) = plan([tenant(request(context=2048, concurrency=2, replicas=replicas))], where)
    return found


def woken(*groups: NodeGroup, where: Fleet | None = None, replicas: int = 1, quota: Any = None) -> Decision:
    where = where or Fleet()
    return Waker.of(groups, where, ()).woken(decided(where, replicas), 3, "spec", quota or {})


def shape(decision: Decision) -> list[tuple[str, int, tuple[str, str]]]:
    return [(each.gpu_type, each.replicas, each.target.selector) for each in decision.pools]


def test_a_replica_without_a_place_waits_for_a_node_of_the_group_also_from_zero() -> None:
    found = woken(group())
    assert shape(found) == [(L4, 1, LABEL)]
    assert (found.missing, found.pools[0].generation, found.pools[0].spec) == (0, 3, "spec")


def test_no_pod_waits_where_no_admin_allows_it() -> None:
    assert shape(woken(group(most=None))) == []


def test_what_has_a_place_waits_for_nothing() -> None:
    found = woken(group(), where=fleet(node("l", L40S, 1)))
    assert [each.gpu_type for each in found.pools] == [L40S]


def test_only_those_without_a_place_wait() -> None:
    found = woken(group(), where=fleet(node("l", L40S, 1)), replicas=3)
    assert [(each.gpu_type, each.replicas) for each in found.pools] == [(L40S, 1), (L4, 2)]


def test_the_price_limit_counts_all_nodes_of_the_group() -> None:
    assert [each.replicas for each in woken(group(most="2"), replicas=5).pools] == [2]
    assert woken(group(most="0.50")).pools == ()
    full = fleet(node("a", L4, 1, held=1, labels=dict([LABEL])))
    waiting = pool(L4, replicas=2, bound=1)
    waiting = replace(waiting, target=replace(waiting.target, selector=LABEL))
    asked = decided(fleet(node("h", H100, 1, held=1)))
    for most, nodes in (("3", 1), ("2", 0)):
        waker = Waker.of([group(most=most)], full, [waiting])
        assert waker.awaited == {"l4-24gb-group": 1}
        assert len(waker.woken(asked, 1, "", {}).pools) == nodes


def test_a_pod_that_has_its_node_waits_for_none() -> None:
    there = pool(L4, replicas=2, bound=2)
    there = replace(there, target=replace(there.target, selector=LABEL))
    assert Waker.of([group()], Fleet(), [there, replace(there, bound=3)]).awaited == {"l4-24gb-group": 0}


def test_a_group_of_unknown_price_starts_nothing() -> None:
    assert shape(woken(replace(group(), gpu=gpu(L4, price=None)))) == []


def test_the_size_of_the_group_and_the_quota_bound_it() -> None:
    assert [each.replicas for each in woken(group(nodes=2), replicas=5).pools] == [2]
    assert [each.replicas for each in woken(group(), replicas=5, quota={"nvidia.com/gpu": 1}).pools] == [1]
    assert woken(group(), quota={"nvidia.com/gpu": 0}).pools == ()


def test_the_cheapest_group_that_takes_all_is_taken() -> None:
    assert shape(woken(group(L40S), group(L4)))[0][0] == L4
    dear = replace(group(L4), gpu=gpu(L4, price="9"))
    assert shape(woken(group(L40S), dear))[0][0] == L40S


def test_a_label_that_nodes_with_other_gpus_have_selects_no_group() -> None:
    full = fleet(node("h", H100, 1, held=1, labels=dict([LABEL])))
    assert woken(group(), where=full).pools == ()


def test_two_deployments_do_not_wait_for_the_same_node() -> None:
    waker = Waker.of([group(most="1")], Fleet(), ())
    assert [len(waker.woken(decided(Fleet()), 1, "", {}).pools) for _ in range(2)] == [1, 0]


@given(st.integers(1, 4), st.integers(0, 12), st.integers(1, 6), st.lists(st.integers(1, 8), min_size=1, max_size=5))
def test_never_more_nodes_than_the_limit_pays_for_and_nobody_gets_more_than_he_lacks(
    gpus: int, most: int, nodes: int, wanted: list[int]
) -> None:
    waker, taken = Waker.of([group(gpus=gpus, most=str(most), nodes=nodes)], Fleet(), ()), 0
    for replicas in wanted:
        found = waker.woken(decided(Fleet(), replicas), 1, "", {})
        got = sum(each.replicas for each in found.pools)
        assert got + found.missing == replicas
        taken += -(-got // gpus)
    assert taken <= min(most // gpus, nodes)
