"""The record of a plan: the bill before and after, what has no place, what moves, and how good it is."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.domain.decisions.latency import Objective
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.fleet_record import FleetRecord, record_of
from plimsoll.placement.transition.hypothesis import Plan
from tests.support.planning import H100, L40S, fleet, gpu, node, pool, request, tenant
from tests.support.world_plans import planned

L40S_2, H100_6 = gpu(L40S, price="2"), gpu(H100, price="6")
WHERE = fleet(node("l", L40S_2, 4, held=1), node("h", H100_6, 2))


def plan_of(*tenants: Tenant) -> Plan:
    return planned(list(tenants), WHERE)


def test_the_bill_counts_what_ran_and_what_is_placed() -> None:
    runs = tenant(request(name="runs", created="1"), pool(L40S))
    asks = tenant(request(name="asks", created="2", replicas=2, objective=Objective.BATCH))
    record = record_of(plan_of(runs, asks), 1.0)
    assert (record.bill_before, record.bill_after) == (Decimal(2), Decimal(6))
    assert (record.unplaced, record.moved) == (0, 0)
    assert record.appraisal is not None
    assert (record.appraisal.bill, record.appraisal.gap) == (4.0, 0.0)


def test_what_has_no_place_is_counted_and_a_settled_fleet_has_no_appraisal() -> None:
    runs = tenant(request(name="runs", created="1"), pool(L40S))
    assert record_of(plan_of(runs), 1.0).appraisal is None
    greedy = tenant(request(name="greedy", created="2", replicas=9))
    assert record_of(plan_of(runs, greedy), 1.0).unplaced == 9 - 5


@pytest.mark.parametrize(("replicas", "charge"), [(1, 0.0), (3, 0.0), (9, 1.8)])
def test_an_appraisal_has_the_bill_of_what_was_placed_with_the_charge_of_a_mix(replicas: int, charge: float) -> None:
    """Nine replicas have no room on one GPU type. They may be on two of them for a tenth of the cheaper one's bill."""
    asks = [tenant(request(name=name, replicas=replicas, objective=Objective.BATCH)) for name in ("a", "b")]
    record = record_of(plan_of(*asks), 1.0)
    assert record.appraisal is not None
    assert record.appraisal.bill == pytest.approx(float(record.bill_after - record.bill_before) + charge)
    assert record.appraisal.bound is None or 0 < record.appraisal.bound <= record.appraisal.bill + 1e-6


def test_of_nothing_nothing_is_recorded() -> None:
    assert record_of(plan_of(), 0.0) == FleetRecord()


def test_replicas_that_found_no_node_count_as_moved_and_new_ones_do_not() -> None:
    stranded = tenant(request(name="lost", created="1", replicas=3), pool(H100, replicas=3, bound=1, stranded=2))
    assert record_of(plan_of(stranded), 1.0).moved == 2
    one = tenant(request(name="lost", created="1"), pool(H100, bound=0, stranded=1))
    assert record_of(plan_of(one), 1.0).moved == 1
    grows = tenant(request(name="grows", created="1", replicas=3), pool(L40S))
    assert record_of(plan_of(grows), 1.0).moved == 0


def test_a_type_without_a_price_counts_nothing() -> None:
    free = fleet(node("l", gpu(L40S, price=None), 4))
    assert record_of(planned([tenant(request())], free), 1.0).bill_after == 0


def test_the_time_spent_makes_no_difference() -> None:
    record = record_of(plan_of(tenant(request())), 1.0)
    assert record == replace(record, seconds=2.0)
    assert record != FleetRecord()
