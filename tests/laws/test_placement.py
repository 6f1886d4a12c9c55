"""Laws of the placement: more GPUs never hurt, no GPU is given twice, the same facts give the same answer."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.highs import fleetwide
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, Tenant
from plimsoll.placement.plan import plan
from tests.laws.room import is_within
from tests.laws.strategies import fleets, nodes, requests
from tests.support.tables import examples

pytestmark = pytest.mark.lengthy

pairs = st.tuples(requests("a"), requests("b"), requests("c"))


def replicas_placed(wanted: Request, where: Fleet) -> int:
    """Return the replicas that the operator's plan places; -1 where it has no place at all."""
    (decision,) = plan([Tenant(wanted, 1)], where, solver=fleetwide())
    return sum(pool.replicas for pool in decision.pools) if decision.pools else -1


@given(requests(), fleets(), nodes("new"))
@settings(max_examples=examples(80), deadline=None)
def test_one_node_more_never_places_less(wanted: Request, where: Fleet, new: GpuNode) -> None:
    known = {each.gpu.name: each.gpu for each in where.nodes}
    new = replace(new, gpu=known.get(new.gpu.name, new.gpu))
    assert replicas_placed(wanted, where.with_nodes([*where.nodes, new])) >= replicas_placed(wanted, where)


@given(requests(), fleets(), st.integers(1, 200))
@settings(max_examples=examples(80), deadline=None)
def test_more_memory_on_every_gpu_never_places_less(wanted: Request, where: Fleet, more_gib: int) -> None:
    def larger(each: GpuNode) -> GpuNode:
        return replace(each, gpu=replace(each.gpu, usable_bytes=each.gpu.usable_bytes + more_gib * 2**30))

    grown = where.with_nodes(larger(each) for each in where.nodes)
    assert replicas_placed(wanted, grown) >= replicas_placed(wanted, where)


@given(requests(), fleets())
@settings(max_examples=examples(80), deadline=None)
def test_gpus_that_are_freed_never_hurt(wanted: Request, where: Fleet) -> None:
    empty = where.with_nodes(replace(each, held=0) for each in where.nodes)
    assert replicas_placed(wanted, empty) >= replicas_placed(wanted, where)


@given(pairs, fleets())
@settings(max_examples=examples(60), deadline=None)
def test_a_plan_never_promises_a_gpu_twice(wanted: tuple[Request, ...], where: Fleet) -> None:
    decisions = plan([Tenant(each, 1) for each in wanted], where)
    assert is_within(decisions, where)
    for decision in decisions:
        assert sum(pool.replicas for pool in decision.pools) + decision.missing == decision.request.replicas


@given(pairs, fleets())
@settings(max_examples=examples(40), deadline=None)
def test_a_second_pass_over_what_the_first_decided_changes_nothing(wanted: tuple[Request, ...], where: Fleet) -> None:
    first = plan([Tenant(each, 1) for each in wanted], where)
    again = plan([Tenant(each.request, 1, tuple(map(waiting, each.pools))) for each in first], where)
    assert is_within(again, where)
    assert [sizes(each) for each in again] == [sizes(each) for each in first]
    assert [each.missing for each in again] == [each.missing for each in first]


@given(pairs, fleets(), st.randoms(use_true_random=False))
@settings(max_examples=examples(40), deadline=None)
def test_the_order_of_the_input_is_no_part_of_the_answer(
    wanted: tuple[Request, ...], where: Fleet, dice: random.Random
) -> None:
    tenants = [Tenant(each, 1) for each in wanted]
    shuffled = dice.sample(tenants, len(tenants))
    mixed = Fleet(tuple(dice.sample(where.nodes, len(where.nodes))))
    assert plan(shuffled, mixed.with_nodes(mixed.nodes)) == plan(tenants, where)


def sizes(decision: Decision) -> Counter[str]:
    return Counter({pool.name: pool.replicas for pool in decision.pools})


def waiting(pool: PlannedPool) -> Pool:
    """The pool as the next pass finds it: decided, its pods made, none of them bound yet."""
    return Pool(
        name=pool.name,
        target=pool.target,
        state=PoolState.ACTIVE,
        generation=pool.generation,
        replicas=pool.replicas,
    )
